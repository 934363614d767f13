"""``stream``: many queries over one stream, or joins of several, exactly once; Spark drives and replays."""

from __future__ import annotations

import datetime
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, overload

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from weft.builder import QueryBuilder
from weft.duration import parse_duration, parse_trigger
from weft.engine.compile import check_names, compile_plan
from weft.engine.program import Program
from weft.engine.registry import Registry
from weft.engine.store import SliceStore
from weft.errors import JobError
from weft.files import Files
from weft.filesystem import join, uri
from weft.join_builder import JoinBuilder
from weft.join_run import built, time_of
from weft.joins.live import read_join
from weft.optimize import LivePlanner
from weft.optimize.planner import window_query
from weft.plan import Plan
from weft.progress import Progress
from weft.query import JoinQuery, Query
from weft.ranges import Ranged
from weft.sinks import CheckingSink, Sink
from weft.spark.failure import surfaced
from weft.spark.join_sources import batches_of
from weft.spark.join_steps import JoinSteps
from weft.spark.join_stream import JoinStream, registry_of, streams_of
from weft.spark.log import FOLDER, check_log
from weft.spark.pace import Pace
from weft.spark.prepare import check_buckets, columns_of, session_of
from weft.spark.ranges import RangedBatches
from weft.spark.run import Run
from weft.spark.sinks import as_sink
from weft.spark.sources import Batches, FilesBatches, FrameBatches
from weft.spark.steps import Steps
from weft.tables import Tables, TableSource


@overload
def stream(
    source: DataFrame | Files | Ranged,
    queries: Iterable[Query | QueryBuilder | JoinQuery] | Plan,
    time: str,
    *,
    sink: Sink | Callable[..., Any],
    lateness: str | datetime.timedelta = "0 s",
    checkpoint: str | os.PathLike[str] | None = None,
    trigger: str | None = None,
    buckets: int | None = None,
    idle_timeout: str | datetime.timedelta | None = None,
    close_at_end: bool = False,
    on_progress: Callable[[Progress], Any] | None = None,
    spark: SparkSession | None = None,
    strategy: str = "share-all",
    technique: str = "auto",
    strict: bool = False,
    tables: Mapping[str, TableSource] | None = None,
    late: Sink | None = None,
    target_batch: str | datetime.timedelta | None = None,
) -> Run: ...


@overload
def stream(
    source: Mapping[str, DataFrame | Files],
    queries: Iterable[Query | QueryBuilder | JoinQuery | JoinBuilder] | Plan,
    time: str | Mapping[str, str],
    *,
    sink: Sink | Callable[..., Any],
    lateness: str | datetime.timedelta = "0 s",
    checkpoint: str | os.PathLike[str] | None = None,
    trigger: str | None = None,
    buckets: int | None = None,
    nodes: int | None = None,
    idle_timeout: str | datetime.timedelta | None = None,
    close_at_end: bool = False,
    on_progress: Callable[[Progress], Any] | None = None,
    spark: SparkSession | None = None,
    strategy: str = "share-all",
    technique: str = "auto",
    strict: bool = False,
    tables: Mapping[str, TableSource] | None = None,
    late: Sink | None = None,
    target_batch: str | datetime.timedelta | None = None,
    chain: str | float = "mem-opt",
) -> Run | JoinStream: ...


@surfaced()
def stream(
    source: DataFrame | Files | Ranged | Mapping[str, DataFrame | Files],
    queries: Iterable[Query | QueryBuilder | JoinQuery | JoinBuilder] | Plan,
    time: str | Mapping[str, str],
    *,
    sink: Sink | Callable[..., Any],
    lateness: str | datetime.timedelta = "0 s",
    checkpoint: str | os.PathLike[str] | None = None,
    trigger: str | None = None,
    buckets: int | None = None,
    nodes: int | None = None,
    idle_timeout: str | datetime.timedelta | None = None,
    close_at_end: bool = False,
    on_progress: Callable[[Progress], Any] | None = None,
    spark: SparkSession | None = None,
    strategy: str = "share-all",
    technique: str = "auto",
    strict: bool = False,
    tables: Mapping[str, TableSource] | None = None,
    late: Sink | None = None,
    target_batch: str | datetime.timedelta | None = None,
    chain: str | float = "mem-opt",
) -> Run | JoinStream:
    """Answer all queries over a streaming DataFrame, or over files, a Kafka topic or generated rows as they
    arrive; returns at once.

    For joins, ``source`` is a mapping from each stream to its DataFrame or files, and ``time`` names the time
    column of all streams or of each. ``chain`` says how joins are sliced: ``mem-opt``, ``cpu-opt``, or the
    most rows they may keep; the last two are chosen anew when measured rates make others clearly cheaper.

    ``trigger`` is None (a batch as soon as the last is done), an interval such as ``"5 seconds"``, or
    ``"available now"``: take what is there and end. Then ``close_at_end`` answers the windows still open.
    ``idle_timeout`` answers them whenever no row has come for so long. Rows that come later for windows
    so answered are late. Without ``checkpoint``, state lives in a temporary folder and ends with the run.
    ``tables`` are the static tables that queries join, by name; what has changed is read again before
    each batch. ``late`` is a sink for the rows that missed a window, in a table ``late``: the columns, the
    reason and the watermark then. ``target_batch`` is how long a step over files should take: each takes as
    many files, of those that Spark has found, as the steps before say.

    ``nodes`` are the nodes that the state of joins is spread over, as many as buckets where not given.

    Queries and joins may come and go while it runs (``Run.add``, ``drop``, ``replace``). A run that goes on
    with a checkpoint has the queries that were there at its end; those given here are compared with those
    given at the start before, and what has changed among them changes with the first batch.
    """
    if isinstance(source, Mapping):
        asked = queries.queries if isinstance(queries, Plan) else tuple(map(built, queries))
        if len(source) > 1 or any(isinstance(q, JoinQuery) for q in asked):
            _check_fit(source, tables=tables, late=late, target_batch=target_batch)
            pace = _pace(lateness, idle_timeout, trigger, close_at_end)
            return _stream_joins(
                source,
                asked,
                time,
                sink,
                pace,
                checkpoint,
                _nodes(nodes, buckets),
                on_progress,
                spark,
                strict,
                strategy,
                technique,
                chain,
            )
        ((stream, source),) = source.items()
        queries = queries if isinstance(queries, Plan) else asked
        time = time if isinstance(time, str) else time_of(time, stream)
    if not isinstance(time, str):
        raise JobError("one stream has one time column; give time='ts'")
    if nodes is not None:
        raise JobError("nodes= is for joins of streams; window queries have buckets=")
    session = session_of(source, spark)
    if isinstance(source, DataFrame) and not source.isStreaming:
        raise JobError("this DataFrame is not a stream; make it with spark.readStream, or use weft.share")
    pace = _pace(lateness, idle_timeout, trigger, close_at_end)
    steady = None if target_batch is None else Pace(parse_duration(target_batch, "target_batch") / 1e6)
    if steady is not None and not isinstance(source, Files):
        raise JobError("target_batch needs a source of files that weft reads itself, weft.Files")
    kept, place = _place(checkpoint)
    store = SliceStore(place)
    check_log(store)
    buckets = store.last.buckets if store.last else check_buckets(buckets, session)
    sink, beside = as_sink(sink, session), Tables(tables)
    base = tuple(window_query(built(q)) for q in (queries.queries if isinstance(queries, Plan) else queries))
    check_names(base)
    given = queries if isinstance(queries, Plan) else None
    planner = LivePlanner.of(given) if given else LivePlanner(strategy, technique, buckets)
    program = _program(store, given, base, planner, columns_of(source), time, strict, buckets, beside)
    accept = sink.check if isinstance(sink, CheckingSink) else None
    registry = Registry(program, planner, accept, beside.schemas)
    before = store.version()
    if before is not None:
        registry.rebase(before.base, base)
    named = store.stream if kept is None else "run"
    steps = Steps(session, registry, store, sink, pace.lateness, named, base, beside, late)
    batches = _batches_of(source, session, steady)
    writer = pace.writer(batches.frame, place)
    return Run(writer, steps, batches, pace.idle, close_at_end, on_progress, kept)


def _check_fit(source: Mapping[str, DataFrame | Files | Ranged], **unfit: object) -> None:
    """Joins read files and DataFrames alone, and take none of what is for window queries."""
    if any(isinstance(s, Ranged) for s in source.values()):
        raise JobError("joins on Spark read DataFrames or weft.Files, not Kafka or generated rows itself")
    for name, value in unfit.items():
        if value:
            raise JobError(f"{name}= is for window queries over one stream; leave it out for joins")


def _program(
    store: SliceStore,
    given: Plan | None,
    base: tuple[Query, ...],
    planner: LivePlanner,
    schema: pa.Schema,
    time: str,
    strict: bool,
    buckets: int,
    beside: Tables,
) -> Program:
    """What a run begins with: the queries given or, over a checkpoint, those that were there at its end."""
    before = store.version()
    if before is None:
        plan, origins, version = given or planner(base), None, 1
    else:
        before.check(schema, time, store.place)
        plan = given if given and set(base) == set(before.queries) else planner(before.queries)
        origins, version = before.origins, before.version
    return compile_plan(
        plan, schema, time, strict, buckets, origins, version, tables=beside.schemas(plan.queries)
    )


def _batches_of(
    source: DataFrame | Files | Ranged, session: SparkSession, pace: Pace | None
) -> Batches[Program]:
    if isinstance(source, Ranged):
        return RangedBatches(source, session)
    return FilesBatches(source, session, pace) if isinstance(source, Files) else FrameBatches(source)


def _stream_joins(
    sources: Mapping[str, DataFrame | Files],
    queries: Sequence[Query | JoinQuery],
    time: str | Mapping[str, str],
    sink: Sink | Callable[..., Any],
    pace: _Pace,
    checkpoint: str | os.PathLike[str] | None,
    buckets: int | None,
    on_progress: Callable[[Progress], Any] | None,
    spark: SparkSession | None,
    strict: bool,
    strategy: str,
    technique: str,
    chain: str | float,
) -> JoinStream:
    """``stream`` for joins."""
    session = session_of(next(iter(sources.values())), spark)
    base = tuple(map(read_join, queries))
    check_names(base)
    kept, place = _place(checkpoint)
    store = SliceStore(place)
    check_log(store)
    buckets = store.last.buckets if store.last else check_buckets(buckets, session)
    streams = streams_of(sources, time, LivePlanner(strategy, technique, buckets), strict, buckets, chain)
    delivered = as_sink(sink, session)
    registry = registry_of(store, streams, base, delivered)
    batches = batches_of(sources, session)
    named = store.stream if kept is None else "run"
    steps = JoinSteps(session, registry, store, delivered, pace.lateness, named, buckets, base)
    writer = pace.writer(batches.frame, place)
    return JoinStream(writer, steps, batches, pace.idle, pace.close_at_end, on_progress, kept)


def _nodes(nodes: int | None, buckets: int | None) -> int | None:
    """Nodes are buckets: those of joins of more than two streams."""
    if nodes is not None and buckets is not None and nodes != buckets:
        raise JobError(f"nodes={nodes} and buckets={buckets} say different things; give one of them")
    return buckets if nodes is None else nodes


class _Pace(NamedTuple):
    """How a stream deals with time: microseconds that rows may be late, seconds without any, the trigger."""

    lateness: int
    idle: float | None
    trigger: dict[str, Any]
    close_at_end: bool

    def writer(self, frame: DataFrame, place: str) -> DataStreamWriter:
        """Spark's writer of a stream over a checkpoint."""
        writer = frame.writeStream.option("checkpointLocation", join(place, FOLDER))
        return writer.trigger(**self.trigger) if self.trigger else writer


def _pace(
    lateness: str | datetime.timedelta,
    idle_timeout: str | datetime.timedelta | None,
    trigger: str | None,
    close_at_end: bool,
) -> _Pace:
    waiting = parse_duration(lateness, "lateness")
    idle = None if idle_timeout is None else parse_duration(idle_timeout, "idle_timeout") / 1e6
    options = read_trigger(trigger)
    if close_at_end and "availableNow" not in options:
        raise JobError("close_at_end needs an end: set trigger='available now', or use idle_timeout")
    return _Pace(waiting, idle, options, close_at_end)


def _place(
    checkpoint: str | os.PathLike[str] | None,
) -> tuple[tempfile.TemporaryDirectory[str] | None, str]:
    """A folder that ends with the run where there is no checkpoint, and where the state is kept."""
    if checkpoint is not None:
        return None, uri(checkpoint)
    kept = tempfile.TemporaryDirectory(prefix="weft-stream-")
    return kept, uri(kept.name)


def read_trigger(trigger: str | None) -> dict[str, Any]:
    """What Spark's ``trigger`` takes.

    >>> read_trigger("available now"), read_trigger("5 s"), read_trigger(None)
    ({'availableNow': True}, {'processingTime': '5000 milliseconds'}, {})
    """
    if trigger is None:
        return {}
    interval = parse_trigger(trigger)
    if interval is None:
        return {"availableNow": True}
    return {"processingTime": f"{interval // 1000} milliseconds"}
