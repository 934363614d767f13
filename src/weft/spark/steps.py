"""The steps of a stream of window queries: between two of them, queries may change."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
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
from weft.query import Query
from weft.sinks import Sink
from weft.spark.committing import Committing, deliver_to
from weft.spark.job import Outcome, run_job
from weft.spark.step import Carried, Saved, Step
from weft.spark.tables import Sender
from weft.spark.tasks import Input
from weft.tables import Tables


class Steps(Committing[Program]):
    """The steps of window queries, which come and go; ``late`` is a sink for late rows. ``lateness`` may be
    set at any time, and holds from the next step on."""

    def __init__(
        self,
        spark: SparkSession,
        registry: Registry,
        store: SliceStore,
        sink: Sink,
        lateness: int,
        stream: str,
        base: tuple[Query, ...],
        tables: Tables,
        late: Sink | None = None,
    ) -> None:
        super().__init__(spark, store, sink, lateness, stream, registry.program.buckets)
        self.registry, self.base, self.tables, self.late = registry, base, tables, late
        self._carried = Carried(registry.program)
        self._sender = Sender(spark, tables)
        self._written, self._next_version = store.version(), store.next_version()
        self._schemas: dict[str, tuple[Query, pa.Schema]] = {}
        self._base_lateness = self._lateness = self.lateness = lateness
        if self._written is not None and self._written.base_lateness == lateness:
            # What was set while it ran holds on, unless it is now started with another.
            self.lateness = self._written.lateness
        self._open_sink(registry.program)
        if late is not None:
            late.open(late_tables(registry.program.schema), stream)

    @property
    def program(self) -> Program:
        """What runs."""
        return self.registry.program

    @property
    def version(self) -> int:
        """The version of the queries that run."""
        return self.program.version

    @property
    def cost(self) -> float:
        """What the plan should cost."""
        return self.program.plan.cost

    def close(self) -> None:
        """Called once, after the last step."""
        self.registry.close()
        try:
            super().close()
        finally:
            if self.late is not None:
                self.late.close()

    def _run(self, frame: DataFrame, input: Input, saved: Saved, until: int | None) -> Outcome:
        step = Step(
            buckets=self.buckets,
            watermark=self.store.last.watermark if self.store.last else None,
            lateness=self._lateness,
            until=until,
            saved=saved,
            keep_late=self.late is not None,
        )
        tables = self._sender.carried(self.program)
        outcome = run_job(frame, input, self.program, self._carried, step, tables)
        choices = total(map(Choice.from_dict, outcome.reports[0]["choices"]))
        self.registry.observe(choices, outcome.seen.max_time)
        return outcome

    def _deliver(self, outcome: Outcome, seq: int) -> None:
        super()._deliver(outcome, seq)
        if self.late is not None:
            deliver_to(self.late, outcome.late, seq)

    def _change(self, seq: int) -> None:
        """Take the changes asked for, and write down what the step is made with, unless that was done."""
        last, written = self.store.last, self._written
        settled = written is not None and written.seq == seq
        self._lateness = written.lateness if written is not None and settled else self.lateness
        folded = None
        if not settled:
            seen = Seen(**last.seen) if last else Seen()  # type: ignore[arg-type]
            folded = self.registry.fold(seen, last.watermark if last else None, self._next_version)
        program = folded or self.program
        if folded is None and written is not None and self._is_as_written(written, settled):
            return
        if folded is None:
            program = replace(program, version=self._next_version)
        self._written = Version.of(program, seq, self.base, self._lateness, self._base_lateness)
        self.store.write_version(self._written)
        self._next_version += 1
        self._carried = Carried(program)
        self._open_sink(program)
        self.registry.commit(program)

    def _is_as_written(self, written: Version, settled: bool) -> bool:
        """Whether nothing has changed; what the run was started with may have, for the step after."""
        if settled:
            return self.program.layout == written.layout
        given = (self.base, self._lateness, self._base_lateness)
        return self.program.layout == written.layout and given == (
            written.base,
            written.lateness,
            written.base_lateness,
        )

    def _open_sink(self, program: Program) -> None:
        """Tell the sink of the queries that there are; what is known of them is not worked out again."""
        known = self._schemas
        self._schemas = {
            q.name: known[q.name]
            if q.name in known and known[q.name][0] is q
            else (q, program.result_schema(q.name))
            for q in program.queries
        }
        self.sink.open({name: schema for name, (_, schema) in self._schemas.items()}, self.stream)

    def _closing(self, last: Manifest | None) -> int | None:
        """The watermark that closes all windows of the queries there are now; it never goes back."""
        if last is None or last.seen["max_time"] is None:
            return None
        until = closing_time(self.program, last.seen["max_time"])
        return until if last.watermark is None else max(until, last.watermark)

    def _layers(self, last: Manifest) -> tuple[tuple[Layer, ...], ...]:
        """The layers after the last step, each kept as long as the queries of this one need it."""
        if last.version == self.program.version:
            return last.layers
        migrations = {v: Migration(self.store.layout(v), self.program) for v in last.versions}
        return tuple(
            tuple(needed_anew(layer, migrations[layer.version]) for layer in layers) for layers in last.layers
        )
