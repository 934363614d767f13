"""``stream``: many queries over one stream, or joins of several, exactly once; Spark drives and replays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Unpack, overload

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from weft.errors import CheckpointError, JobError
from weft.expr import hashing
from weft.io.files import Files
from weft.io.filesystem import join
from weft.io.sinks import CheckingSink, Sink
from weft.io.sources.ranges import Ranged
from weft.model.duration import parse_optional, parse_trigger
from weft.model.join import JoinQuery, window_query
from weft.model.names import check_names, time_of
from weft.model.query import Query
from weft.operators.lookups.tables import LookupTables
from weft.operators.watermark import TimeRules
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.program import Program
from weft.planning.live import LivePlanner
from weft.planning.plan import Plan
from weft.runner.options import filled, with_options
from weft.runner.registry import Registry
from weft.spark.claim import Claim
from weft.spark.committing import Delivery
from weft.spark.compiling import check_buckets, columns_of, session_of
from weft.spark.failure import surfaced
from weft.spark.join_sources import batches_of
from weft.spark.join_steps import JoinSteps
from weft.spark.join_stream import JoinStream, registry_of, streams_of
from weft.spark.options import JoinStreamOptions, StreamOptions
from weft.spark.pace import Pace
from weft.spark.ranges import RangedBatches
from weft.spark.run import Run
from weft.spark.session import zone_of
from weft.spark.sinks import as_sink
from weft.spark.sources import Batches, FilesBatches, FrameBatches
from weft.spark.spark_log import LOG, check_log
from weft.spark.steps import Steps
from weft.sql.builder import QueryBuilder
from weft.sql.join_builder import JoinBuilder
from weft.sql.read import built, read_join
from weft.store.manifest import Manifest
from weft.store.resplit import split_again
from weft.store.slice_store import SliceStore


@overload
def stream(
    source: DataFrame | Files | Ranged,
    queries: Iterable[Query | QueryBuilder | JoinQuery] | Plan,
    time: str,
    *,
    sink: Sink | Callable[..., Any],
    **options: Unpack[StreamOptions],
) -> Run: ...


@overload
def stream(
    source: Mapping[str, DataFrame | Files],
    queries: Iterable[Query | QueryBuilder | JoinQuery | JoinBuilder] | Plan,
    time: str | Mapping[str, str],
    *,
    sink: Sink | Callable[..., Any],
    **options: Unpack[JoinStreamOptions],
) -> Run | JoinStream: ...


@with_options(JoinStreamOptions)
@surfaced()
def stream(
    source: DataFrame | Files | Ranged | Mapping[str, DataFrame | Files],
    queries: Iterable[Query | QueryBuilder | JoinQuery | JoinBuilder] | Plan,
    time: str | Mapping[str, str],
    *,
    sink: Sink | Callable[..., Any],
    **options: Unpack[JoinStreamOptions],
) -> Run | JoinStream:
    """Answer all queries over a streaming DataFrame, or over files, a Kafka topic or generated rows as they
    arrive; returns at once.

    For joins, ``source`` is a mapping from each stream to its DataFrame or files, and ``time`` names the time
    column of all streams or of each.

    Without a checkpoint, the windows still open are answered at the end, and no row is late unless a
    ``lateness`` is given. With one, they stay open for the run that goes on.

    Local times (``hour(ts)``, dates, literals) are those of the session's time zone, whatever the source; a
    run that goes on with a checkpoint must have the zone that it was written with.

    Queries and joins may come and go while it runs (``Run.add``, ``drop``, ``replace``). A run that goes on
    with a checkpoint has the queries that were there at its end; those given here are compared with those
    given at the start before, and what has changed among them changes with the first batch.
    """
    options = filled(JoinStreamOptions, options, "stream")
    streams: tuple[str, ...] | None = None
    if isinstance(source, Mapping):
        streams = tuple(source)
        built_queries = queries.queries if isinstance(queries, Plan) else tuple(map(built, queries))
        if len(source) > 1 or any(isinstance(q, JoinQuery) for q in built_queries):
            return _stream_joins(source, built_queries, time, sink, options)
        ((stream, source),) = source.items()
        queries = queries if isinstance(queries, Plan) else built_queries
        time = time if isinstance(time, str) else time_of(time, stream)
    if not isinstance(time, str):
        raise JobError("one stream has one time column; give time='ts'")
    if options["nodes"] is not None:
        raise JobError("nodes= is for joins of streams; window queries have buckets=")
    return _stream_windows(source, queries, time, sink, streams, options)


def _stream_windows(
    source: DataFrame | Files | Ranged,
    queries: Iterable[Query | QueryBuilder | JoinQuery | JoinBuilder] | Plan,
    time: str,
    sink: Sink | Callable[..., Any],
    streams: tuple[str, ...] | None,
    options: StreamOptions,
) -> Run:
    """Start window queries over one stream; ``streams`` are the names that FROM may have, where known."""
    session = session_of(source, options["spark"])
    if isinstance(source, DataFrame) and not source.isStreaming:
        raise JobError("this DataFrame is not a stream; make it with spark.readStream, or use weft.share")
    timing = _Timing.of(options)
    target = parse_optional(options["target_batch"], "target_batch")
    if target is not None and not isinstance(source, Files):
        raise JobError("target_batch needs a source of files that weft reads itself, weft.Files")
    claim = Claim(options["checkpoint"])
    store = _store(claim)
    if store.last is None or options["buckets"] is not None:
        buckets = check_buckets(options["buckets"], session)
    else:
        buckets = store.last.buckets
    sink, lookups = as_sink(sink, session), LookupTables(options["tables"])
    base = tuple(window_query(built(q)) for q in (queries.queries if isinstance(queries, Plan) else queries))
    check_names(base, streams)
    given = queries if isinstance(queries, Plan) else None
    planner = (
        LivePlanner.of(given, streams)
        if given
        else LivePlanner(options["strategy"], options["technique"], buckets, streams=streams)
    )
    rows = InputColumns(columns_of(source), time, zone_of(session), buckets)
    program = _program(store, given, base, planner, rows, lookups, options["strict"])
    accept = sink.check if isinstance(sink, CheckingSink) else None
    registry = Registry(program, planner, accept, lookups.schemas)
    if store.last is not None and (store.last.buckets, store.last.hash) != (buckets, hashing.NAME):
        store.last = split_again(store, store.last, program)
    before = store.version()
    if before is not None:
        registry.failed = before.failures()
        registry.rebase(before.base, before.as_given(base))
    delivery = Delivery(sink, store.stream if claim.is_kept else "run", options["late"])
    steps = Steps(session, registry, store, delivery, timing.rules, base, lookups)
    batches = _batches_of(source, session, None if target is None else Pace(target / 1e6))
    writer = timing.writer(batches.frame, claim.place)
    return Run(writer, steps, batches, timing.idle, timing.close_at_end, options["on_progress"], claim)


def _check_fit(sources: Mapping[str, DataFrame | Files | Ranged], options: StreamOptions) -> None:
    """Refuse for joins the sources and options that are for window queries over one stream."""
    if any(isinstance(s, Ranged) for s in sources.values()):
        raise JobError("joins on Spark read DataFrames or weft.Files, not Kafka or generated rows itself")
    unfit = {"tables": options["tables"], "late": options["late"], "target_batch": options["target_batch"]}
    for name, value in unfit.items():
        if value:
            raise JobError(f"{name}= is for window queries over one stream; leave it out for joins")


class InputColumns(NamedTuple):
    """Columns of one stream, its time column and zone, and the parts that its groups are spread over."""

    schema: pa.Schema
    time: str
    zone: str
    buckets: int


def _program(
    store: SliceStore,
    given: Plan | None,
    base: tuple[Query, ...],
    planner: LivePlanner,
    rows: InputColumns,
    lookups: LookupTables,
    strict: bool,
) -> Program:
    """Compile the queries given or, over a checkpoint, those that were there at its end."""
    before = store.version()
    if before is None:
        plan, origins, version = given or planner(base), None, 1
    else:
        before.check(rows.schema, rows.time, store.place, rows.zone)
        plan = given if given and set(base) == set(before.queries) else planner(before.queries)
        origins, version = before.origins, before.version
    return compile_plan(
        plan,
        rows.schema,
        rows.time,
        strict,
        rows.buckets,
        origins,
        version,
        None,
        lookups.schemas(plan.queries),
        planner.streams,
        rows.zone,
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
    options: JoinStreamOptions,
) -> JoinStream:
    """Start joins, and window queries over their results."""
    _check_fit(sources, options)
    timing = _Timing.of(options)
    nodes = _nodes(options["nodes"], options["buckets"])
    session = session_of(next(iter(sources.values())), options["spark"])
    base = tuple(map(read_join, queries))
    check_names(base, sources)
    claim = Claim(options["checkpoint"])
    store = _store(claim)
    if store.last is None:
        nodes = check_buckets(nodes, session)
    else:
        nodes = _nodes_before(store.last, nodes, claim.place)
    planner = LivePlanner(options["strategy"], options["technique"], nodes)
    streams = streams_of(sources, time, planner, options["strict"], nodes, options["chain"], zone_of(session))
    delivery = Delivery(as_sink(sink, session), store.stream if claim.is_kept else "run")
    registry = registry_of(store, streams, base, delivery.sink)
    batches = batches_of(sources, session)
    steps = JoinSteps(session, registry, store, delivery, timing.rules, nodes, base)
    steps.idle = None if timing.idle is None else round(timing.idle * 1e6)
    writer = timing.writer(batches.frame, claim.place)
    on_progress = options["on_progress"]
    return JoinStream(writer, steps, batches, timing.idle, timing.close_at_end, on_progress, claim)


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


class _Timing(NamedTuple):
    """Rules of the watermark, seconds without any row after which windows are answered, Spark's trigger."""

    rules: TimeRules
    idle: float | None
    trigger: dict[str, Any]
    close_at_end: bool

    @classmethod
    def of(cls, options: StreamOptions) -> _Timing:
        """Read the options about time; with a checkpoint, another run may go on."""
        idle, trigger = (
            parse_optional(options["idle_timeout"], "idle_timeout"),
            read_trigger(options["trigger"]),
        )
        ends, goes_on = "availableNow" in trigger, options["checkpoint"] is not None
        closes = options["close_at_end"]
        if closes and not ends:
            raise JobError("close_at_end needs an end: set trigger='available now', or use idle_timeout")
        if closes is None:
            closes = ends and not goes_on
        rules = TimeRules.of(
            parse_optional(options["lateness"], "lateness"),
            parse_optional(options["max_ahead"], "max_ahead"),
            idle,
            ends=closes and not goes_on,
        )
        return cls(rules, None if idle is None else idle / 1e6, trigger, closes)

    def writer(self, frame: DataFrame, place: str) -> DataStreamWriter:
        """Spark's writer of a stream over a checkpoint."""
        writer = frame.writeStream.option("checkpointLocation", join(place, LOG))
        return writer.trigger(**self.trigger) if self.trigger else writer


def _store(claim: Claim) -> SliceStore:
    """The state of a run; CheckpointError where Spark's log beside it is incomplete."""
    store = SliceStore(claim.place)
    check_log(store)
    return store


def read_trigger(trigger: str | None) -> dict[str, Any]:
    """Return the arguments of Spark's ``trigger``.

    >>> read_trigger("available now"), read_trigger("5 s"), read_trigger(None)
    ({'availableNow': True}, {'processingTime': '5000 milliseconds'}, {})
    """
    if trigger is None:
        return {}
    interval = parse_trigger(trigger)
    if interval is None:
        return {"availableNow": True}
    return {"processingTime": f"{interval // 1000} milliseconds"}
