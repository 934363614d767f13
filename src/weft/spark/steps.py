"""The steps of a stream of window queries: between two of them, queries may change."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from weft.model.query import Query
from weft.operators.late import late_tables
from weft.operators.lookups.tables import LookupTables
from weft.operators.times import Seen
from weft.operators.watermark import StepClock, TimeRules
from weft.operators.windows.answer import closing_time
from weft.operators.windows.carry_over import WindowCarryOver
from weft.operators.windows.program import Program
from weft.operators.windows.sharing import SharingChoice, total
from weft.runner.registry import Registry
from weft.spark.broadcast import TableBroadcaster
from weft.spark.committing import Delivery, StepDriver, deliver_to
from weft.spark.job import run_job
from weft.spark.outcome import Outcome
from weft.spark.step import ShippedProgram, StateReference, Step
from weft.spark.tasks import Input
from weft.store.layers import needed_anew
from weft.store.manifest import Layer, Manifest
from weft.store.slice_store import SliceStore
from weft.store.versions import Version


class Steps(StepDriver[Program]):
    """The steps of window queries."""

    registry: Registry

    def __init__(
        self,
        spark: SparkSession,
        registry: Registry,
        store: SliceStore,
        delivery: Delivery,
        rules: TimeRules,
        base: tuple[Query, ...],
        tables: LookupTables,
    ) -> None:
        super().__init__(spark, registry, store, delivery, rules, registry.program.buckets, base)
        self.tables, self._broadcaster = tables, TableBroadcaster(spark, tables)
        if self.late is not None:
            self.late.open(late_tables(registry.program.schema), self.stream)

    @property
    def cost(self) -> float:
        """Cost of the plan."""
        return self.program.plan.cost

    def close(self) -> None:
        """Called once, after the last step."""
        try:
            super().close()
        finally:
            if self.late is not None:
                self.late.close()

    def _run(
        self, frame: DataFrame, rows: Input, saved: StateReference, clock: StepClock, until: int | None
    ) -> Outcome:
        """Run the step's Spark job, with the lookup tables as they are now, and note what it shared."""
        step = Step(
            buckets=self.buckets,
            clock=clock,
            until=until,
            saved=saved,
            keep_late=self.late is not None,
        )
        tables = self._broadcaster.ship(self.program)
        outcome = run_job(frame, rows, self.program, self._shipped, step, tables)
        if outcome.failed:
            return outcome
        choices = total(map(SharingChoice.from_dict, outcome.reports[0]["choices"]))
        self.registry.observe(choices, outcome.seen.max_time)
        return outcome

    def _deliver(self, outcome: Outcome, seq: int) -> None:
        super()._deliver(outcome, seq)
        if self.late is not None:
            deliver_to(self.late, outcome.late, seq)

    def _apply(self, last: Manifest | None, version: int) -> Program | None:
        seen = Seen(**last.seen) if last else Seen()  # type: ignore[arg-type]
        return self.registry.apply(seen, last.watermark if last else None, version)

    def _renumbered(self, program: Program, version: int) -> Program:
        return replace(program, version=version)

    def _version(self, program: Program, seq: int) -> Version:
        failed = self.registry.remembered()
        return Version.of(program, seq, self.base, self._lateness, self._base_lateness, failed=failed)

    def _is_laid_out(self, written: Version) -> bool:
        return self.program.layout == written.layout

    def _base(self, written: Version) -> tuple[Query, ...]:
        return written.base

    def _ship(self, program: Program) -> None:
        super()._ship(program)
        self._shipped = ShippedProgram(program)

    def _closing(self, last: Manifest | None, at_end: bool) -> int | None:
        """The watermark that closes all windows of the queries there are now; it never goes back."""
        latest = None if last is None else last.latest(at_end)
        if last is None or latest is None:
            return None
        until = closing_time(self.program, latest)
        return until if last.watermark is None else max(until, last.watermark)

    def _layers(self, last: Manifest) -> tuple[tuple[Layer, ...], ...]:
        """The layers after the last step, each kept as long as the queries of this one need it."""
        return layers_for(self.program, last.layers, self.store)


def layers_for(
    program: Program, layers: tuple[tuple[Layer, ...], ...], store: SliceStore
) -> tuple[tuple[Layer, ...], ...]:
    """Layers of any version, each kept as long as a program needs it."""
    others = {layer.version for bucket in layers for layer in bucket} - {program.version}
    migrations = {version: WindowCarryOver(store.layout(version), program) for version in others}
    return tuple(
        tuple(
            needed_anew(layer, migrations[layer.version]) if layer.version in others else layer
            for layer in bucket
        )
        for bucket in layers
    )
