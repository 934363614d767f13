"""The steps of a stream of joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from weft.model.as_data import join_from_dict
from weft.model.join import RESULT_TIME, JoinQuery
from weft.operators.joins.adapt import RateMeter, better_ends
from weft.operators.joins.compile import StreamPosition
from weft.operators.joins.multiway.order_statistics import OrderStatistics
from weft.operators.joins.state import Joins
from weft.operators.times import Seen
from weft.operators.watermark import StepClock
from weft.operators.windows.answer import closing_time
from weft.planning.joins.member import Key
from weft.planning.joins.rates import Rates
from weft.planning.joins.shape import mem_opt
from weft.runner.join_registry import JoinRegistry
from weft.spark.committing import StepDriver
from weft.spark.failure import surfaced
from weft.spark.inputs import NoRows, one_task
from weft.spark.job import Task
from weft.spark.join_step import JoinStep
from weft.spark.join_tasks import PASSED_NOTE_TAG, JoinBucketTask, JoinMapTask, ResultsTask, passed
from weft.spark.outcome import Outcome, outcome_of
from weft.spark.payload import ROWS, Parcel, from_batches
from weft.spark.ring_tasks import RoundTask
from weft.spark.session import shipping
from weft.spark.step import ShippedProgram, StateReference, Step
from weft.spark.steps import layers_for
from weft.spark.tasks import BucketTask
from weft.store.manifest import Layer, Manifest
from weft.store.versions import Version

RESULTS = ""
"""Where the watermark of the joins' results is among those of the streams."""


class JoinSteps(StepDriver[Joins]):
    """The steps of joins, which come and go. Layers are those of the joins, then those of queries over
    their results, if there are any."""

    registry: JoinRegistry
    idle: int | None = None
    """Microseconds after which a silent stream holds the others back no more; None: it always does."""

    cost = 0.0  # the rates of the streams are not known

    @cached_property
    def order_statistics(self) -> OrderStatistics:
        """The join orders of joins of more than two streams."""
        return OrderStatistics()

    def _apply(self, last: Manifest | None, version: int) -> Joins | None:
        measured = {meter.members[0].key: meter.rates for meter in self._meters}
        rates = {key: rate for key, rate in measured.items() if rate is not None}
        changed = self.registry.apply(_position(last), version, rates)
        return changed or self._sliced_anew(rates, version)

    def _sliced_anew(self, rates: Mapping[Key, Rates], version: int) -> Joins | None:
        """The same joins in other slices, where the rates make those clearly cheaper; else None."""
        streams, joins, ends = self.registry.streams, self.program, list[Any]()
        for number, (program, now) in enumerate(zip(joins.programs, joins.ends)):
            rate, better = rates.get(program.members[0].key), None
            if streams.shape == "mem-opt":
                better = mem_opt(program.members)
            elif rate is not None:
                better = better_ends(program.members, now, rate, streams.shape, streams.costs)
                self._meters[number] = RateMeter(program.members)
            ends.append(now if better is None else better)
        if ends == [[list(side) for side in now] for now in joins.ends]:
            return None
        return replace(joins, ends=tuple(ends)).renumbered(version)

    def _renumbered(self, program: Joins, version: int) -> Joins:
        return program.renumbered(version)

    def _version(self, program: Joins, seq: int) -> Version:
        joins = self.registry.streams.to_data(program, self.base)
        failed = self.registry.remembered()
        return Version.of(program.results, seq, (), self._lateness, self._base_lateness, joins, failed)

    def _is_laid_out(self, written: Version) -> bool:
        about = self.registry.streams.to_data(self.program, ())
        return (
            written.joins is not None
            and self.program.results.layout == written.layout
            and all(about[name] == written.joins[name] for name in ("layout", "ends"))
        )

    def _base(self, written: Version) -> tuple[JoinQuery, ...]:
        return () if written.joins is None else tuple(map(join_from_dict, written.joins["base"]))

    def _ship(self, program: Joins) -> None:
        super()._ship(program)
        self._shipped, self._shipped_results = ShippedProgram(program), ShippedProgram(program.results)
        self._meters = [RateMeter(join.members) for join in program.programs]

    def _closing(self, last: Manifest | None, at_end: bool) -> int | None:
        """After all rows so far: no result waits for a stream that is behind."""
        latest = None if last is None else last.latest(at_end)
        if last is None or latest is None:
            return None
        known = [mark for stream, mark in last.watermarks.items() if stream != RESULTS and mark is not None]
        return max([latest + 1, *known])

    def _layers(self, last: Manifest) -> tuple[tuple[Layer, ...], ...]:
        # Joins that come later need no row for longer than those for which it counts.
        results = layers_for(self.program.results, last.layers[self.buckets :], self.store)
        return (*last.layers[: self.buckets], *results)

    def _run(
        self, frame: DataFrame, rows: Any, saved: StateReference, clock: StepClock, until: int | None
    ) -> Outcome:
        """Run the step's Spark job: map tasks, a stage for each round, bucket tasks, and, where results are
        aggregated, one more for these."""
        at = _position(self.store.last)
        marks = {stream: at.marks.get(stream) for stream in self.program.streams}
        joined = replace(saved, layers=saved.layers[: self.buckets])
        orders = self.order_statistics.orders(self.program.programs)
        # A stream that has never sent a row is silent since the first step.
        clock = replace(clock, heard={**dict.fromkeys(marks, clock.now), **clock.heard})
        step = JoinStep(self.buckets, marks, at.results, clock, until, joined, orders, self.idle)
        tasks: list[Task] = [RoundTask(self._shipped, step, n) for n in range(self.program.rounds - 1)]
        tasks.append(JoinBucketTask(self._shipped, step))
        if self.program.results.entries:
            tasks.append(ResultsTask(self._answering(saved, at, until)))
        with surfaced(), shipping(frame.sparkSession):
            job = frame.mapInArrow(JoinMapTask(self._shipped, step, rows), ROWS)
            for task in tasks:
                job = job.repartitionById(self.buckets, "bucket").mapInArrow(task, ROWS)
            parcels = list(from_batches([job.toArrow()]))
        if not parcels:  # Spark plans nothing at all for a frame without partitions
            return self._run(one_task(frame.sparkSession), NoRows(), saved, clock, until)
        return self._outcome(parcels, at)

    def _answering(self, saved: StateReference, at: StreamPosition, until: int | None) -> BucketTask:
        """The task that answers the queries over results, whose watermark is that of all streams."""
        if until is not None:
            # Results are no later than the rows that they are of, which are before the mark.
            until = closing_time(self.program.results, until - 1)
            until = until if at.results is None else max(until, at.results)
        own = replace(saved, layers=saved.layers[self.buckets :], about="results")
        clock = StepClock(watermark=at.results)
        return BucketTask(self._shipped_results, Step(self.buckets, clock, until, own))

    def _outcome(self, parcels: Sequence[Parcel], at: StreamPosition) -> Outcome:
        """Read the results of joins, and the answers of the queries over them."""
        answered = [p for p in parcels if p.tag > PASSED_NOTE_TAG]
        aggregated = bool(self.program.results.entries)
        over = outcome_of(answered, self.program.results.queries) if aggregated else None
        if over is not None and over.failed:
            return over
        own = [passed(p) for p in parcels if p.tag <= PASSED_NOTE_TAG] if aggregated else answered
        joined = outcome_of(own, self.program.queries)
        bad = Seen(bad=sum(report["bad"] for report in joined.reports))
        if self.program.rounds > 1:
            bad += Seen(bad=sum(report["round_bad"] for report in joined.reports))
            self.order_statistics.learn(self.program.programs, joined.reports)
        for number, meter in enumerate(self._meters):
            for counts in joined.reports[0]["came"]:
                meter.add(counts[number], 0, 0)
            pairs = [report["pairs"][number] for report in joined.reports]
            meter.add(
                {"sides": ()}, sum(near for near, _ in pairs), sum(pair_count for _, pair_count in pairs)
            )
        results = {name: _in_order(table) for name, table in joined.results.items()}
        marks, reports, seen = {**joined.watermarks, RESULTS: at.results}, joined.reports, joined.seen + bad
        if over is not None:
            results |= over.results
            marks[RESULTS] = over.watermark
            seen += Seen(late=over.seen.late, bad=over.seen.bad)
            reports = tuple(map(_together, reports, over.reports))
        return replace(joined, results=results, seen=seen, reports=reports, watermarks=marks)

    def _layers_of(self, outcome: Outcome) -> tuple[tuple[Layer, ...], ...]:
        over = [report["over"] for report in outcome.reports if "over" in report]
        return (
            *super()._layers_of(outcome),
            *(tuple(map(Layer.from_dict, report["layers"])) for report in over),
        )


def _position(last: Manifest | None) -> StreamPosition:
    """Return the position that the stream has come to."""
    if last is None:
        return StreamPosition()
    marks = {stream: mark for stream, mark in last.watermarks.items() if stream != RESULTS}
    return StreamPosition(last.seen["max_time"], marks, last.watermarks.get(RESULTS))


def _together(joined: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """The report of a bucket of joins, with that of the same bucket of queries over results."""
    sums = {name: joined[name] + over[name] for name in ("rows", "bytes")}
    seconds = {**joined["seconds"], **{f"results {name}": s for name, s in over["seconds"].items()}}
    return {**joined, **sums, "seconds": seconds, "choices": over["choices"], "over": over}


def _in_order(table: pa.Table) -> pa.Table:
    """Results of several buckets in order of time."""
    times = table.column(RESULT_TIME).cast(pa.int64()).to_numpy()
    return table.take(pa.array(np.argsort(times, kind="stable")))
