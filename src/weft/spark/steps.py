"""Steps of a stream, one at a time: run the job, deliver to the sink, publish the manifest.

In this order a crash anywhere is harmless: before the manifest the step never happened, and is made again
under the same number, which replaces what the sink got; after it, Spark's replay of the batch is skipped.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict

from pyspark.sql import DataFrame, SparkSession

from weft.engine.final import closing_time
from weft.engine.manifest import Layer, Manifest
from weft.engine.partial import Seen
from weft.engine.program import Program
from weft.engine.store import SliceStore, layout
from weft.errors import JobError, WeftError
from weft.progress import Progress
from weft.sinks import Sink
from weft.spark.inputs import NoRows
from weft.spark.job import Outcome, one_task, run_job
from weft.spark.progress import measured
from weft.spark.step import Carried, Saved, Step
from weft.spark.tasks import Input

REMEMBERED = 64
Rows = Callable[[], tuple[DataFrame, Input, tuple[str, ...]]]
"""Gives a step's rows: a frame, how its tasks read them, and the files left out."""


class Stopped(Exception):
    """Raised instead of making a step once the stream has been stopped, so that Spark keeps its batch."""


class Steps:
    """The steps of one stream over one checkpoint."""

    def __init__(
        self,
        spark: SparkSession,
        program: Program,
        store: SliceStore,
        sink: Sink,
        lateness: int,
        buckets: int,
    ) -> None:
        self.spark, self.program, self.store, self.sink = spark, program, store, sink
        self.lateness = lateness
        self.buckets = store.last.buckets if store.last else buckets
        self.stopped = False
        self._lock = threading.Lock()
        self._session = spark.newSession()
        self._carried = Carried(program)
        self._history = {store.last.token: store.last.seq} if store.last else {}

    def batch(self, batch_id: int, rows: Rows) -> Progress | None:
        """Make the step of one of Spark's batches, unless it has been committed."""
        with self._lock:
            if self.stopped:
                raise Stopped
            if self.store.is_done(batch_id):
                return None
            return self._make("batch", batch_id, rows, None)

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
            return self._make("flush", last.batch_id, lambda: (one_task(self._session), NoRows(), ()), until)

    def stop(self) -> None:
        """Make no step after the one that is being made."""
        with self._lock:
            self.stopped = True

    def _make(self, kind: str, batch_id: int, rows: Rows, until: int | None) -> Progress:
        began = time.perf_counter()
        last = self.store.last
        frame, input, skipped = rows()
        saved = Saved(
            place=self.store.place,
            seq=last.seq + 1 if last else 1,
            token=uuid.uuid4().hex[:12],
            before=last.token if last else None,
            layers=last.layers if last else (),
            history=dict(self._history),
        )
        step = Step(
            buckets=self.buckets,
            watermark=last.watermark if last else None,
            lateness=self.lateness,
            until=until,
            saved=saved,
        )
        listed = time.perf_counter()
        outcome = run_job(frame, input, self.program, self._carried, step)
        ran = time.perf_counter()
        self._deliver(outcome, saved.seq)
        delivered = time.perf_counter()
        self._publish(outcome, saved, kind, batch_id)
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

    def _deliver(self, outcome: Outcome, seq: int) -> None:
        try:
            self.sink.deliver(outcome.results, seq)
        except WeftError:
            raise
        except Exception as error:
            raise JobError(
                f"the sink {type(self.sink).__name__} failed at step {seq}: {error}; "
                "the step is not committed, and is made again by the next run"
            ) from error

    def _publish(self, outcome: Outcome, saved: Saved, kind: str, batch_id: int) -> None:
        last = self.store.last
        before = Seen(**last.seen) if last else Seen()  # type: ignore[arg-type]
        layers = tuple(tuple(map(Layer.from_dict, report["layers"])) for report in outcome.reports)
        self.store.publish(
            Manifest(
                seq=saved.seq,
                token=saved.token,
                kind=kind,
                batch_id=batch_id,
                fingerprint=layout(self.program),
                queries=tuple(q.name for q in self.program.queries),
                buckets=self.buckets,
                watermark=outcome.watermark,
                seen=asdict(before + outcome.seen),
                layers=layers,
            )
        )
        self._history[saved.token] = saved.seq
        while len(self._history) > REMEMBERED:
            del self._history[next(iter(self._history))]
