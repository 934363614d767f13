"""``stream``: many queries over one stream, or joins of several, exactly once; Spark drives and replays."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, overload

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from weft.builder import QueryBuilder
from weft.duration import parse_duration, parse_optional, parse_trigger
from weft.engine import hashing
from weft.engine.compile import compile_plan
from weft.engine.manifest import Manifest
from weft.engine.program import Program
from weft.engine.registry import Registry
from weft.engine.resplit import split_again
from weft.engine.store import SliceStore
from weft.engine.watermark import TimeRules
from weft.errors import CheckpointError, JobError
from weft.files import Files
from weft.filesystem import join
from weft.join_builder import JoinBuilder
from weft.join_run import built, time_of
from weft.joins.live import read_join
from weft.names import check_names
from weft.optimize import LivePlanner
from weft.optimize.planner import window_query
from weft.plan import Plan
from weft.progress import Progress
from weft.query import JoinQuery, Query
from weft.ranges import Ranged
from weft.sinks import CheckingSink, Sink
from weft.spark.claim import Claim
from weft.spark.failure import surfaced
from weft.spark.join_sources import batches_of
from weft.spark.join_steps import JoinSteps
from weft.spark.join_stream import JoinStream, registry_of, streams_of
from weft.spark.pace import Pace
from weft.spark.prepare import check_buckets, columns_of, session_of
from weft.spark.ranges import RangedBatches
from weft.spark.run import Run
from weft.spark.session import zone_of
from weft.spark.sinks import as_sink
from weft.spark.sources import Batches, FilesBatches, FrameBatches
from weft.spark.spark_log import LOG, check_log
from weft.spark.steps import Steps
from weft.tables import Tables, TableSource


@overload
def stream(
    source: DataFrame | Files | Ranged,
    queries: Iterable[Query | QueryBuilder | JoinQuery] | Plan,
    time: str,
    *,
    sink: Sink | Callable[..., Any],
    lateness: str | datetime.timedelta | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    trigger: str | None = None,
    buckets: int | None = None,
    idle_timeout: str | datetime.timedelta | None = None,
    close_at_end: bool | None = None,
    on_progress: Callable[[Progress], Any] | None = None,
    spark: SparkSession | None = None,
    strategy: str = "share-all",
    technique: str = "auto",
    strict: bool = False,
    tables: Mapping[str, TableSource] | None = None,
    late: Sink | None = None,
    target_batch: str | datetime.timedelta | None = None,
    max_ahead: str | datetime.timedelta | None = None,
) -> Run: ...


@overload
def stream(
    source: Mapping[str, DataFrame | Files],
    queries: Iterable[Query | QueryBuilder | JoinQuery | JoinBuilder] | Plan,
    time: str | Mapping[str, str],
    *,
    sink: Sink | Callable[..., Any],
    lateness: str | datetime.timedelta | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    trigger: str | None = None,
    buckets: int | None = None,
    nodes: int | None = None,
    idle_timeout: str | datetime.timedelta | None = None,
    close_at_end: bool | None = None,
    on_progress: Callable[[Progress], Any] | None = None,
    spark: SparkSession | None = None,
    strategy: str = "share-all",
    technique: str = "auto",
    strict: bool = False,
    tables: Mapping[str, TableSource] | None = None,
    late: Sink | None = None,
    target_batch: str | datetime.timedelta | None = None,
    max_ahead: str | datetime.timedelta | None = None,
    chain: str | float = "mem-opt",
) -> Run | JoinStream: ...


@surfaced()
def stream(
    source: DataFrame | Files | Ranged | Mapping[str, DataFrame | Files],
    queries: Iterable[Query | QueryBuilder | JoinQuery | JoinBuilder] | Plan,
    time: str | Mapping[str, str],
    *,
    sink: Sink | Callable[..., Any],
    lateness: str | datetime.timedelta | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    trigger: str | None = None,
    buckets: int | None = None,
    nodes: int | None = None,
    idle_timeout: str | datetime.timedelta | None = None,
    close_at_end: bool | None = None,
    on_progress: Callable[[Progress], Any] | None = None,
    spark: SparkSession | None = None,
    strategy: str = "share-all",
    technique: str = "auto",
    strict: bool = False,
    tables: Mapping[str, TableSource] | None = None,
    late: Sink | None = None,
    target_batch: str | datetime.timedelta | None = None,
    max_ahead: str | datetime.timedelta | None = None,
    chain: str | float = "mem-opt",
) -> Run | JoinStream:
    """Answer all queries over a streaming DataFrame, or over files, a Kafka topic or generated rows as they
    arrive; returns at once.

    For joins, ``source`` is a mapping from each stream to its DataFrame or files, and ``time`` names the time
    column of all streams or of each. ``chain`` says how joins are sliced: ``mem-opt``, ``cpu-opt``, or the
    most rows they may keep; the last two are chosen anew when measured rates make others clearly cheaper.

    ``trigger`` is None (a batch as soon as the last is done), an interval such as ``"5 seconds"``, or
    ``"available now"``: take what is there and end. Without ``checkpoint``, state lives in a temporary folder
    and ends with the run; then the windows still open are answered at the end, and no row is late unless a
    ``lateness`` is given. With one, they stay open for the run that goes on; ``close_at_end`` says otherwise.
    ``idle_timeout`` answers them whenever no row has come for so long. Rows that come later for windows
    so answered are late. A partition of a topic (after a minute), or one of several joined streams, that has
    been silent for the ``idle_timeout`` holds the watermark back no more. A row more than ``max_ahead`` (an
    hour) ahead of the clock counts in its own windows and moves no watermark.
    ``tables`` are the static tables that queries join, by name; what has changed is read again before
    each batch. ``late`` is a sink for the rows that missed a window, in a table ``late``: the columns, the
    reason and the watermark then. ``target_batch`` is how long a step over files should take: each takes as
    many files, of those that Spark has found, as the steps before say.

    Local times (``hour(ts)``, dates, literals) are those of the session's time zone, whatever the source; a
    run that goes on with a checkpoint must have the zone that it was written with.

    ``buckets`` are the parts that groups are spread over: one per core, or as many as a checkpoint has; given
    over a checkpoint, another number splits its state again. ``nodes`` are those that the state of joins is
    spread over, as many as buckets where not given; over a checkpoint they cannot change.

    Queries and joins may come and go while it runs (``Run.add``, ``drop``, ``replace``). A run that goes on
    with a checkpoint has the queries that were there at its end; those given here are compared with those
    given at the start before, and what has changed among them changes with the first batch.
    """
    streams: tuple[str, ...] | None = None
    if isinstance(source, Mapping):
        streams = tuple(source)
        asked = queries.queries if isinstance(queries, Plan) else tuple(map(built, queries))
        if len(source) > 1 or any(isinstance(q, JoinQuery) for q in asked):
            _check_fit(source, tables=tables, late=late, target_batch=target_batch)
            pace = _pace(lateness, max_ahead, idle_timeout, trigger, close_at_end, checkpoint is not None)
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
    pace = _pace(lateness, max_ahead, idle_timeout, trigger, close_at_end, checkpoint is not None)
    steady = None if target_batch is None else Pace(parse_duration(target_batch, "target_batch") / 1e6)
    if steady is not None and not isinstance(source, Files):
        raise JobError("target_batch needs a source of files that weft reads itself, weft.Files")
    claim = Claim(checkpoint)
    store = _store(claim)
    if store.last is None or buckets is not None:
        buckets = check_buckets(buckets, session)
    else:
        buckets = store.last.buckets
    sink, beside = as_sink(sink, session), Tables(tables)
    base = tuple(window_query(built(q)) for q in (queries.queries if isinstance(queries, Plan) else queries))
    check_names(base, streams)
    given = queries if isinstance(queries, Plan) else None
    planner = (
        LivePlanner.of(given, streams)
        if given
        else LivePlanner(strategy, technique, buckets, streams=streams)
    )
    zone = zone_of(session)
    program = _program(store, given, base, planner, columns_of(source), time, strict, buckets, beside, zone)
    accept = sink.check if isinstance(sink, CheckingSink) else None
    registry = Registry(program, planner, accept, beside.schemas)
    if store.last is not None and (store.last.buckets, store.last.hash) != (buckets, hashing.NAME):
        store.last = split_again(store, store.last, program)
    before = store.version()
    if before is not None:
        registry.failed = before.failures()
        registry.rebase(before.base, before.as_given(base))
    named = store.stream if claim.is_kept else "run"
    steps = Steps(session, registry, store, sink, pace.rules, named, base, beside, late)
    batches = _batches_of(source, session, steady)
    writer = pace.writer(batches.frame, claim.place)
    return Run(writer, steps, batches, pace.idle, pace.close_at_end, on_progress, claim)


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
    zone: str,
) -> Program:
    """What a run begins with: the queries given or, over a checkpoint, those that were there at its end."""
    before = store.version()
    if before is None:
        plan, origins, version = given or planner(base), None, 1
    else:
        before.check(schema, time, store.place, zone)
        plan = given if given and set(base) == set(before.queries) else planner(before.queries)
        origins, version = before.origins, before.version
    tables = beside.schemas(plan.queries)
    return compile_plan(
        plan, schema, time, strict, buckets, origins, version, None, tables, planner.streams, zone
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
    check_names(base, sources)
    claim = Claim(checkpoint)
    store = _store(claim)
    place = claim.place
    buckets = _nodes_before(store.last, buckets, place) if store.last else check_buckets(buckets, session)
    planner, zone = LivePlanner(strategy, technique, buckets), zone_of(session)
    streams = streams_of(sources, time, planner, strict, buckets, chain, zone)
    delivered = as_sink(sink, session)
    registry = registry_of(store, streams, base, delivered)
    batches = batches_of(sources, session)
    named = store.stream if claim.is_kept else "run"
    steps = JoinSteps(session, registry, store, delivered, pace.rules, named, buckets, base)
    steps.idle = None if pace.idle is None else round(pace.idle * 1e6)
    writer = pace.writer(batches.frame, claim.place)
    return JoinStream(writer, steps, batches, pace.idle, pace.close_at_end, on_progress, claim)


def _nodes(nodes: int | None, buckets: int | None) -> int | None:
    """Nodes are buckets: those of joins of more than two streams."""
    if nodes is not None and buckets is not None and nodes != buckets:
        raise JobError(f"nodes={nodes} and buckets={buckets} say different things; give one of them")
    return buckets if nodes is None else nodes


def _nodes_before(last: Manifest, nodes: int | None, place: str) -> int:
    """The nodes that the state of joins is spread over; others are refused, as is another hash."""
    if nodes not in (None, last.buckets):
        raise JobError(
            f"the joins of checkpoint '{place}' are spread over {last.buckets} nodes and cannot go on with "
            f"{nodes}; leave nodes= and buckets= out, or start again with an empty checkpoint directory"
        )
    if last.hash != hashing.NAME:
        raise CheckpointError(
            f"the joins of checkpoint '{place}' were written by an earlier version of weft, which found rows "
            "by another hash; let that version finish them, or start again with an empty checkpoint directory"
        )
    return last.buckets


class _Pace(NamedTuple):
    """How a stream deals with time: what moves the watermark, seconds without any row, the trigger."""

    rules: TimeRules
    idle: float | None
    trigger: dict[str, Any]
    close_at_end: bool

    def writer(self, frame: DataFrame, place: str) -> DataStreamWriter:
        """Spark's writer of a stream over a checkpoint."""
        writer = frame.writeStream.option("checkpointLocation", join(place, LOG))
        return writer.trigger(**self.trigger) if self.trigger else writer


def _pace(
    lateness: str | datetime.timedelta | None,
    max_ahead: str | datetime.timedelta | None,
    idle_timeout: str | datetime.timedelta | None,
    trigger: str | None,
    close_at_end: bool | None,
    goes_on: bool,
) -> _Pace:
    """``goes_on`` says that there is a checkpoint, from which another run may go on."""
    idle, options = parse_optional(idle_timeout, "idle_timeout"), read_trigger(trigger)
    ends = "availableNow" in options
    if close_at_end and not ends:
        raise JobError("close_at_end needs an end: set trigger='available now', or use idle_timeout")
    closes = ends and not goes_on if close_at_end is None else close_at_end
    rules = TimeRules.of(
        parse_optional(lateness, "lateness"),
        parse_optional(max_ahead, "max_ahead"),
        idle,
        ends=closes and not goes_on,
    )
    return _Pace(rules, None if idle is None else idle / 1e6, options, closes)


def _store(claim: Claim) -> SliceStore:
    """The state of a run; CheckpointError where Spark's log beside it is not whole."""
    store = SliceStore(claim.place)
    check_log(store)
    return store


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
