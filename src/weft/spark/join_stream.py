"""Joins of streams on Spark: one streaming query over all of them, their state in the slice store."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

from weft.errors import CheckpointError, JobError
from weft.io.files import Files
from weft.io.sinks import CheckingSink, Sink
from weft.model.as_data import join_from_dict
from weft.model.join import JoinQuery
from weft.model.names import time_of
from weft.operators.joins.compile import JoinCompiler
from weft.operators.joins.running_plan import running_plan
from weft.operators.joins.state import Joins
from weft.planning.joins.plan import JoinPlan, SharedPlan
from weft.planning.live import LivePlanner
from weft.runner.join_registry import JoinRegistry
from weft.spark.compiling import schema_of
from weft.spark.join_steps import JoinSteps
from weft.spark.run import StreamRun
from weft.store.slice_store import SliceStore


class JoinStream(StreamRun[Joins]):
    """A stream of joins, and of windowed aggregates of their results."""

    _steps: JoinSteps

    def queries(self) -> tuple[JoinQuery, ...]:
        """The joins that are answered."""
        return self._steps.program.queries

    @property
    def plan(self) -> JoinPlan:
        """The chains that run, and the joins of more streams, with what they should cost."""
        joins = self._steps.program
        return running_plan(joins.programs, joins.ends, self._steps.order_statistics)

    def explain(self) -> list[SharedPlan]:
        """Return the chains of the plan, one by one."""
        return list(self.plan.chains)


def streams_of(
    sources: Mapping[str, DataFrame | Files],
    time: str | Mapping[str, str],
    planner: LivePlanner,
    strict: bool,
    buckets: int,
    chain: str | float,
    zone: str,
) -> JoinCompiler:
    """Make the compiler of joins over these sources."""
    schemas = {s: _schema(s, source) for s, source in sorted(sources.items())}
    times = {s: time if isinstance(time, str) else time_of(time, s) for s in schemas}
    return JoinCompiler(schemas, times, planner, strict, buckets, chain, zone=zone)


def registry_of(
    store: SliceStore, streams: JoinCompiler, base: tuple[JoinQuery, ...], sink: Sink
) -> JoinRegistry:
    """The joins that a run begins with, or goes on with over a checkpoint."""
    accept = sink.check if isinstance(sink, CheckingSink) else None
    before = store.version()
    if before is None:
        return JoinRegistry(streams.joins(base).renumbered(1), streams, accept)
    if before.joins is None:
        raise CheckpointError(f"checkpoint '{store.place}' is not of joins; use another checkpoint directory")
    before.check_zone(streams.zone, store.place)
    streams.check(before.joins, store.place)
    running = streams.restored(before.joins, before.version, before.origins)
    registry = JoinRegistry(running, streams, accept)
    registry.failed = before.failures()
    registry.rebase(map(join_from_dict, before.joins["base"]), before.as_given(base))
    return registry


def _schema(stream: str, source: DataFrame | Files) -> pa.Schema:
    if isinstance(source, Files):
        return source.stream_schema()
    if not isinstance(source, DataFrame):
        raise JobError(f"{stream!r} is {type(source).__name__}, not a source; give a DataFrame or weft.Files")
    if not source.isStreaming:
        raise JobError(f"the DataFrame of {stream!r} is not a stream; make it with spark.readStream")
    return schema_of(source)
