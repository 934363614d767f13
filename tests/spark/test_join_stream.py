"""Joins of streams on Spark: the answers of all pairs, exactly once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import weft
from support.join_oracle import as_tuples, oracle, ordered
from support.joined_files import SECOND, START, joins, table, write
from weft.errors import CheckpointError, JobError, QueryError
from weft.io.files import Files
from weft.model.join import JoinQuery
from weft.sinks import MemorySink, ParquetSink
from weft.spark import Run
from weft.store.log import Entry

EQUAL = """
  -- name: near
  SELECT a.n, b.n AS m, a.x + b.x AS s FROM a [RANGE '10 s'], b [RANGE '10 s'] WHERE a.k = b.k;
  -- name: far
  SELECT a.n, b.n AS m FROM a [RANGE '60 s'], b [RANGE '25 s'] WHERE a.k = b.k AND a.x > 6;
  -- name: odd
  SELECT b.n, a.k FROM a [RANGE '30 s'], b [RANGE '40 s'] WHERE a.k = b.k AND a.x < 3 AND b.x > 4
"""
BAND = """
  -- name: close
  SELECT a.n, b.n AS m FROM a [RANGE '8 s'], b [RANGE '15 s'] WHERE abs(a.x - b.x) < 2 AND a.x <> 3;
  -- name: closer
  SELECT a.n, b.n AS m FROM a [RANGE '20 s'], b [RANGE '5 s'] WHERE abs(a.x - b.x) < 2 AND b.x > 5;
  -- name: less
  SELECT a.n, b.n AS m FROM a [RANGE '4 s'], b [RANGE '4 s'] WHERE a.x < b.x
"""


@pytest.fixture(scope="module")
def streams() -> dict[str, pa.Table]:
    return {"a": table(150, 1), "b": table(130, 2)}


Start = Callable[..., Run]


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Start:
    """Start joins over the files below ``tmp_path/a`` and ``tmp_path/b``, with their checkpoint beside."""

    def start(queries: list[Any], sources: dict[str, Any] | None = None, **options: Any) -> Run:
        defaults = {
            "time": "ts",
            "lateness": "3 s",
            "checkpoint": tmp_path / "checkpoint",
            "trigger": "available now",
            "buckets": 2,
            "spark": spark,
        }
        if sources is None:
            sources = {s: Files(tmp_path / s, max_files_per_batch=1) for s in ("a", "b")}
        run = weft.stream(sources, queries, **(defaults | options))
        assert isinstance(run, Run)
        return run

    return start


def check(found: dict[str, pa.Table], queries: list[JoinQuery], streams: dict[str, pa.Table]) -> None:
    for query in queries:
        expected = oracle(query, streams)
        assert expected, "a test of nothing"
        assert ordered(as_tuples(found[query.name])) == ordered(expected), query.name


@pytest.mark.parametrize("text", [EQUAL, BAND])
def test_files_as_all_pairs(start: Start, streams: dict[str, pa.Table], tmp_path: Path, text: str) -> None:
    write(streams["a"], tmp_path / "a", [40, 1, 60])
    write(streams["b"], tmp_path / "b", [10, 50])
    queries, sink = joins(text), MemorySink()
    run = start(queries, sink=sink, close_at_end=True)
    assert run.await_done()
    check(sink.tables, queries, streams)
    assert sum(p.rows for p in run.progress) == 280
    assert [p.kind for p in run.progress] == ["batch"] * 4 + ["flush"]
    assert [p.late for p in run.progress] == [0] * 5
    assert sum(p.results for p in run.progress[:-1]) > 0, "results do not wait for the end"
    assert run.queries() == tuple(queries)
    assert [len(chain.members) for chain in run.plan.chains] == ([3] if text is EQUAL else [2, 1])
    for step in sink.steps.values():
        for name, found in step.items():
            times = found.column("ts").cast(pa.int64()).to_pylist()
            assert times == sorted(times), name


def test_frames_as_sparks_own_join(
    spark: SparkSession, start: Start, streams: dict[str, pa.Table], tmp_path: Path
) -> None:
    sources: dict[str, DataFrame] = {}
    for name, sizes in (("a", [100]), ("b", [1, 60, 40])):
        write(streams[name], tmp_path / name, sizes)
        schema = spark.createDataFrame(streams[name].slice(0, 1)).schema
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        sources[name] = reader.parquet(str(tmp_path / name))
        spark.read.parquet(str(tmp_path / name)).createOrReplaceTempView(f"all_{name}")
    queries, sink = joins(EQUAL), ParquetSink(tmp_path / "out")
    start(queries, sources, sink=sink, close_at_end=True).await_done()
    native = spark.sql("""
        SELECT greatest(a.ts, b.ts) AS ts, a.n, b.n AS m FROM all_a a JOIN all_b b ON a.k = b.k AND a.x > 6
        AND b.ts < a.ts + INTERVAL 60 SECONDS AND a.ts < b.ts + INTERVAL 25 SECONDS
    """).toArrow()
    found = pq.read_table(tmp_path / "out" / "far")
    assert native.num_rows > 100
    assert ordered(as_tuples(found)) == ordered(as_tuples(native))
    check({q.name: pq.read_table(tmp_path / "out" / q.name) for q in queries}, queries, streams)


@pytest.mark.parametrize("text", [EQUAL, BAND])
def test_many_small_batches_and_restarts(
    start: Start, streams: dict[str, pa.Table], tmp_path: Path, text: str
) -> None:
    """Layers are merged on the way, and workers hold states of other steps than the last."""
    queries, sink = joins(text), MemorySink()
    for part in range(3):
        for name, rows in streams.items():
            some = rows.slice(part * 50, 50) if part < 2 else rows.slice(100)
            write(some, tmp_path / name, [7] * 6 if name == "a" else [9] * 5)
        run = start(queries, sink=sink, close_at_end=part == 2)
        run.await_done()
    assert len(sink.steps) > 18, "more than there may be layers"
    check(sink.tables, queries, streams)
    files = list((tmp_path / "checkpoint" / "slices").glob("*.parquet"))
    # Those of the last ten steps are kept, too, so that a stream can go on from an older one.
    assert len({f.name[:10] for f in files}) < 30, "what was merged or is of no more use is gone"


def test_a_replayed_batch_is_skipped_and_a_lost_one_made_again(
    start: Start, streams: dict[str, pa.Table], tmp_path: Path
) -> None:
    for name, rows in streams.items():
        write(rows, tmp_path / name, [50, 50])
    queries, sink = joins(EQUAL), MemorySink()
    start(queries, sink=sink).await_done()
    assert sorted(sink.steps) == [1, 2, 3]
    before = dict(sink.steps)
    # As after a crash between weft's commit and Spark's.
    for commit in (tmp_path / "checkpoint" / "spark" / "commits").glob("*0*"):
        commit.unlink()
    run = start(queries, sink=sink)
    run.await_done()
    assert run.progress == []
    # As after a crash before weft's commit: what was not committed never happened, and was not delivered.
    for commit in (tmp_path / "checkpoint" / "spark" / "commits").glob("*0*"):
        commit.unlink()
    for path in (tmp_path / "checkpoint" / "manifests").iterdir():
        if Entry.from_json(path.read_bytes()).seq == 3:  # the step, and the start of the second run
            path.unlink()
    again = start(queries, sink=sink, close_at_end=True)
    again.await_done()
    assert [p.seq for p in again.progress] == [3, 4]
    assert sink.steps[3] == before[3]
    check(sink.tables, queries, streams)


def test_a_step_that_a_sink_failed_in_is_delivered_again(
    start: Start, streams: dict[str, pa.Table], tmp_path: Path
) -> None:
    for name, rows in streams.items():
        write(rows, tmp_path / name, [50])

    class Failing(MemorySink):
        broken = True

        def deliver(self, results: Any, seq: int) -> None:
            super().deliver(results, seq)
            if seq == 2 and self.broken:
                raise OSError("disk full")

    queries, sink = joins(BAND), Failing()
    with pytest.raises(JobError, match="disk full"):
        start(queries, sink=sink).await_done()
    sink.broken = False
    start(queries, sink=sink, close_at_end=True).await_done()
    check(sink.tables, queries, streams)


def test_late_rows_and_rows_without_time(start: Start, tmp_path: Path) -> None:
    def rows(*times: int | None) -> pa.Table:
        instants = [None if t is None else START + t * SECOND for t in times]
        return pa.table(
            {
                "ts": pa.array(instants, pa.int64()).cast(pa.timestamp("us", "UTC")),
                "k": ["p"] * len(times),
                "n": list(range(len(times))),
            }
        )

    (query,) = joins("SELECT a.n, b.n AS m FROM a [RANGE '10 s'], b [RANGE '10 s'] WHERE a.k = b.k")
    write(rows(0, None, 20), tmp_path / "a", [2])
    write(rows(1, 21), tmp_path / "b", [1])
    sink = MemorySink()
    start([query], sink=sink).await_done()
    write(rows(16), tmp_path / "a", [])  # more than 3 s behind 20
    write(rows(19), tmp_path / "b", [])  # less than 3 s behind 21
    run = start([query], sink=sink, close_at_end=True)
    run.await_done()
    assert run.progress[0].late == 1
    assert sorted(as_tuples(sink.tables["q1"])) == [
        (START + SECOND, 0, 0),
        (START + 20 * SECOND, 2, 0),
        (START + 21 * SECOND, 2, 1),
    ]


def test_a_stream_with_itself(start: Start, streams: dict[str, pa.Table], tmp_path: Path) -> None:
    write(streams["a"], tmp_path / "a", [60])
    text = "SELECT p.n, q.n AS m FROM a p [RANGE '5 s'], a q [RANGE '2 s'] WHERE p.k = q.k AND q.x > 7"
    queries, files, sink = joins(text), Files(tmp_path / "a", max_files_per_batch=1), MemorySink()
    start(queries, {"a": files}, sink=sink, close_at_end=True).await_done()
    check(sink.tables, queries, streams)


def test_what_is_refused(
    start: Start, spark: SparkSession, streams: dict[str, pa.Table], tmp_path: Path
) -> None:
    for name, rows in streams.items():
        write(rows.slice(0, 20), tmp_path / name, [])
    queries, sink = joins(EQUAL), MemorySink()
    with pytest.raises(QueryError, match="there is no stream 'b'"):
        start(queries, {"a": Files(tmp_path / "a")}, sink=sink)
    frame = spark.read.parquet(str(tmp_path / "b"))
    with pytest.raises(JobError, match="not a stream"):
        start(queries, {"a": Files(tmp_path / "a"), "b": frame}, sink=sink)
    with pytest.raises(QueryError, match="'near'"):
        start(joins(EQUAL.replace("a.x + b.x", "a.z")), sink=sink)
    start(queries, sink=sink).await_done()
    more = {name: Files(tmp_path / name[0]) for name in ("a", "b", "bb")}
    with pytest.raises(CheckpointError, match="belongs to the streams a, b, not to the streams a, b, bb"):
        start(queries, more, sink=sink)
    windows = weft.sql("SELECT count(*) AS c FROM a [RANGE '5 s']")
    with pytest.raises(CheckpointError, match="belongs to the streams a, b, not to the stream a"):
        start(windows, {"a": Files(tmp_path / "a")}, sink=sink)


COUNTED = """
  SELECT a.k, count(*) AS c, sum(b.x) AS t FROM a [RANGE '10 s'], b [RANGE '10 s'] WHERE a.k = b.k
  GROUP BY a.k, window('10 s', '5 s')
"""


def test_joins_and_their_aggregates_change_while_it_runs_and_between_runs(
    start: Start, streams: dict[str, pa.Table], tmp_path: Path
) -> None:
    """The first run ends without having answered all; the step it died in is made again with its joins."""
    for name, rows in streams.items():
        write(rows, tmp_path / name, [25] * 4)
    nearer, far = joins(EQUAL.replace("'10 s'", "'6 s'"))[0].renamed("nearer"), joins(EQUAL)[1]
    (counted,), asked = joins(COUNTED), list[Any]()

    class Failing(MemorySink):
        broken = True

        def deliver(self, results: Any, seq: int) -> None:
            super().deliver(results, seq)
            if seq == 3 and self.broken:
                raise OSError("disk full")

    def change(progress: Any) -> None:
        if progress.seq == 2:
            asked.extend([run.add(nearer), run.drop("odd"), run.add(counted, "late")])
            with pytest.raises(QueryError, match="of this name already"):
                run.add(nearer)

    queries, sink = [*joins(EQUAL), counted.renamed("counted")], Failing()
    run = start(queries, sink=sink, on_progress=change)
    with pytest.raises(JobError, match="disk full"):
        run.await_done()
    assert {q.name for q in run.queries()} == {"near", "far", "counted", "nearer", "late"}
    first, sink.broken = sink.steps[3], False
    # Started with one join less: it leaves after the step that is made again.
    again = start([q for q in queries if q.name != "far"], sink=sink, close_at_end=True)
    again.await_done()
    assert {q.name for q in again.queries()} == {"near", "counted", "nearer", "late"}
    assert set(sink.steps[3]) == set(first)
    assert all(ordered(sink.steps[3][n].to_pylist()) == ordered(first[n].to_pylist()) for n in first)
    check(sink.tables, queries[:1], streams)
    change_of = {future.result().name: future.result() for future in asked}
    assert change_of["nearer"].history and change_of["late"].history
    since = int(change_of["nearer"].exact_from.timestamp() * 1e6)
    wanted = [row for row in oracle(nearer, streams) if row[0] >= since]
    assert ordered(as_tuples(sink.tables["nearer"])) == ordered(wanted)
    assert 0 < sink.tables["far"].num_rows < len(oracle(far, streams))
    whole = weft.run([counted.renamed("counted")], streams, time="ts", lateness="3 s")["counted"].to_pylist()
    assert ordered(sink.tables["counted"].to_pylist()) == ordered(whole)
    exact = [row for row in whole if row["window_start"] >= change_of["late"].exact_from]
    assert ordered(sink.tables["late"].to_pylist()) == ordered(exact)
