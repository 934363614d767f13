"""A query that cannot be answered stops alone: the others give what they would give without it."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from support.local_streams import start_stream
from weft.aggregates.registry import USER_FUNCTIONS
from weft.cli import main as cli
from weft.errors import AggregateError, AnswerOverflow
from weft.local.running import LocalRun
from weft.sinks import MemorySink

LARGEST = 2**63 - 1
BAD = """-- name: bad
SELECT k, sum(x) AS total FROM s GROUP BY k, window(ts, '2 minutes', '1 minute')"""
OTHERS = """
-- name: high
SELECT k, max(x) AS high, count(*) AS n FROM s GROUP BY k, window(ts, '2 minutes', '1 minute');
-- name: small
SELECT k, sum(x) AS total FROM s WHERE x < 1000 GROUP BY k, window(ts, '3 minutes', '1 minute');
-- name: mean
SELECT avg(y) AS mean FROM s GROUP BY window(ts, '1 minute')
"""


def batches(huge: int = 5, minutes: int = 10) -> Iterator[pa.Table]:
    """Six rows a minute; in minute ``huge`` two of one group whose sum does not fit."""
    for minute in range(minutes):
        when = datetime.datetime(2024, 1, 1, 0, minute)
        times = [when + datetime.timedelta(seconds=10 * n) for n in range(6)]
        x = [LARGEST if minute == huge and n in (1, 3) else 7 * n + minute for n in range(6)]
        yield pa.table({"ts": times, "k": ["p", "q"] * 3, "x": x, "y": [n / 7 + minute for n in range(6)]})


def rows(tables: dict[str, pa.Table]) -> dict[str, list[str]]:
    return {name: sorted(map(repr, table.to_pylist())) for name, table in tables.items()}


def run_of(text: str, strict: bool = False) -> LocalRun:
    schema = next(batches()).schema
    return LocalRun(weft.sql(text), schema, "ts", strict=strict, threads=2)


@pytest.fixture(autouse=True)
def undefined() -> Iterator[None]:
    yield
    USER_FUNCTIONS.pop("fragile", None)


def define_fragile(compiled: bool, **broken: Any) -> None:
    """A sum of one's own, with some of its functions replaced."""
    sums: dict[str, Any] = {"lift": lambda x: x, "combine": lambda a, b: a + b, "lower": lambda s: s}
    options = {"identity": 0, "result": "bigint", "compiled": compiled}
    weft.define_aggregate("fragile", **(sums | options | broken))


def test_the_others_are_answered_and_what_failed_is_raised_when_asked_for() -> None:
    with pytest.warns(RuntimeWarning, match="query 'bad', total: an integer sum does not fit 64 bits"):
        answers = weft.run(weft.sql(f"{BAD};{OTHERS}"), batches(), time="ts")
    assert rows(answers) == rows(weft.run(weft.sql(OTHERS), batches(), time="ts"))
    assert list(answers.failed) == ["bad"]
    for ask in (lambda: answers["bad"], lambda: answers.get("bad")):
        with pytest.raises(AnswerOverflow, match="query 'bad', total"):
            ask()
    assert answers.get("nobody") is None
    assert "query &#x27;bad&#x27;" in answers._repr_html_()


def test_where_all_fail_the_error_is_raised() -> None:
    with pytest.raises(AnswerOverflow, match="query 'bad', total"):
        weft.run(weft.sql(BAD), batches(), time="ts")


def test_under_strict_one_failing_query_stops_all() -> None:
    with pytest.raises(AnswerOverflow, match="query 'bad', total"):
        weft.run(weft.sql(f"{BAD};{OTHERS}"), batches(), time="ts", strict=True)


def test_a_query_leaves_in_the_step_in_which_it_fails_and_may_be_replaced() -> None:
    run, alone = run_of(f"{BAD};{OTHERS}"), run_of(OTHERS)
    given: list[dict[str, pa.Table]] = []
    for number, batch in enumerate(batches()):
        given.append(run.step(batch))
        assert rows({n: t for n, t in given[-1].items() if n != "bad"}) == rows(alone.step(batch))
        # The window that ends at :06 has both.
        assert ("bad" in run.failed) == (number >= 6)
        assert ("bad" in given[-1]) == (0 < number < 6)
    assert [q.name for q in run.queries()] == ["high", "small", "mean"]
    assert "does not fit 64 bits" in run.failed["bad"].message
    assert rows(run.close()) == rows(alone.close())


def test_a_failed_query_comes_back_by_replace_or_add_and_is_forgotten_by_drop() -> None:
    for change in ("replace", "add", "drop"):
        run = run_of(f"{BAD};{OTHERS}")
        for batch in batches():
            run.step(batch)
        assert list(run.failed) == ["bad"]
        asked = run.drop("bad") if change == "drop" else getattr(run, change)(BAD)
        later = pa.table({"ts": [datetime.datetime(2024, 1, 1, 2, m) for m in range(4)], "k": ["p"] * 4})
        later = later.append_column("x", pa.array(range(4))).append_column("y", pa.array([1.0] * 4))
        answered = run.step(later)
        assert asked.result().name == "bad"
        assert run.failed == {}
        assert ("bad" in answered) == (change != "drop")
        run.shutdown()


@pytest.mark.parametrize(
    ("role", "compiled"),
    [(role, compiled) for role in ("lift", "combine", "lower") for compiled in (True, False)],
)
def test_an_aggregate_of_ones_own_that_raises_stops_the_queries_that_reach_it(
    role: str, compiled: bool
) -> None:
    def lift(x: int) -> int:
        if x > 1000:
            raise ValueError("x is too large")
        return x

    def combine(a: int, b: int) -> int:
        if a > 1000 and b > 1000:
            raise ValueError("both are too large")
        return a + b

    def lower(s: int) -> int:
        if s > 1000:
            raise ValueError("s is too large")
        return s

    define_fragile(compiled, **{role: {"lift": lift, "combine": combine, "lower": lower}[role]})
    bad = BAD.replace("sum(x)", "fragile(x)")
    # This one keeps the same states, but never has such a row.
    guarded = OTHERS.replace("sum(x) AS total", "fragile(x) AS total")
    with pytest.warns(RuntimeWarning, match="query 'bad', total: fragile"):
        answers = weft.run(weft.sql(f"{bad};{guarded}"), batches(), time="ts")
    assert rows(answers) == rows(weft.run(weft.sql(guarded), batches(), time="ts"))
    with pytest.raises(AggregateError, match="query 'bad', total: fragile"):
        answers["bad"]
    with pytest.raises(AggregateError, match="fragile"):
        weft.run(weft.sql(f"{bad};{guarded}"), batches(), time="ts", strict=True)


def test_states_that_cannot_be_kept_stop_their_query_alone() -> None:
    define_fragile(
        False,
        lift=lambda x: (x, lambda: x),
        combine=lambda a, b: (a[0] + b[0], a[1]),
        lower=lambda s: s[0],
        identity=(0, None),
    )
    with pytest.warns(RuntimeWarning, match="query 'bad', total: fragile: its state cannot be kept"):
        answers = weft.run(weft.sql(f"{BAD.replace('sum', 'fragile')};{OTHERS}"), batches(), time="ts")
    assert rows(answers) == rows(weft.run(weft.sql(OTHERS), batches(), time="ts"))


def test_a_combine_that_raises_over_what_has_waited_for_many_steps() -> None:
    define_fragile(False, combine=lambda a, b: a + b if a + b < 1000 else 1 // 0)
    bad = "-- name: bad\nSELECT fragile(x) AS total FROM s GROUP BY window(ts, '1 hour')"
    run, alone = run_of(f"{bad};{OTHERS}"), run_of(OTHERS)
    for batch in batches(huge=-1, minutes=59):
        assert rows(run.step(batch)) == rows(alone.step(batch))
    assert not run.failed, "its window is not due, so that nothing has been combined"
    assert rows(run.close()) == rows(alone.close())
    assert list(run.failed) == ["bad"]


def test_windows_counted_in_rows_fail_alone_too() -> None:
    bad = "-- name: bad\nSELECT k, sum(x) AS total FROM s [ROWS 4 SLIDE 2] GROUP BY k"
    others = f"{OTHERS};-- name: last\nSELECT k, max(x) AS x FROM s [ROWS 4 SLIDE 2] GROUP BY k"
    with pytest.warns(RuntimeWarning, match="query 'bad', total"):
        answers = weft.run(weft.sql(f"{bad};{others}"), batches(), time="ts")
    assert rows(answers) == rows(weft.run(weft.sql(others), batches(), time="ts"))


JOINS = """
-- name: bad
SELECT a.k, sum(a.x) AS total FROM a [RANGE '30 s'], b [RANGE '30 s'] WHERE a.k = b.k
GROUP BY a.k, window('2 minutes');
-- name: counted
SELECT a.k, count(*) AS n FROM a [RANGE '30 s'], b [RANGE '30 s'] WHERE a.k = b.k
GROUP BY a.k, window('2 minutes');
-- name: pairs
SELECT a.x, b.y FROM a [RANGE '5 s'], b [RANGE '5 s'] WHERE a.k = b.k"""


def test_aggregates_over_joins_fail_alone_too() -> None:
    fine = [q for q in weft.sql(JOINS) if q.name != "bad"]
    with pytest.warns(RuntimeWarning, match="query 'bad', total"):
        answers = weft.run(weft.sql(JOINS), {"a": batches(), "b": batches()}, time="ts")
    alone = weft.run(fine, {"a": batches(), "b": batches()}, time="ts")
    assert rows(answers) == rows(alone)
    with pytest.raises(AnswerOverflow):
        answers["bad"]
    schema = next(batches()).schema
    run = LocalRun(weft.sql(JOINS), {"a": schema, "b": schema}, "ts")
    sink, told = MemorySink(), []
    stream = start_stream(run, {"a": batches(), "b": batches()}, sink, on_progress=told.append)
    assert stream.await_done()
    assert rows({n: sink.tables[n] for n in alone}) == rows(alone)
    assert "does not fit" in stream.failed["bad"].message
    assert "does not fit" in told[-1].failed["bad"]


def test_progress_says_from_when_on_a_query_has_failed() -> None:
    sink, told = MemorySink(), []
    stream = start_stream(run_of(f"{BAD};{OTHERS}"), batches(), sink, on_progress=told.append)
    assert stream.await_done()
    assert [bool(p.failed) for p in told] == [False] * 6 + [True] * 5
    assert [p.queries for p in told] == [4] * 6 + [3] * 5
    assert "query 'bad', total: an integer sum does not fit" in told[6].failed["bad"]
    assert list(stream.failed) == ["bad"]


JOB = """
[source]
kind = "files"
path = "in"
max_files_per_batch = 1
[stream]
time = "ts"
[queries]
file = "queries.sql"
[sink]
kind = "parquet"
path = "out"
"""


def test_a_job_goes_on_and_says_at_the_end_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    for number, batch in enumerate(batches()):
        pq.write_table(batch, tmp_path / "in" / f"{number:02}.parquet")
    (tmp_path / "queries.sql").write_text(f"{BAD};{OTHERS}")
    (tmp_path / "job.toml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["weft", "run", "job.toml", "--engine", "local"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr()
    assert ended.value.code == 1
    assert said.err.startswith("weft: 1 query failed, and all others have their results: query 'bad', total")
    assert len(said.err.splitlines()) == 1
    assert '"failed": {"bad": "query' in said.out
    alone = weft.run(weft.sql(OTHERS), batches(), time="ts")
    assert rows({name: pq.read_table(tmp_path / "out" / name) for name in alone}) == rows(alone)


def test_a_stream_goes_on_when_its_only_query_has_failed() -> None:
    sink, told = MemorySink(), []
    stream = start_stream(run_of(BAD), batches(), sink, on_progress=told.append)
    assert stream.await_done()
    assert (told[-1].queries, list(told[-1].failed), stream.queries()) == (0, ["bad"], ())
    assert sum(p.rows for p in told) == 60
