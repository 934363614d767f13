"""Steps of a stream, one at a time: run the job, deliver to the sink, publish the manifest.

In this order a crash anywhere is harmless: before the manifest the step never happened, and is made again
under the same number, which replaces what the sink got; after it, Spark's replay of the batch is skipped.
"""

from __future__ import annotations

import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from weft.engine.manifest import Layer, Manifest
from weft.engine.partial import Seen
from weft.engine.store import SliceStore
from weft.errors import JobError, WeftError
from weft.progress import Progress
from weft.sinks import Sink
from weft.spark.inputs import NoRows
from weft.spark.job import Outcome, one_task
from weft.spark.progress import measured
from weft.spark.sources import Part
from weft.spark.step import Saved

REMEMBERED = 64


class Asked(Protocol):
    """What runs: a program of some queries."""

    @property
    def queries(self) -> Sequence[Any]:
        """The queries."""
        ...


P = TypeVar("P", bound=Asked)


class Stopped(Exception):
    """Raised instead of making a step once the stream has been stopped, so that Spark keeps its batch."""


class Committing(ABC, Generic[P]):
    """The steps of one stream over one checkpoint; ``stream`` is its name for the sink."""

    def __init__(
        self,
        spark: SparkSession,
        store: SliceStore,
        sink: Sink,
        lateness: int,
        stream: str,
        buckets: int,
    ) -> None:
        self.spark, self.store, self.sink = spark, store, sink
        self.lateness, self.stream, self.buckets = lateness, stream, buckets
        self.stopped = False
        self._lock = threading.Lock()
        self._session = spark.newSession()
        self._history = {store.last.token: store.last.seq} if store.last else {}

    @property
    @abstractmethod
    def program(self) -> P:
        """What runs."""

    @property
    @abstractmethod
    def version(self) -> int:
        """The version of the queries that run."""

    @property
    @abstractmethod
    def cost(self) -> float:
        """What the plan of the queries should cost."""

    @abstractmethod
    def _change(self, seq: int) -> None:
        """Take the changes asked for, before the step is made."""

    @abstractmethod
    def _closing(self, last: Manifest | None) -> int | None:
        """The watermark that answers all that waits; it never goes back. None where there was no row."""

    @abstractmethod
    def _layers(self, last: Manifest) -> tuple[tuple[Layer, ...], ...]:
        """The layers after the last step, as this one needs them."""

    @abstractmethod
    def _run(self, frame: DataFrame, input: Any, saved: Saved, until: int | None) -> Outcome:
        """Run the job of a step; ``until``, where given, is the watermark after it whatever the rows say."""

    def batch(self, batch_id: int, part: Part[P]) -> Progress | None:
        """Make a step of one of Spark's batches, or of a part of it, unless the batch has been committed."""
        with self._lock:
            if self.stopped:
                raise Stopped
            if self.store.is_done(batch_id):
                return None
            return self._make("batch", batch_id, part)

    def flush(self) -> Progress | None:
        """Answer all that the rows so far can be answered with; None where nothing waits."""
        with self._lock:
            if self.stopped:
                raise Stopped
            last = self.store.last
            until = self._closing(last)
            if last is None or until is None or until == last.watermark:
                return None
            nothing: Part[P] = Part(lambda _: (one_task(self._session), NoRows(), ()), last.taken)
            return self._make("flush", last.batch_id, nothing)

    def stop(self) -> None:
        """Make no step after the one that is being made."""
        with self._lock:
            self.stopped = True

    def close(self) -> None:
        """Called once, after the last step."""
        self.sink.close()

    def _make(self, kind: str, batch_id: int, part: Part[P]) -> Progress:
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
        listed = time.perf_counter()
        outcome = self._run(frame, input, saved, self._closing(last) if kind == "flush" else None)
        ran = time.perf_counter()
        self._deliver(outcome, saved.seq)
        delivered = time.perf_counter()
        self._publish(outcome, saved, kind, batch_id, part.taken)
        done = time.perf_counter()
        return measured(
            outcome,
            version=self.version,
            queries=len(self.program.queries),
            cost=self.cost,
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
        deliver_to(self.sink, outcome.results, seq)

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
                version=self.version,
                buckets=self.buckets,
                watermark=outcome.watermark,
                seen=asdict(before + outcome.seen),
                layers=layers,
                taken=taken,
                watermarks=outcome.watermarks,
            )
        )
        self._history[saved.token] = saved.seq
        while len(self._history) > REMEMBERED:
            del self._history[next(iter(self._history))]


def deliver_to(sink: Sink, results: Mapping[str, pa.Table], seq: int) -> None:
    """Hand results to a sink; JobError says which one failed, and what that means."""
    try:
        sink.deliver(results, seq)
    except WeftError:
        raise
    except Exception as error:
        raise JobError(
            f"the sink {type(sink).__name__} failed at step {seq}: {error}; "
            "the step is not committed, and is made again by the next run"
        ) from error
