"""The steps of a stream of joins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from weft.engine.manifest import Layer, Manifest
from weft.engine.partial import Seen
from weft.engine.store import SliceStore
from weft.joins.state import Joins, Marks
from weft.query import RESULT_TIME
from weft.sinks import Sink
from weft.spark.committing import Committing
from weft.spark.failure import surfaced
from weft.spark.inputs import NoRows
from weft.spark.job import Outcome, one_task, outcome_of, plan_tasks
from weft.spark.join_tasks import JoinBucketTask, JoinMapTask, JoinStep
from weft.spark.payload import from_batches
from weft.spark.session import shipping
from weft.spark.step import Carried, Saved


class JoinSteps(Committing[Joins]):
    """The steps of joins, the same from the first to the last."""

    version = 1
    cost = 0.0  # the rates of the streams are not known

    def __init__(
        self,
        spark: SparkSession,
        joins: Joins,
        store: SliceStore,
        sink: Sink,
        lateness: int,
        stream: str,
        buckets: int,
    ) -> None:
        super().__init__(spark, store, sink, lateness, stream, buckets)
        self.joins, self._carried = joins, Carried(joins)
        results = {name: schema for program in joins.programs for name, schema in program.results.items()}
        sink.open({q.name: results[q.name] for q in joins.queries}, stream)

    @property
    def program(self) -> Joins:
        """What runs."""
        return self.joins

    def _change(self, seq: int) -> None:
        """Nothing changes."""

    def _marks(self) -> Marks:
        last = self.store.last
        return {stream: last.watermarks[stream] if last else None for stream in self.joins.streams}

    def _closing(self, last: Manifest | None) -> int | None:
        """After all rows so far: no result waits for a stream that is behind."""
        if last is None or last.seen["max_time"] is None:
            return None
        known = [mark for mark in last.watermarks.values() if mark is not None]
        return max(last.seen["max_time"] + 1, *known)

    def _layers(self, last: Manifest) -> tuple[tuple[Layer, ...], ...]:
        return last.layers

    def _run(self, frame: DataFrame, input: Any, saved: Saved, until: int | None) -> Outcome:
        step = JoinStep(self.buckets, self._marks(), self.lateness, until, saved)
        bucket = JoinBucketTask(self._carried, step)
        with surfaced(), shipping(frame.sparkSession):
            job = plan_tasks(frame, JoinMapTask(self._carried, step, input), bucket, self.buckets)
            parcels = list(from_batches([job.toArrow()]))
        if not parcels:  # Spark plans nothing at all for a frame without partitions
            return self._run(one_task(frame.sparkSession), NoRows(), saved, until)
        found = outcome_of(parcels, self.joins.queries)
        bad = Seen(bad=sum(report["bad"] for report in found.reports))
        results = {name: _in_order(table) for name, table in found.results.items()}
        return replace(found, results=results, seen=found.seen + bad)


def _in_order(table: pa.Table) -> pa.Table:
    """Results of several buckets in order of time."""
    times = table.column(RESULT_TIME).cast(pa.int64()).to_numpy()
    return table.take(pa.array(np.argsort(times, kind="stable")))
