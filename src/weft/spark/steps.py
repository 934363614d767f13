"""Steps of a stream, one at a time: run the job, deliver to the sink, publish the manifest.

In this order a crash anywhere is harmless: before the manifest the step never happened, and is made again
under the same number, which replaces what the sink got; after it, Spark's replay of the batch is skipped.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, replace

import pyarrow as pa
from pyspark.sql import SparkSession

from weft.engine.final import closing_time
from weft.engine.late import NAME as LATE_ROWS
from weft.engine.late import late_schema
from weft.engine.layers import needed_anew
from weft.engine.manifest import Layer, Manifest
from weft.engine.migrate import Migration
from weft.engine.partial import Seen
from weft.engine.program import Program
from weft.engine.registry import Registry
from weft.engine.store import SliceStore
from weft.engine.versions import Version
from weft.errors import JobError, WeftError
from weft.progress import Progress
from weft.query import Query
from weft.sinks import Sink
from weft.spark.inputs import NoRows
from weft.spark.job import Outcome, one_task, run_job
from weft.spark.progress import measured
from weft.spark.sources import Part
from weft.spark.step import Carried, Saved, Step
from weft.spark.tables import Sender
from weft.tables import Tables

REMEMBERED = 64


class Stopped(Exception):
    """Raised instead of making a step once the stream has been stopped, so that Spark keeps its batch."""


class Steps:
    """The steps of one stream over one checkpoint; ``stream`` is its name for the sink, ``late`` a sink for
    late rows. ``lateness`` may be set at any time, and holds from the next step on."""

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
        self.spark, self.registry, self.store, self.sink = spark, registry, store, sink
        self.stream, self.base, self.tables, self.late = stream, base, tables, late
        self.buckets = registry.program.buckets
        self.stopped = False
        self._lock = threading.Lock()
        self._session = spark.newSession()
        self._carried = Carried(registry.program)
        self._sender = Sender(spark, tables)
        self._written, self._next_version = store.version(), store.next_version()
        self._history = {store.last.token: store.last.seq} if store.last else {}
        self._schemas: dict[str, tuple[Query, pa.Schema]] = {}
        self._base_lateness = self._lateness = self.lateness = lateness
        if self._written is not None and self._written.base_lateness == lateness:
            # What was set while it ran holds on, unless it is now started with another.
            self.lateness = self._written.lateness
        self._open_sink(registry.program)
        if late is not None:
            late.open({LATE_ROWS: late_schema(registry.program.schema)}, stream)

    @property
    def program(self) -> Program:
        """What runs."""
        return self.registry.program

    def batch(self, batch_id: int, part: Part) -> Progress | None:
        """Make a step of one of Spark's batches, or of a part of it, unless the batch has been committed."""
        with self._lock:
            if self.stopped:
                raise Stopped
            if self.store.is_done(batch_id):
                return None
            return self._make("batch", batch_id, part)

    def flush(self) -> Progress | None:
        """Answer every window that holds a row so far; None where none is open."""
        with self._lock:
            if self.stopped:
                raise Stopped
            last = self.store.last
            if last is None or last.seen["max_time"] is None:
                return None
            until = closing_time(self.program, last.seen["max_time"])
            if last.watermark is not None and last.watermark >= until:
                return None
            nothing = Part(lambda _: (one_task(self._session), NoRows(), ()), last.taken)
            return self._make("flush", last.batch_id, nothing)

    def stop(self) -> None:
        """Make no step after the one that is being made."""
        with self._lock:
            self.stopped = True

    def _make(self, kind: str, batch_id: int, part: Part) -> Progress:
        began = time.perf_counter()
        last = self.store.last
        seq = last.seq + 1 if last else 1
        self._change(seq)
        frame, input, skipped = part.rows(self.program)
        saved = Saved(
            place=self.store.place,
            seq=seq,
            token=uuid.uuid4().hex[:12],
            before=last.token if last else None,
            layers=self._layers(last) if last else (),
            history=dict(self._history),
        )
        step = Step(
            buckets=self.buckets,
            watermark=last.watermark if last else None,
            lateness=self._lateness,
            until=self._closing(last) if kind == "flush" else None,
            saved=saved,
            keep_late=self.late is not None,
        )
        listed = time.perf_counter()
        tables = self._sender.carried(self.program)
        outcome = run_job(frame, input, self.program, self._carried, step, tables)
        ran = time.perf_counter()
        self._deliver(outcome, saved.seq)
        delivered = time.perf_counter()
        self._publish(outcome, saved, kind, batch_id, part.taken)
        done = time.perf_counter()
        return measured(
            outcome,
            self.program,
            seq=saved.seq,
            batch_id=batch_id,
            kind=kind,
            seconds=done - began,
            laps={
                "list": listed - began,
                "job": ran - listed,
                "sink": delivered - ran,
                "commit": done - delivered,
            },
            skipped=skipped,
        )

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

    def _deliver(self, outcome: Outcome, seq: int) -> None:
        _deliver_to(self.sink, outcome.results, seq)
        if self.late is not None:
            _deliver_to(self.late, {} if outcome.late is None else {LATE_ROWS: outcome.late}, seq)

    def close(self) -> None:
        """Close the sinks."""
        try:
            self.sink.close()
        finally:
            if self.late is not None:
                self.late.close()

    def _publish(self, outcome: Outcome, saved: Saved, kind: str, batch_id: int, taken: int | None) -> None:
        last = self.store.last
        before = Seen(**last.seen) if last else Seen()  # type: ignore[arg-type]
        layers = tuple(tuple(map(Layer.from_dict, report["layers"])) for report in outcome.reports)
        self.store.publish(
            Manifest(
                seq=saved.seq,
                token=saved.token,
                kind=kind,
                batch_id=batch_id,
                version=self.program.version,
                buckets=self.buckets,
                watermark=outcome.watermark,
                seen=asdict(before + outcome.seen),
                layers=layers,
                taken=taken,
            )
        )
        self._history[saved.token] = saved.seq
        while len(self._history) > REMEMBERED:
            del self._history[next(iter(self._history))]


def _deliver_to(sink: Sink, results: Mapping[str, pa.Table], seq: int) -> None:
    try:
        sink.deliver(results, seq)
    except WeftError:
        raise
    except Exception as error:
        raise JobError(
            f"the sink {type(sink).__name__} failed at step {seq}: {error}; "
            "the step is not committed, and is made again by the next run"
        ) from error
