"""The steps of a stream of window queries: between two of them, queries may change."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from weft.engine.final import closing_time
from weft.engine.late import late_tables
from weft.engine.layers import needed_anew
from weft.engine.manifest import Layer, Manifest
from weft.engine.migrate import Migration
from weft.engine.partial import Seen
from weft.engine.program import Program
from weft.engine.registry import Registry
from weft.engine.sharing import Choice, total
from weft.engine.store import SliceStore
from weft.engine.versions import Version
from weft.engine.watermark import StepClock, TimeRules
from weft.query import Query
from weft.sinks import Sink
from weft.spark.committing import Committing, deliver_to
from weft.spark.job import Outcome, run_job
from weft.spark.step import Carried, Saved, Step
from weft.spark.tables import Sender
from weft.spark.tasks import Input
from weft.tables import Tables


class Steps(Committing[Program]):
    """The steps of window queries; ``late`` is a sink for late rows."""

    registry: Registry

    def __init__(
        self,
        spark: SparkSession,
        registry: Registry,
        store: SliceStore,
        sink: Sink,
        rules: TimeRules,
        stream: str,
        base: tuple[Query, ...],
        tables: Tables,
        late: Sink | None = None,
    ) -> None:
        self.tables, self.late = tables, late
        super().__init__(spark, registry, store, sink, rules, stream, registry.program.buckets, base)
        self._sender = Sender(spark, tables)
        if late is not None:
            late.open(late_tables(registry.program.schema), stream)

    @property
    def cost(self) -> float:
        """What the plan should cost."""
        return self.program.plan.cost

    def close(self) -> None:
        """Called once, after the last step."""
        try:
            super().close()
        finally:
            if self.late is not None:
                self.late.close()

    def _run(
        self, frame: DataFrame, input: Input, saved: Saved, clock: StepClock, until: int | None
    ) -> Outcome:
        step = Step(
            buckets=self.buckets,
            clock=clock,
            until=until,
            saved=saved,
            keep_late=self.late is not None,
        )
        tables = self._sender.carried(self.program)
        outcome = run_job(frame, input, self.program, self._carried, step, tables)
        if outcome.failed:
            return outcome
        choices = total(map(Choice.from_dict, outcome.reports[0]["choices"]))
        self.registry.observe(choices, outcome.seen.max_time)
        return outcome

    def _deliver(self, outcome: Outcome, seq: int) -> None:
        super()._deliver(outcome, seq)
        if self.late is not None:
            deliver_to(self.late, outcome.late, seq)

    def _fold(self, last: Manifest | None, version: int) -> Program | None:
        seen = Seen(**last.seen) if last else Seen()  # type: ignore[arg-type]
        return self.registry.fold(seen, last.watermark if last else None, version)

    def _renumbered(self, program: Program, version: int) -> Program:
        return replace(program, version=version)

    def _version(self, program: Program, seq: int) -> Version:
        failed = self.registry.remembered()
        return Version.of(program, seq, self.base, self._lateness, self._base_lateness, failed=failed)

    def _is_laid_out(self, written: Version) -> bool:
        return self.program.layout == written.layout

    def _base(self, written: Version) -> tuple[Query, ...]:
        return written.base

    def _carry(self, program: Program) -> None:
        super()._carry(program)
        self._carried = Carried(program)

    def _closing(self, last: Manifest | None, everything: bool) -> int | None:
        """The watermark that closes all windows of the queries there are now; it never goes back."""
        latest = None if last is None else last.latest(everything)
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
    others = {layer.version for some in layers for layer in some} - {program.version}
    migrations = {version: Migration(store.layout(version), program) for version in others}
    return tuple(
        tuple(
            needed_anew(layer, migrations[layer.version]) if layer.version in others else layer
            for layer in some
        )
        for some in layers
    )
