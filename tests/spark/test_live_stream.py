"""Queries that join and leave a stream on Spark, also over restarts and crashes."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import weft
from support import trades
from support.commits import failing_commit
from weft.errors import CheckpointError, JobError, QueryError
from weft.io.files import Files
from weft.model.query import Query
from weft.runner.changes import Change
from weft.sinks import MemorySink, ParquetSink
from weft.spark import Progress, Run

LONG = """
SELECT symbol, avg(price) AS mean, count(price) AS priced
FROM trades GROUP BY symbol, window(ts, '4 minutes', '2 minutes')
"""
NEW = "SELECT symbol, max(volume) AS most FROM trades [RANGE '1 min'] GROUP BY symbol"
Start = Callable[..., Run]
FILES = 6
ROWS = 300


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return trades.table(FILES * ROWS)


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path, rows: pa.Table) -> Start:
    """Start a stream over six files of five minutes each; ``changes`` are made after the steps they name."""
    trades.write(rows, tmp_path / "in", files=FILES)

    def start(changes: dict[int, Callable[[Run], Any]] | None = None, **options: Any) -> Run:
        runs: list[Run] = []

        def progressed(progress: Progress) -> None:
            change = (changes or {}).get(progress.seq)
            if change is not None:
                while not runs:
                    pass
                change(runs[0])

        defaults = {
            "time": "ts",
            "checkpoint": tmp_path / "checkpoint",
            "trigger": "available now",
            "spark": spark,
            "buckets": 2,
            "on_progress": progressed,
        }
        files = Files(tmp_path / "in", max_files_per_batch=1)
        runs.append(weft.stream(files, options.pop("queries", trades.queries()), **(defaults | options)))
        return runs[0]

    return start


def expected(
    query: Query | str, name: str, rows: pa.Table, since: Any = None, until: int | None = None
) -> list[str]:
    """The query's windows over all rows, from ``since`` on; closed at the end, or up to a number of rows."""
    (read,) = weft.sql(query) if isinstance(query, str) else (query,)
    table = weft.run([read.renamed(name)], rows, time="ts")[name]
    found = [r for r in table.to_pylist() if since is None or r["window_start"] >= since]
    if until is not None:
        reached = rows.column("ts")[until - 1].as_py()
        found = [r for r in found if r["window_end"] <= reached]
    return sorted(map(repr, found))


def found(sink: MemorySink, name: str) -> list[str]:
    return sorted(map(repr, sink.tables[name].to_pylist()))


def test_queries_join_and_leave_between_batches(start: Start, rows: pa.Table) -> None:
    sink, asked = MemorySink(), {}
    changes = {
        1: lambda run: asked.update(long=run.add(LONG, "long"), calm=run.drop("calm")),
        3: lambda run: asked.update(new=run.add(NEW, "new")),
    }
    run = start(changes, sink=sink, close_at_end=True)
    run.await_done()
    assert [q.name for q in run.queries()] == ["busy", "everything", "long", "new"]
    long, calm, new = (future.result() for future in (asked["long"], asked["calm"], asked["new"]))
    assert (long.version, calm.version, new.version) == (2, 2, 3)
    # The average's parts are those of "calm", whose windows slide by one minute: three of them are open.
    assert long.history
    assert long.exact_from == rows.column("ts")[120].as_py()
    assert not new.history
    assert new.exact_from == rows.column("ts")[900].as_py()
    assert found(sink, "long") == expected(LONG, "long", rows, long.exact_from)
    assert found(sink, "new") == expected(NEW, "new", rows, new.exact_from)
    assert found(sink, "calm") == expected(trades.queries()[1], "calm", rows, until=ROWS)
    assert found(sink, "everything") == expected(trades.queries()[2], "everything", rows)
    assert found(sink, "busy") == expected(trades.queries()[0], "busy", rows)


def test_a_restart_goes_on_with_the_queries_there_were(start: Start, rows: pa.Table) -> None:
    sink, asked = MemorySink(), []

    def change(run: Run) -> None:
        asked.append(run.add(LONG, "long"))

    def stop(run: Run) -> None:
        run._driver.stopped = True

    start({2: change, 3: stop}, sink=sink).await_done()
    # Started with one query less, one more, and one that is another; "long" is not among them.
    given = [*weft.sql(trades.QUERIES.replace("2 minutes", "1 minute"))[1:], weft.sql(NEW)[0].renamed("new")]
    run = start(queries=given, sink=sink, close_at_end=True)
    run.await_done()
    assert [q.name for q in run.queries()] == ["calm", "long", "everything", "new"]
    assert found(sink, "calm") == expected(given[0], "calm", rows)
    assert found(sink, "long") == expected(LONG, "long", rows, asked[0].result().exact_from)
    seen = rows.column("ts")[3 * ROWS].as_py()
    assert found(sink, "new") == expected(NEW, "new", rows, seen)
    again = [r for r in sink.tables["everything"].to_pylist() if r["window_start"] >= seen]
    assert sorted(map(repr, again)) == expected(given[1], "everything", rows, seen)
    assert found(sink, "busy") == expected(trades.queries()[0], "busy", rows, until=3 * ROWS)


def test_a_step_made_again_has_the_same_queries(start: Start, rows: pa.Table, tmp_path: Path) -> None:
    sink, asked = MemorySink(), []

    def change(run: Run) -> None:
        asked.extend([run.add(LONG, "long"), run.drop("busy")])

    with failing_commit(3), pytest.raises(CheckpointError, match="no room"):
        start({2: change}, sink=sink).await_done()
    written = json.loads((tmp_path / "checkpoint" / "registry" / f"{2:010}.json").read_text())
    assert (written["seq"], [q["name"] for q in written["queries"]]) == (3, ["calm", "everything", "long"])
    assert 3 not in sink.steps, "what is not committed is not delivered"
    # What this run is started with differs too, but only from the step after on.
    start(queries=trades.queries()[:2], sink=sink, close_at_end=True).await_done()
    assert set(sink.steps[3]) == {"calm", "everything", "long"}
    assert "everything" not in sink.steps[4]
    assert found(sink, "long") == expected(LONG, "long", rows, asked[0].result().exact_from)
    assert found(sink, "calm") == expected(trades.queries()[1], "calm", rows)


def test_no_query_and_errors_at_once(start: Start, rows: pa.Table, tmp_path: Path) -> None:
    asked: list[Future[Change]] = []

    def refuse(run: Run) -> None:
        with pytest.raises(QueryError, match="unknown column 'nothing'"):
            run.add("SELECT max(nothing) AS m FROM trades [RANGE '1 min']")
        with pytest.raises(QueryError, match="of this name already"):
            run.add(NEW, "new")
        with pytest.raises(QueryError, match="there is no such query"):
            run.drop("old")
        with pytest.raises(JobError, match="other columns or types"):
            run.replace(NEW.replace("max(volume) AS most", "max(price) AS most"), "new")
        asked.append(run.replace(NEW.replace("max", "min"), "new"))

    changes = {
        2: lambda run: asked.append(run.add(NEW, "new")),
        4: refuse,
        6: lambda run: asked.append(run.drop("new")),
    }
    run = start(changes, queries=[], sink=ParquetSink(tmp_path / "out"))
    run.await_done()
    assert [q.name for q in run.queries()] == ["new"]
    with pytest.raises(JobError, match="ended before a batch took the change"):
        asked[2].result()
    with pytest.raises(JobError, match="the run has ended"):
        run.drop("new")
    written = pq.read_table(tmp_path / "out" / "new").to_pylist()
    turn = asked[1].result()
    assert turn.history is False
    before = [repr(r) for r in written if r["window_start"] < turn.exact_from]
    after = [repr(r) for r in written if r["window_start"] >= turn.exact_from]
    since = asked[0].result().exact_from
    assert sorted(before) == expected(NEW, "new", rows, since, until=4 * ROWS)
    assert sorted(after) == expected(NEW.replace("max", "min"), "new", rows, turn.exact_from, until=6 * ROWS)
