"""The steps of a stream of joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from weft.engine.final import closing_time
from weft.engine.manifest import Layer, Manifest
from weft.engine.partial import Seen
from weft.engine.versions import Version
from weft.engine.watermark import StepClock
from weft.joins.adapt import Watch, better_ends
from weft.joins.live import JoinRegistry, Moment
from weft.joins.member import Key
from weft.joins.multiway.book import OrderBook
from weft.joins.rates import Rates
from weft.joins.shape import mem_opt
from weft.joins.state import Joins
from weft.query import RESULT_TIME, JoinQuery
from weft.query_json import join_from_dict
from weft.spark.committing import Committing
from weft.spark.failure import surfaced
from weft.spark.inputs import NoRows
from weft.spark.job import Outcome, Task, one_task, outcome_of
from weft.spark.join_step import JoinStep
from weft.spark.join_tasks import PASSED, JoinBucketTask, JoinMapTask, ResultsTask, passed
from weft.spark.payload import ROWS, Parcel, from_batches
from weft.spark.ring_tasks import RoundTask
from weft.spark.session import shipping
from weft.spark.step import Carried, Saved, Step
from weft.spark.steps import layers_for
from weft.spark.tasks import BucketTask

RESULTS = ""
"""Where the watermark of the joins' results is among those of the streams."""


class JoinSteps(Committing[Joins]):
    """The steps of joins, which come and go. Layers are those of the joins, then those of queries over
    their results, if there are any."""

    registry: JoinRegistry
    idle: int | None = None
    """Microseconds after which a silent stream holds the others back no more; None: it always does."""

    cost = 0.0  # the rates of the streams are not known

    @cached_property
    def book(self) -> OrderBook:
        """The join orders of joins of more than two streams."""
        return OrderBook()

    def _fold(self, last: Manifest | None, version: int) -> Joins | None:
        rates = {watch.members[0].key: watch.rates for watch in self._watches}
        known = {key: rate for key, rate in rates.items() if rate is not None}
        changed = self.registry.fold(_moment(last), version, known)
        return changed or self._sliced_anew(known, version)

    def _sliced_anew(self, rates: Mapping[Key, Rates], version: int) -> Joins | None:
        """The same joins in other slices, where the rates make those clearly cheaper; else None."""
        streams, joins, ends = self.registry.streams, self.program, list[Any]()
        for number, (program, now) in enumerate(zip(joins.programs, joins.ends)):
            rate, better = rates.get(program.members[0].key), None
            if streams.shape == "mem-opt":
                better = mem_opt(program.members)
            elif rate is not None:
                better = better_ends(program.members, now, rate, streams.shape, streams.costs)
                self._watches[number] = Watch(program.members)
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

    def _carry(self, program: Joins) -> None:
        super()._carry(program)
        self._carried, self._results = Carried(program), Carried(program.results)
        self._watches = [Watch(each.members) for each in program.programs]

    def _closing(self, last: Manifest | None, everything: bool) -> int | None:
        """After all rows so far: no result waits for a stream that is behind."""
        latest = None if last is None else last.latest(everything)
        if last is None or latest is None:
            return None
        known = [mark for stream, mark in last.watermarks.items() if stream != RESULTS and mark is not None]
        return max([latest + 1, *known])

    def _layers(self, last: Manifest) -> tuple[tuple[Layer, ...], ...]:
        # Joins that come later need no row for longer than those for which it counts.
        results = layers_for(self.program.results, last.layers[self.buckets :], self.store)
        return (*last.layers[: self.buckets], *results)

    def _run(
        self, frame: DataFrame, input: Any, saved: Saved, clock: StepClock, until: int | None
    ) -> Outcome:
        at = _moment(self.store.last)
        marks = {stream: at.marks.get(stream) for stream in self.program.streams}
        joined = replace(saved, layers=saved.layers[: self.buckets])
        orders = self.book.orders(self.program.programs)
        # A stream that has never sent a row is silent since the first step.
        clock = replace(clock, heard={**dict.fromkeys(marks, clock.now), **clock.heard})
        step = JoinStep(self.buckets, marks, at.results, clock, until, joined, orders, self.idle)
        tasks: list[Task] = [RoundTask(self._carried, step, n) for n in range(self.program.rounds - 1)]
        tasks.append(JoinBucketTask(self._carried, step))
        if self.program.results.entries:
            tasks.append(ResultsTask(self._answering(saved, at, until)))
        with surfaced(), shipping(frame.sparkSession):
            job = frame.mapInArrow(JoinMapTask(self._carried, step, input), ROWS)
            for task in tasks:
                job = job.repartitionById(self.buckets, "bucket").mapInArrow(task, ROWS)
            parcels = list(from_batches([job.toArrow()]))
        if not parcels:  # Spark plans nothing at all for a frame without partitions
            return self._run(one_task(frame.sparkSession), NoRows(), saved, clock, until)
        return self._outcome(parcels, at)

    def _answering(self, saved: Saved, at: Moment, until: int | None) -> BucketTask:
        """The task that answers the queries over results, whose watermark is that of all streams."""
        if until is not None:
            # Results are no later than the rows that they are of, which are before the mark.
            until = closing_time(self.program.results, until - 1)
            until = until if at.results is None else max(until, at.results)
        mine = replace(saved, layers=saved.layers[self.buckets :], about="results")
        clock = StepClock(watermark=at.results)
        return BucketTask(self._results, Step(self.buckets, clock, until, mine))

    def _outcome(self, parcels: Sequence[Parcel], at: Moment) -> Outcome:
        """What joins gave, and what the queries over their results answered."""
        answered = [p for p in parcels if p.tag > PASSED]
        aggregated = bool(self.program.results.entries)
        over = outcome_of(answered, self.program.results.queries) if aggregated else None
        if over is not None and over.failed:
            return over
        own = [passed(p) for p in parcels if p.tag <= PASSED] if aggregated else answered
        found = outcome_of(own, self.program.queries)
        bad = Seen(bad=sum(report["bad"] for report in found.reports))
        if self.program.rounds > 1:
            bad += Seen(bad=sum(report["round_bad"] for report in found.reports))
            self.book.learn(self.program.programs, found.reports)
        for number, watch in enumerate(self._watches):
            for said in found.reports[0]["came"]:
                watch.add(said[number], 0, 0)
            pairs = [report["pairs"][number] for report in found.reports]
            watch.add({"sides": ()}, sum(near for near, _ in pairs), sum(joined for _, joined in pairs))
        results = {name: _in_order(table) for name, table in found.results.items()}
        marks, reports, seen = {**found.watermarks, RESULTS: at.results}, found.reports, found.seen + bad
        if over is not None:
            results |= over.results
            marks[RESULTS] = over.watermark
            seen += Seen(late=over.seen.late, bad=over.seen.bad)
            reports = tuple(map(_together, reports, over.reports))
        return replace(found, results=results, seen=seen, reports=reports, watermarks=marks)

    def _layers_of(self, outcome: Outcome) -> tuple[tuple[Layer, ...], ...]:
        over = [report["over"] for report in outcome.reports if "over" in report]
        return (
            *super()._layers_of(outcome),
            *(tuple(map(Layer.from_dict, report["layers"])) for report in over),
        )


def _moment(last: Manifest | None) -> Moment:
    """How far the stream has come."""
    if last is None:
        return Moment()
    marks = {stream: mark for stream, mark in last.watermarks.items() if stream != RESULTS}
    return Moment(last.seen["max_time"], marks, last.watermarks.get(RESULTS))


def _together(joined: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """The report of a bucket of joins, with that of the same bucket of queries over results."""
    sums = {name: joined[name] + over[name] for name in ("rows", "bytes")}
    seconds = {**joined["seconds"], **{f"results {name}": s for name, s in over["seconds"].items()}}
    return {**joined, **sums, "seconds": seconds, "choices": over["choices"], "over": over}


def _in_order(table: pa.Table) -> pa.Table:
    """Results of several buckets in order of time."""
    times = table.column(RESULT_TIME).cast(pa.int64()).to_numpy()
    return table.take(pa.array(np.argsort(times, kind="stable")))
