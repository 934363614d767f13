"""Job files: every key checked before anything runs, every refusal with its remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.places import EXAMPLES
from weft.errors import JobError
from weft.io.files.kind import FromFiles
from weft.io.kafka.kind import FromKafka
from weft.io.sinks.console import ToConsole
from weft.io.sinks.folders import ToJson, ToParquet
from weft.io.sinks.function import ToFunction
from weft.io.sinks.kafka import ToKafka
from weft.io.sinks.memory import ToMemory
from weft.io.sinks.postgres import ToPostgres
from weft.io.sinks.webhook import ToWebhook
from weft.io.sources.generator import FromGenerator
from weft.io.sources.spark_format import FromSpark
from weft.jobs.job import FromTable, Job, load, parse
from weft.jobs.sinks import ToSeveral, ToSome, check_choices

GOOD = """
[source]
kind = "files"
path = "trades"
max_files_per_batch = 2

[stream]
time = "ts"
lateness = "10 s"
idle_timeout = "1 min"
checkpoint = "state"

[queries]
sql = "SELECT count(*) AS n FROM trades GROUP BY window(ts, '1 minute')"

[sink]
kind = "parquet"
path = "answers"

[spark]
master = "local[2]"
buckets = 4
conf = { spark.sql.shuffle.partitions = 4, "spark.ui.enabled" = false }
"""


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_a_whole_job(tmp_path):
    job = parse(GOOD, tmp_path)
    assert job.source == FromFiles(tmp_path / "trades", max_files_per_batch=2)
    assert (job.stream.time, job.stream.lateness, job.stream.idle_timeout) == ("ts", 10_000_000, 60_000_000)
    assert job.stream.checkpoint == tmp_path / "state"
    assert job.sink == ToParquet(tmp_path / "answers")
    assert (job.spark.master, job.spark.buckets) == ("local[2]", 4)
    assert job.spark.conf == {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false"}


def test_the_least_job_has_sensible_defaults():
    job = parse('[source]\nkind = "generator"\n[stream]\ntime = "ts"\n[queries]\nsql = "SELECT 1"')
    assert isinstance(job.source, FromGenerator)
    assert job.sink == ToConsole()
    assert (job.stream.trigger, job.stream.close_at_end) == (None, None)


def test_a_spark_source_takes_any_format_and_options():
    job = parse(
        changed(
            'kind = "files"\npath = "trades"\nmax_files_per_batch = 2',
            'kind = "spark"\nformat = "rate"\noptions = { rowsPerSecond = 100 }',
        )
    )
    assert job.source == FromSpark("rate", {"rowsPerSecond": "100"})


def test_other_sinks():
    assert parse(changed('kind = "parquet"\npath = "answers"', 'kind = "memory"')).sink == ToMemory()
    job = parse(changed('kind = "parquet"\npath = "answers"', 'kind = "python"\nfunction = "math:sqrt"'))
    assert isinstance(job.sink, ToFunction)
    assert job.sink.load()(4) == 2


@pytest.mark.parametrize("function", ["math", "math:", "math:nothing", "no_such_module:f", "math:pi", ":f"])
def test_a_python_sink_that_cannot_be_loaded(function):
    with pytest.raises(JobError, match="function"):
        ToFunction(function).load()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed("[sink]", "[snik]"), r"unknown section \[snik\]; did you mean 'sink'\?"),
        (changed("lateness", "latenes"), r"unknown key 'latenes' in \[stream\]; did you mean 'lateness'\?"),
        (changed('"10 s"', "10"), r"\[stream\] lateness must be a duration in quotes.*not 10"),
        (changed('"10 s"', '"10 parsecs"'), r"\[stream\] lateness: unknown unit 'parsecs'"),
        (changed('"10 s"', '"-10 s"'), r"\[stream\] lateness.*negative"),
        (
            changed('kind = "files"', 'kind = "flies"'),
            r"\[source\] kind must be one of .* did you mean 'files'",
        ),
        (changed('kind = "files"', ""), r"\[source\] needs kind"),
        (changed('path = "trades"', ""), r"\[source\] of kind 'files' needs path"),
        (changed('path = "trades"', 'path = "trades"\nformat = "xml"'), r"\[source\] format must be one of"),
        (
            changed('path = "trades"', 'path = "t"\nrows = 5'),
            r"unknown key 'rows' in \[source\] of kind 'files'",
        ),
        (
            changed("max_files_per_batch = 2", "max_files_per_batch = true"),
            "must be a whole number, not True",
        ),
        (changed('time = "ts"', ""), r"\[stream\] needs time"),
        (changed("sql = ", "file = 'a'\nsql = "), r"\[queries\] needs either file"),
        (changed("sql = ", "# sql = "), r"\[queries\] needs either file"),
        (changed("sql = ", "file = 'missing.sql' #"), r"\[queries\] file 'missing.sql' cannot be read"),
        (changed("buckets = 4", "buckets = 'four'"), r"\[spark\] buckets must be a whole number"),
        (changed('"spark.ui.enabled" = false', "a = [1]"), r"\[spark\] conf.a must be text, a number"),
        ("source = 3\n", r"'source' must be a section"),
        ("[source]\nkind = ", "not valid TOML"),
        ("", r"the section \[source\] is missing"),
    ],
)
def test_refusals_say_what_where_and_what_to_do(text, message):
    with pytest.raises(JobError, match=message):
        parse(text)


def test_errors_in_a_file_name_the_file(tmp_path):
    path = tmp_path / "job.toml"
    with pytest.raises(JobError, match=r"job\.toml' cannot be read"):
        load(path)
    path.write_text("[sauce]")
    with pytest.raises(JobError, match=r"job\.toml: unknown section \[sauce\]"):
        load(path)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda p: p.stem)
def test_the_examples_are_good_jobs(path):
    assert isinstance(load(path), Job)


def test_static_tables(tmp_path):
    more = """
    [tables.close]
    path = "close.csv"
    delimiter = ";"
    [tables."dim.index"]
    path = "index"
    format = "json"
    schema = { sym = "string" }
    """
    job = parse(GOOD + more, tmp_path)
    assert job.tables == {
        "close": FromTable(tmp_path / "close.csv", delimiter=";"),
        "dim.index": FromTable(tmp_path / "index", "json", {"sym": "string"}),
    }
    assert parse(GOOD).tables == {}
    for wrong, message in (
        ("[tables.close]", r"\[tables.close\] needs path"),
        ("[tables]\nclose = 'x.csv'", r"write \[tables.close\] on a line of its own"),
        (
            "[tables.close]\npath = 'x'\nformat = 'xml'",
            r"\[tables.close\] format must be one of parquet, csv",
        ),
        ("[tables.close]\npaths = 'x'", r"unknown key 'paths' in \[tables.close\]; did you mean 'path'\?"),
    ):
        with pytest.raises(JobError, match=message):
            parse(f"{GOOD}\n{wrong}")


def test_python_files_that_define_aggregates(tmp_path):
    job = parse(changed("[queries]\n", '[queries]\naggregates = ["own.py", "sub/more.py"]\n'), tmp_path)
    assert job.aggregates == (tmp_path / "own.py", tmp_path / "sub/more.py")
    assert parse(GOOD).aggregates == ()
    for wrong in ('"own.py"', "[1]"):
        with pytest.raises(JobError, match="aggregates must be a list of paths in quotes"):
            parse(changed("[queries]\n", f"[queries]\naggregates = {wrong}\n"))


def test_late_rows_and_the_length_of_a_step(tmp_path: Path) -> None:
    text = GOOD.replace('time = "ts"', 'time = "ts"\ntarget_batch = "2 s"') + '\n[late]\npath = "lost"\n'
    job = parse(text, tmp_path)
    assert job.late.path == tmp_path / "lost"
    assert job.stream.target_batch == 2_000_000
    with pytest.raises(JobError, match=r"\[late\] needs path"):
        parse(text.replace('path = "lost"', ""), tmp_path)


def test_several_sinks_each_for_some_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALERT_TOKEN", "secret")
    sinks = """
    [[sink]]
    kind = "postgres"
    address = "postgresql://weft@db/answers"
    prefix = "w_"
    [[sink]]
    kind = "webhook"
    url = "https://alerts.example/${ALERT_TOKEN}"
    headers = { Authorization = "Bearer ${ALERT_TOKEN}" }
    timeout = "2 s"
    queries = ["alert_*"]
    [[sink]]
    kind = "kafka"
    servers = "broker:9092"
    topic = "answers"
    [[sink]]
    kind = "json"
    path = "lines"
    """
    text = changed('[sink]\nkind = "parquet"\npath = "answers"', sinks)
    hook = ToWebhook("https://alerts.example/secret", {"Authorization": "Bearer secret"}, timeout=2_000_000)
    assert parse(text, tmp_path).sink == ToSeveral(
        (
            ToPostgres("postgresql://weft@db/answers", prefix="w_"),
            ToSome(hook, ("alert_*",)),
            ToKafka("broker:9092", "answers"),
            ToJson(tmp_path / "lines"),
        )
    )
    for wrong, message in (
        ('queries = "alert"', "queries must be a list of names"),
        ("queries = []", "queries must be a list of names"),
    ):
        with pytest.raises(JobError, match=message):
            parse(text.replace('queries = ["alert_*"]', wrong))
    monkeypatch.delenv("ALERT_TOKEN")
    with pytest.raises(
        JobError, match=r"\[sink\] .* the environment's variable ALERT_TOKEN, which is not set"
    ):
        parse(text)


def test_a_sink_for_a_query_that_is_not_there() -> None:
    with pytest.raises(
        JobError, match=r"queries names 'busi', but no query is called so; did you mean 'busy'"
    ):
        check_choices(ToSeveral((ToSome(ToMemory(), ("busi",)),)), ["busy", "calm"])
    check_choices(ToSome(ToMemory(), ("busy", "later_*")), ["busy"])


def test_kafka_as_source() -> None:
    text = changed(
        'kind = "files"\npath = "trades"\nmax_files_per_batch = 2',
        'kind = "kafka"\nservers = "b:9092"\ntopic = "t"\ncolumns = { sent = "timestamp" }\n'
        'options = { security.protocol = "SSL" }',
    )
    wanted = FromKafka("b:9092", "t", columns={"sent": "timestamp"}, options={"security.protocol": "SSL"})
    assert parse(text).source == wanted


SEVERAL = """
[sources.a]
kind = "generator"
[sources.b]
kind = "generator"
[stream]
time = "ts"
[queries]
sql = "SELECT count(*) AS n FROM a [RANGE '1 min']"
"""


def test_lateness_of_each_stream() -> None:
    def lateness(value: str) -> dict[str, int | None]:
        return parse(SEVERAL.replace("[queries]", f"lateness = {value}\n[queries]")).lateness

    assert parse(SEVERAL).lateness == {"a": None, "b": None}
    assert lateness('"10 s"') == {"a": 10_000_000, "b": 10_000_000}
    assert lateness('{ a = "10 s", b = "0 s" }') == {"a": 10_000_000, "b": 0}
    assert lateness('{ b = "1 s" }') == {"a": None, "b": 1_000_000}
    for wrong, message in (
        ('{ c = "1 s" }', r"unknown stream 'c' in \[stream\] lateness; known: a, b"),
        ("{ a = 1 }", r"\[stream\] lateness.a must be a duration in quotes"),
        ('{ a = "1 parsec" }', r"\[stream\] lateness.a: unknown unit"),
    ):
        with pytest.raises(JobError, match=message):
            lateness(wrong)
    with pytest.raises(JobError, match=r"lateness by stream needs \[sources.NAME\]"):
        parse(changed('"10 s"', '{ trades = "10 s" }'))


def test_several_streams_have_tables_late_rows_and_steps_of_some_length(tmp_path: Path) -> None:
    more = "[late]\npath = 'lost'\n[tables.t]\npath = 'x.csv'\n[spark]\nnodes = 3\n"
    job = parse(SEVERAL.replace("[queries]", 'target_batch = "2 s"\n[queries]') + more, tmp_path)
    assert (job.late.path, list(job.tables), job.stream.target_batch) == (tmp_path / "lost", ["t"], 2_000_000)
    assert (job.spark.nodes, job.streams) == (3, ("a", "b"))
