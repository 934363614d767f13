"""``stream``: many window queries over one stream, exactly once; Spark drives, keeps offsets and replays."""

from __future__ import annotations

import datetime
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from weft.builder import QueryBuilder
from weft.duration import parse_duration, parse_trigger
from weft.engine.program import check_names, compile_plan
from weft.engine.registry import Registry
from weft.engine.store import SliceStore
from weft.errors import JobError
from weft.files import Files
from weft.filesystem import join, uri
from weft.optimize import LivePlanner
from weft.optimize.planner import window_query
from weft.plan import Plan
from weft.progress import Progress
from weft.query import JoinQuery, Query
from weft.sinks import CheckingSink, Sink
from weft.spark.pace import Pace
from weft.spark.prepare import check_buckets, schema_of, session_of
from weft.spark.run import Run
from weft.spark.sinks import as_sink
from weft.spark.sources import FilesBatches, FrameBatches
from weft.spark.steps import Steps
from weft.tables import Tables, TableSource


def stream(
    source: DataFrame | Files,
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
) -> Run:
    """Answer all queries over a streaming DataFrame, or over files as they arrive; returns at once.

    ``trigger`` is None (a batch as soon as the last is done), an interval such as ``"5 seconds"``, or
    ``"available now"``: take what is there and end. Then ``close_at_end`` answers the windows still open.
    ``idle_timeout`` answers them whenever no row has come for so long. Rows that come later for windows
    so answered are late. Without ``checkpoint``, state lives in a temporary folder and ends with the run.
    ``tables`` are the static tables that queries join, by name; what has changed is read again before
    each batch. ``late`` is a sink for the rows that missed a window, in a table ``late``: the columns, the
    reason and the watermark then. ``target_batch`` is how long a step over files should take: each takes as
    many files, of those that Spark has found, as the steps before say.

    Queries may join and leave while it runs (``Run.add``, ``drop``, ``replace``). A run that goes on with a
    checkpoint has the queries that were there at its end; those given here are compared with those given at
    the start before, and what has changed among them changes with the first batch.
    """
    session = session_of(source, spark)
    if isinstance(source, DataFrame) and not source.isStreaming:
        raise JobError("this DataFrame is not a stream; make it with spark.readStream, or use weft.share")
    waiting = parse_duration(lateness, "lateness")
    idle = None if idle_timeout is None else parse_duration(idle_timeout, "idle_timeout") / 1e6
    pace = None if target_batch is None else Pace(parse_duration(target_batch, "target_batch") / 1e6)
    if pace is not None and not isinstance(source, Files):
        raise JobError("target_batch needs a source of files that weft reads itself, weft.Files")
    trigger_options = read_trigger(trigger)
    if close_at_end and "availableNow" not in trigger_options:
        raise JobError("close_at_end needs an end: set trigger='available now', or use idle_timeout")
    kept = None if checkpoint is not None else tempfile.TemporaryDirectory(prefix="weft-stream-")
    place = uri(checkpoint if kept is None else kept.name)  # type: ignore[arg-type]
    store = SliceStore(place)
    buckets = store.last.buckets if store.last else check_buckets(buckets, session)
    sink, beside = as_sink(sink, session), Tables(tables)
    given = queries if isinstance(queries, Plan) else None
    planner = LivePlanner.of(given) if given else LivePlanner(strategy, technique, buckets)
    base = tuple(map(window_query, queries.queries if isinstance(queries, Plan) else queries))
    check_names(base)
    schema = source.stream_schema() if isinstance(source, Files) else schema_of(source)
    before = store.version()
    if before is None:
        plan, origins, version = given or planner(base), None, 1
    else:
        before.check(schema, time, place)
        plan = given if given and set(base) == set(before.queries) else planner(before.queries)
        origins, version = before.origins, before.version
    program = compile_plan(
        plan, schema, time, strict, buckets, origins, version, tables=beside.schemas(plan.queries)
    )
    accept = sink.check if isinstance(sink, CheckingSink) else None
    registry = Registry(program, planner, accept, beside.schemas)
    if before is not None:
        registry.rebase(before.base, base)
    named = store.stream if kept is None else "run"
    steps = Steps(session, registry, store, sink, waiting, named, base, beside, late)
    batches = FilesBatches(source, session, pace) if isinstance(source, Files) else FrameBatches(source)
    writer = batches.frame.writeStream.option("checkpointLocation", join(place, "spark"))
    return Run(_triggered(writer, trigger_options), steps, batches, idle, close_at_end, on_progress, kept)


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


def _triggered(writer: DataStreamWriter, options: dict[str, Any]) -> DataStreamWriter:
    return writer.trigger(**options) if options else writer
