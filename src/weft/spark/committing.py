"""Steps of a stream, one at a time: take changes, run the job, deliver to the sink, publish the manifest.

What a step is made with is written down before it. In this order a crash anywhere is harmless: before the
manifest the step never happened, and is made again with the same queries and under the same number, which
replaces what the sink got; after it, Spark's replay of the batch is skipped.
"""

from __future__ import annotations

import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from weft.errors import JobError, WeftError
from weft.io.sinks import Sink
from weft.operators.times import Seen
from weft.operators.watermark import UNREAD_REMARK, StepClock, TimeRules, flush_remark
from weft.runner.changes import Answering, Changes
from weft.runner.clock import wall_clock
from weft.runner.progress import Progress
from weft.spark.inputs import NoRows, one_task
from weft.spark.outcome import Outcome
from weft.spark.progress import StepRecord, measured
from weft.spark.sources import BatchPart
from weft.spark.step import StateReference
from weft.store.manifest import Layer, Manifest
from weft.store.slice_store import SliceStore
from weft.store.versions import Version

MAX_TOKENS = 64
"""Tokens of recent steps by which workers know how old a state is."""


class Versioned(Answering, Protocol):
    """A program of queries that runs."""

    @property
    def version(self) -> int:
        """The version of the queries."""
        ...

    def result_schema(self, name: str) -> pa.Schema:
        """The schema of a query's results."""
        ...


P = TypeVar("P", bound=Versioned)


class Stopped(Exception):
    """Raised instead of making a step once the stream has been stopped, so that Spark keeps its batch."""


class Delivery(NamedTuple):
    """Delivery of results to a sink, which knows the stream by name, and of late rows to another."""

    sink: Sink
    stream: str
    late: Sink | None = None


class StepDriver(ABC, Generic[P]):
    """The steps of one stream over one checkpoint.

    ``base`` are the queries that the run was started with. ``lateness`` may be set at any time, and holds
    from the next step on.
    """

    def __init__(
        self,
        spark: SparkSession,
        registry: Changes[Any, P, Any],
        store: SliceStore,
        delivery: Delivery,
        rules: TimeRules,
        buckets: int,
        base: tuple[Any, ...],
    ) -> None:
        self.spark, self.store, self.registry = spark, store, registry
        self.sink, self.stream, self.late = delivery
        self.buckets, self.base = buckets, base
        self.stopped = False
        self._lock = threading.Lock()
        self._session = spark.newSession()
        self._history = {store.last.token: store.last.seq} if store.last else {}
        self._written, self._next_version = store.version(), store.next_version()
        self._schemas: dict[str, tuple[Any, pa.Schema]] = {}
        self.rules = rules
        self._base_lateness = self._lateness = self.lateness = rules.lateness
        if self._written is not None and self._written.base_lateness == rules.lateness:
            # What was set while it ran holds on, unless it is now started with another.
            self.lateness = self._written.lateness
        self._ship(registry.program)

    @property
    def program(self) -> P:
        """The queries that run, compiled."""
        return self.registry.program

    @property
    @abstractmethod
    def cost(self) -> float:
        """Cost of the plan of the queries."""

    @abstractmethod
    def _apply(self, last: Manifest | None, version: int) -> P | None:
        """Return a new program with the changes that are pending; None without any."""

    @abstractmethod
    def _renumbered(self, program: P, version: int) -> P:
        """The same program as another version."""

    @abstractmethod
    def _version(self, program: P, seq: int) -> Version:
        """Return the version to write down of a program that steps from this one on are made with."""

    @abstractmethod
    def _is_laid_out(self, written: Version) -> bool:
        """Return whether state is laid out as it was when a version was written."""

    @abstractmethod
    def _base(self, written: Version) -> tuple[Any, ...]:
        """The queries that the run was started with that wrote a version."""

    @abstractmethod
    def _closing(self, last: Manifest | None, at_end: bool) -> int | None:
        """The watermark that answers all that waits; it never goes back. None where there was no row.

        ``at_end`` is for a run after which none goes on: rows ahead of the clock are answered, too.
        """

    @abstractmethod
    def _layers(self, last: Manifest) -> tuple[tuple[Layer, ...], ...]:
        """The layers after the last step, as this one needs them."""

    @abstractmethod
    def _run(
        self, frame: DataFrame, rows: Any, saved: StateReference, clock: StepClock, until: int | None
    ) -> Outcome:
        """Run the job of a step; ``until``, where given, is the watermark after it whatever the rows say."""

    def batch(self, batch_id: int, part: BatchPart[P]) -> Progress | None:
        """Make a step of one of Spark's batches, or of a part of it, unless the batch has been committed."""
        with self._lock:
            if self.stopped:
                raise Stopped
            if self.store.is_done(batch_id):
                return None
            return self._make("batch", batch_id, part)

    def flush(self, at_end: bool = False) -> Progress | None:
        """Answer all that the rows so far can be answered with; None where nothing waits.

        ``at_end`` is for a run after which none goes on, and which loses nothing by answering windows
        that are far ahead.
        """
        with self._lock:
            if self.stopped:
                raise Stopped
            last = self.store.last
            until = self._closing(last, at_end)
            if last is None or until is None or until == last.watermark:
                return None
            empty: BatchPart[P] = BatchPart(lambda _: (one_task(self._session), NoRows(), ()), last.taken)
            return self._make("flush", last.batch_id, empty, at_end)

    def stop(self) -> None:
        """Make no step after the one that is being made."""
        with self._lock:
            self.stopped = True

    def close(self) -> None:
        """Called once, after the last step."""
        self.registry.close()
        self.sink.close()

    def _change(self, seq: int) -> None:
        """Apply the pending changes, and write down what the step is made with, unless that was done.

        Where queries have failed, the step is being made, and is written down anew without them.
        """
        written, failing = self._written, self.registry.failing
        settled = written is not None and written.seq == seq
        if not failing:
            self._lateness = written.lateness if written is not None and settled else self.lateness
        changed = self._apply(self.store.last, self._next_version) if failing or not settled else None
        if failing and changed is None:
            raise JobError("the queries that are left cannot be planned without those that have failed")
        if changed is None and written is not None and self._is_as_written(written, settled):
            return
        program = self._renumbered(self.program, self._next_version) if changed is None else changed
        self._written = self._version(program, seq)
        self.store.write_version(self._written)
        self._next_version += 1
        self._ship(program)
        self.registry.confirm(program)

    def _is_as_written(self, written: Version, settled: bool) -> bool:
        """Return whether nothing has changed; what the run was started with may have, for the step after."""
        given = (self.base, self._lateness, self._base_lateness)
        before = (self._base(written), written.lateness, written.base_lateness)
        return self._is_laid_out(written) and (settled or given == before)

    def _ship(self, program: P) -> None:
        """Make ready for steps of a program: open the sink for its queries; schemas are worked out once."""
        before = self._schemas
        self._schemas = {
            q.name: before[q.name]
            if q.name in before and before[q.name][0] is q
            else (q, program.result_schema(q.name))
            for q in program.queries
        }
        self.sink.open({name: schema for name, (_, schema) in self._schemas.items()}, self.stream)

    def _make(self, kind: str, batch_id: int, part: BatchPart[P], at_end: bool = False) -> Progress:
        """Make one step: changes taken, job run, results delivered, manifest published; return its progress.

        Where queries fail in it, the job is run again without them.
        """
        began = time.perf_counter()
        last = self.store.last
        seq = last.seq + 1 if last else 1
        flushed = kind == "flush"
        while True:
            self._change(seq)
            frame, rows, skipped = part.rows(self.program)
            saved = StateReference(
                place=self.store.place,
                seq=seq,
                token=uuid.uuid4().hex[:12],
                before=last.token if last else None,
                layers=self._layers(last) if last else (),
                history=dict(self._history),
            )
            clock, until = self._clock(seq), self._closing(last, at_end) if flushed else None
            listed = time.perf_counter()
            outcome = self._run(frame, rows, saved, clock, until)
            ran = time.perf_counter()
            if not outcome.failed:
                break
            # Nothing of this attempt is committed: the step is made again, as if they had left before it.
            self.registry.fail(outcome.failed)
        self._deliver(outcome, saved.seq)
        delivered = time.perf_counter()
        self._publish(outcome, saved, kind, batch_id, part.taken)
        done = time.perf_counter()
        record = StepRecord(
            kind=kind,
            seq=saved.seq,
            batch_id=batch_id,
            version=self.program.version,
            queries=len(self.program.queries),
            cost=self.cost,
            skipped=skipped,
            failed={name: failure.message for name, failure in self.registry.failed.items()},
            remark=self._remark(outcome, flushed, at_end),
        )
        laps = {
            "list": listed - began,
            "job": ran - listed,
            "sink": delivered - ran,
            "commit": done - delivered,
        }
        return measured(outcome, record, done - began, laps)

    def _clock(self, seq: int) -> StepClock:
        """Return a step's clock: where that depends on when it is made, the clock of its first attempt."""
        last = self.store.last
        now, rules = 0, replace(self.rules, lateness=self._lateness)
        if rules.needs_clock:
            first = self.store.write_clock(
                seq, {"now": round(wall_clock() * 1e6), "max_ahead": rules.max_ahead, "idle": rules.idle}
            )
            now, rules = first["now"], replace(rules, max_ahead=first["max_ahead"], idle=first["idle"])
        if last is None:
            return StepClock(rules, now)
        return StepClock(rules, now, last.watermark, last.seen.get("latest", {}), last.heard)

    def _remark(self, outcome: Outcome, flushed: bool, at_end: bool) -> str:
        """Return a remark on a step for people."""
        if flushed:
            return "" if at_end else flush_remark(outcome.watermark)
        return UNREAD_REMARK if self._lateness is None else ""

    def _deliver(self, outcome: Outcome, seq: int) -> None:
        deliver_to(self.sink, outcome.results, seq)

    def _publish(
        self, outcome: Outcome, saved: StateReference, kind: str, batch_id: int, taken: int | None
    ) -> None:
        last = self.store.last
        before = Seen(**last.seen) if last else Seen()  # type: ignore[arg-type]
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
                layers=self._layers_of(outcome),
                taken=taken,
                watermarks={**(last.watermarks if last else {}), **outcome.watermarks},
                heard=outcome.heard,
            )
        )
        self._history[saved.token] = saved.seq
        while len(self._history) > MAX_TOKENS:
            del self._history[next(iter(self._history))]

    def _layers_of(self, outcome: Outcome) -> tuple[tuple[Layer, ...], ...]:
        """The layers after a step."""
        return tuple(tuple(map(Layer.from_dict, report["layers"])) for report in outcome.reports)


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
