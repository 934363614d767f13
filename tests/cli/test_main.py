"""The commands as a person meets them: what they print, where, and how they end."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from rich.console import Console

from weft import aggregates
from weft.cli import demo
from weft.cli import main as cli
from weft.jobs.launch import RunFailed
from weft.jobs.report import Report, step_bar
from weft.testing.questions import text, varied

QUERIES = """
-- name: short
SELECT symbol, sum(volume) AS shares FROM trades [RANGE '12 min' SLIDE '9 min'] GROUP BY symbol;
-- name: long
SELECT symbol, avg(volume) AS mean FROM trades [RANGE '10 min' SLIDE '6 min'] GROUP BY symbol
"""
JOB = """
[source]
kind = "generator"
rows = 5000
rate = 5
symbols = 4
[stream]
time = "ts"
[queries]
file = "queries.sql"
[sink]
kind = "parquet"
path = "answers"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "queries.sql").write_text(QUERIES)
    (tmp_path / "job.toml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def weft(monkeypatch, capsys):
    """The command, in this process: (exit code, stdout, stderr)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["weft", *arguments])
        monkeypatch.setattr(cli, "out", Console(width=200))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call


def test_the_installed_command_says_its_version():
    said = subprocess.run([Path(sys.executable).parent / "weft", "--version"], capture_output=True, text=True)
    assert (said.returncode, said.stdout.split()[0]) == (0, "weft")


def test_help_lists_the_commands(weft):
    code, out, _ = weft("--help")
    assert code == 0
    for command in ("plan", "run", "serve", "query", "demo", "bench"):
        assert command in out


def test_plan_as_text(weft, folder):
    code, out, err = weft("plan", "queries.sql", "--rate", "375")
    assert (code, err) == (0, "")
    assert "short" in out
    assert "long" in out


def test_plan_says_what_it_assumes_and_names_what_auto_should_choose(weft, folder):
    _, out, _ = weft("plan", "queries.sql")
    assert "at 1,000 rows/s: " in out
    assert "% of one core" in out
    assert "(auto)" in out
    assert out.endswith("1,000 rows/s are assumed; --rate says how many there are\n")
    _, out, _ = weft("plan", "queries.sql", "--rate", "20", "--technique", "recompute")
    assert "assumed" not in out
    assert "(auto)" not in out


def test_plan_as_json(weft, folder):
    code, out, _ = weft("plan", "queries.sql", "--json")
    assert code == 0
    plan = json.loads(out)
    assert plan["strategy"] == "share-all"
    assert plan["unit"] == "ns/s"
    for tree in plan["trees"]:
        assert tree["technique"] == "auto"
        assert set(tree["expected"]) <= {"bulk", "recompute"}


def test_plan_shows_what_a_sample_shares(weft, folder):
    (folder / "rows.csv").write_text(
        "ts,symbol,volume\n2024-01-01T00:00:00,a,5\n2024-01-01T00:01:00,b,6\n2024-01-01T00:02:00,a,7\n"
    )
    code, out, err = weft("plan", "queries.sql", "--sample", "rows.csv")
    assert (code, err) == (0, "")
    assert "by symbol: shared; of 1 predicates a row satisfies 1; rows 3, fragments 1, shards 3" in out
    _, out, _ = weft("plan", "queries.sql", "--sample", "rows.csv", "--json")
    assert json.loads(out)["sharing"][0]["shards"] == 3
    code, _, err = weft("plan", "queries.sql", "--sample", "gone.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert "gone.csv" in err
    (folder / "rows.csv").write_text("symbol,volume\na,5\n")
    code, _, err = weft("plan", "queries.sql", "--sample", "rows.csv")
    assert (code, err) == (2, "weft: no column is a timestamp; say which is the time column\n")


def test_plan_of_queries_that_join_tables_needs_no_data(weft, folder):
    join = "FROM t [RANGE '1 min'] LEFT JOIN close c ON t.symbol = c.symbol"
    (folder / "join.sql").write_text(f"SELECT sum(cp) AS v {join} WHERE cp > 1")
    code, out, err = weft("plan", "join.sql", "--json")
    assert (code, err) == (0, "")
    (query,) = json.loads(out)["trees"][0]["queries"]
    assert query["joins"] == ["LEFT JOIN close AS c ON t.symbol = c.symbol"]


def test_plan_as_picture(weft, folder):
    code, out, _ = weft("plan", "queries.sql", "--svg", "plan.svg")
    assert (code, out) == (0, "")
    assert (folder / "plan.svg").read_text().lstrip().startswith("<svg")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("plan", "missing.sql"), "'missing.sql' cannot be read"),
        (("plan", "bad.sql"), "line 1, column 14"),
        (("plan", "binary.sql"), "not a text file"),
        (("plan", "queries.sql", "--strategy", "share-al"), "share-all"),
        (("plan", "queries.sql", "--json", "--svg", "x.svg"), "exclude each other"),
        (("plan", "queries.sql", "--svg", "no/such/folder.svg"), "cannot be written"),
        (("run", "missing.toml"), "cannot be read"),
        (("run", "bad.toml", "--engine", "local"), "unknown key 'tims' in [stream]; did you mean 'time'?"),
        (("run", "column.toml", "--engine", "local"), "'volumes'"),
        (("run", "rate.toml", "--engine", "local"), "needs Spark"),
        (("bench", "spark-nativ"), "did you mean 'spark-native'"),
        (("bench",), "spark-native"),
    ],
)
def test_bad_input_is_one_line_on_stderr_and_code_2(weft, folder, arguments, said):
    (folder / "bad.sql").write_text("SELECT symbol,\n  FROM trades GROUP BY")
    (folder / "binary.sql").write_bytes(b"\xff\xfe\x00SELECT")
    (folder / "bad.toml").write_text(JOB.replace("time =", "tims ="))
    (folder / "column.toml").write_text(
        JOB.replace('file = "queries.sql"', "sql = \"SELECT sum(volumes) AS s FROM t [RANGE '1 min']\"")
    )
    (folder / "rate.toml").write_text(
        JOB.replace(
            'kind = "generator"\nrows = 5000\nrate = 5\nsymbols = 4', 'kind = "spark"\nformat = "rate"'
        )
    )
    code, out, err = weft(*arguments)
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("weft: ")
    assert said in err


def test_wrong_usage_is_code_2(weft):
    assert weft("plan")[0] == 2
    assert weft("plam")[0] == 2


def test_a_failed_run_is_code_1_and_debug_shows_where(weft, folder):
    (folder / "job.toml").write_text(
        JOB.replace('kind = "parquet"\npath = "answers"', 'kind = "python"\nfunction = "operator:truediv"')
    )
    code, _, err = weft("run", "job.toml", "--engine", "local")
    assert code == 1
    assert err.startswith("weft: the sink FunctionSink failed at step 1: unsupported operand")
    with pytest.raises(RunFailed) as failed:
        sys.argv[1:] = ["--debug", "run", "job.toml", "--engine", "local"]
        cli.main()
    assert isinstance(failed.value.__cause__.__cause__, TypeError)


def test_run_in_process_writes_a_table_per_query_and_tells_each_step(weft, folder):
    code, out, err = weft("run", "job.toml", "--engine", "local")
    assert (code, err) == (0, "")
    *steps, closing = [json.loads(line) for line in out.splitlines()]
    assert sum(step["rows"] for step in steps) == closing["total"]["rows"] == 5000
    assert sum(step["results"] for step in steps) == sum(
        pq.read_table(folder / "answers" / name).num_rows for name in ("short", "long")
    )


@pytest.mark.slow
def test_run_on_spark_gives_what_the_process_gives(weft, folder, spark):
    assert weft("run", "job.toml", "--engine", "local")[0] == 0
    (folder / "on_spark.toml").write_text(JOB.replace('"answers"', '"spark_answers"'))
    code, out, err = weft("run", "on_spark.toml")
    assert (code, err) == (0, "")
    assert sum(json.loads(line)["rows"] for line in out.splitlines()[:-1]) == 5000
    for name in ("short", "long"):
        one, other = (
            pq.read_table(folder / place / name).sort_by(
                [("symbol", "ascending"), ("window_start", "ascending")]
            )
            for place in ("answers", "spark_answers")
        )
        assert one.num_rows > 0
        assert one.equals(other)


def test_the_console_sink_prints_tables(weft, folder):
    (folder / "job.toml").write_text(JOB.replace('kind = "parquet"\npath = "answers"', 'kind = "console"'))
    code, out, _ = weft("run", "job.toml", "--engine", "local")
    assert code == 0
    assert "window_start" in out


def test_bench_lists(weft):
    code, out, _ = weft("bench", "--list")
    assert code == 0
    assert "spark-native" in out


def test_the_demo_in_process(weft, folder):
    code, out, _ = weft("demo", "--engine", "local", "--queries", "12", "--rows", "50000")
    assert code == 0
    assert "weft ran all 12 in" in out
    assert "with the same answers" in out
    # On a pipe, a line a step, whole and without control characters.
    steps = [line for line in out.splitlines() if line.startswith("seq ")]
    assert len(steps) >= 2
    assert all("rows " in line or "results " in line for line in steps)
    assert "\x1b" not in out
    assert "\r" not in out


def test_the_demo_would_notice_a_wrong_answer():
    from weft.errors import WeftError
    from weft.local.run_queries import run
    from weft.sql import sql
    from weft.testing import trades

    question = varied(1)[0]
    answer = run(sql(text([question])), trades(1000), time="ts")[question.name]
    with pytest.raises(WeftError, match="differ"):
        demo.check(question, answer, answer.slice(1))


def test_a_terminal_gets_a_live_table():
    screen = io.StringIO()
    with Report(Console(file=screen, force_terminal=True, width=200)) as report:
        for seq in range(20):
            report.step({"seq": seq, "rows": 1_000_000, "watermark": 0, "state_bytes": 2_500_000})
    shown = screen.getvalue()
    assert "1,000,000" in shown
    assert "1970-01-01 00:00:00" in shown
    assert "2.5 MB" in shown


def test_a_terminal_gets_a_bar():
    screen = io.StringIO()
    with step_bar(Console(file=screen, force_terminal=True, width=100)) as progress:
        progress("native, N = 4", 1, 3)
    assert "native, N = 4" in screen.getvalue()


OWN = """
import math
import weft

def lift(x):
    return (math.log(x), 1)

weft.define_aggregate(
    "own_mean", lift=lift, combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
    lower=lambda s: math.exp(s[0] / s[1]), identity=(0.0, 0), result="double",
)
"""


@pytest.mark.slow
def test_aggregates_of_ones_own(weft, folder):
    (folder / "own.py").write_text(OWN)
    (folder / "queries.sql").write_text(QUERIES.replace("avg(volume)", "own_mean(volume)"))
    code, _, err = weft("plan", "queries.sql")
    assert code == 2
    assert "function 'own_mean' is not supported" in err
    code, out, _ = weft("plan", "queries.sql", "--aggregates", "own.py")
    assert code == 0
    assert "\nown_mean: user-defined, compiled\n" in out
    aggregates.USER_FUNCTIONS.clear()
    (folder / "job.toml").write_text(JOB.replace("[queries]", '[queries]\naggregates = ["own.py"]'))
    code, _, err = weft("run", "job.toml", "--engine", "local")
    assert (code, err) == (0, "")
    assert pq.read_table(folder / "answers" / "long").column("mean").null_count == 0
    data = cloudpickle.dumps(aggregates.USER_FUNCTIONS.pop("own_mean"))
    (folder / "own.py").unlink()
    # Another process, such as a task's, has neither the file nor the definition.
    read = "import pickle, sys; print(pickle.load(sys.stdin.buffer).lower.definition.lift(1.0))"
    said = subprocess.run([sys.executable, "-c", read], input=data, capture_output=True)
    assert said.stdout.split() == [b"(0.0,", b"1)"], said.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("weft.define_aggregate('sum')", "TypeError"),
        (None, "is not a Python file"),
    ],
)
def test_definitions_that_cannot_be_loaded(weft, folder, text, message):
    if text is not None:
        (folder / "own.py").write_text(f"import weft\n{text}\n")
    code, _, err = weft("plan", "queries.sql", "--aggregates", "own.py")
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1


def test_strategies_side_by_side(weft, folder):
    code, out, _ = weft("plan", "queries.sql", "--strategy", "all", "--nodes", "2", "--json")
    found = json.loads(out)
    assert code == 0
    assert {"share-all", "triweave", "WG_TN"} <= {each["strategy"] for each in found}
    costs = [each["cost"] for each in found if "cost" in each]
    assert costs == sorted(costs)
    code, out, _ = weft("plan", "queries.sql", "--strategy", "all")
    assert code == 0
    assert "dearer by" in out


def test_why_a_query_is_where_it_is(weft, folder):
    code, out, _ = weft("plan", "queries.sql", "--explain", "short")
    assert code == 0
    assert out.startswith("'short' (range ")
    assert "its own tree" in out


JOINS = """
-- name: near
SELECT t.place FROM temperature t [RANGE '1 min'], humidity h [RANGE '1 min'] WHERE t.place = h.place;
-- name: far
SELECT t.place FROM temperature t [RANGE '1 h'], humidity h [RANGE '1 h'] WHERE t.place = h.place
"""


def test_plan_of_joins(weft, folder):
    (folder / "joins.sql").write_text(JOINS)
    code, shown, _ = weft("plan", "joins.sql", "--rate", "10")
    assert code == 0
    assert shown.startswith("2 joins of humidity and temperature on (humidity.place = temperature.place)")
    assert "1 min  1 h" in shown
    found = json.loads(weft("plan", "joins.sql", "--json", "--chain", "cpu-opt", "--rate", "0.001")[1])
    assert [s["serves"] for s in found["chains"][0]["slices"]] == [["near", "far"]] * 2
    assert weft("plan", "joins.sql", "--explain", "far", "--rate", "10")[1] == shown


def test_plan_of_joins_and_window_queries(weft, folder):
    (folder / "both.sql").write_text(JOINS + "; SELECT count(*) AS n FROM humidity [RANGE '1 min']")
    shown = weft("plan", "both.sql")[1]
    assert "1 query in 1 tree" in shown
    assert "2 joins of humidity and temperature" in shown
    found = json.loads(weft("plan", "both.sql", "--json")[1])
    assert (len(found["trees"]), len(found["chains"])) == (1, 1)
    assert found["trees"][0]["stream"] == "humidity"
    assert weft("plan", "both.sql", "--svg", "both.svg")[0] == 0
    assert all(words in (folder / "both.svg").read_text() for words in ("tree 0 of humidity", "chain 0"))
    assert weft("plan", "both.sql", "--explain", "far")[1].startswith("2 joins of humidity and temperature")
    assert "in tree 0 with no other query" in weft("plan", "both.sql", "--explain", "q3")[1]
    code, _, said = weft("plan", "both.sql", "--strategy", "all")
    assert (code, "for window queries" in said) == (2, True)
    code, _, said = weft("plan", "both.sql", "--chain", "best")
    assert (code, "mem-opt, cpu-opt or a number of rows" in said) == (2, True)


def test_plan_of_aggregates_of_joins(weft, folder):
    paired = JOINS.replace("SELECT t.place FROM", "SELECT count(*) AS n FROM").replace(
        "h.place", "h.place GROUP BY window('1 min')"
    )
    (folder / "pairs.sql").write_text(paired)
    shown = weft("plan", "pairs.sql")[1]
    assert "2 queries in 1 tree" in shown
    assert "joined" in shown
    explained = weft("plan", "pairs.sql", "--explain", "far")[1]
    assert "in one chain" in explained
    assert "'far' (range 1 min, slide 1 min) is in tree 0" in explained


def test_a_sample_is_of_one_stream(weft, folder):
    (folder / "rows.csv").write_text("ts,place\n2024-01-01T00:00:00,a\n2024-01-01T00:01:00,b\n")
    query = "; SELECT count(*) AS n FROM {} [RANGE '1 min']"
    (folder / "both.sql").write_text(JOINS + query.format("humidity"))
    code, shown, _ = weft("plan", "both.sql", "--sample", "rows.csv")
    assert (code, "rows 2" in shown) == (0, True)
    (folder / "both.sql").write_text(JOINS + query.format("humidity") + query.format("temperature"))
    code, _, said = weft("plan", "both.sql", "--sample", "rows.csv")
    assert (code, "rows of one stream" in said, "humidity, temperature" in said) == (2, True, True)


def test_generate_prints_lines_of_json(weft, folder):
    asked = ("generate", "payments", "--rows", "5", "--seed", "3")
    code, printed, _ = weft(*asked)
    rows = [json.loads(line) for line in printed.splitlines()]
    assert (code, len(rows)) == (0, 5)
    assert list(rows[0]) == ["ts", "card", "merchant", "country", "amount"]
    assert weft(*asked)[1] == printed
    paced = [json.loads(line) for line in weft("generate", "clicks", "--rows", "9", "--pace")[1].splitlines()]
    assert len(paced) == 9
    code, _, said = weft("generate", "weather")
    assert (code, "must be one of trades, sensors" in said) == (2, True)
