"""The driver of a stream on Spark, one step after the other: changes, request, job, publish, deliver, report.

What a step is made with is written down before it. In this order a crash anywhere is harmless: before the
entry is published the step never happened, and is made again; after it, Spark's replay of the batch is
skipped, and what was answered is delivered from files that do not change.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from weft.operators.lookups.tables import LookupTables
from weft.operators.times import Seen
from weft.operators.watermark import UNREAD_REMARK, TimeRules, flush_remark
from weft.runner.clock import StepTime, least_mark, wall_clock
from weft.runner.delivery import Delivery
from weft.runner.opening import entry_with_names, position_of, streams_state
from weft.runner.program import Position, Program
from weft.runner.progress import Progress, StepFacts, progress_of
from weft.runner.request import StateReference, StepRequest
from weft.runner.running_queries import RunningQueries
from weft.runner.version_keeper import VersionKeeper
from weft.spark.shipping import ShippedProgram, TableShipper
from weft.spark.step_job import JobOutcome, StepJob
from weft.spark.stream_inputs import StreamInput, one_task
from weft.spark.stream_sources import BatchPart, JobRows
from weft.store.checkpoint import Checkpoint
from weft.store.log import BATCH, FLUSH, Entry, StageState
from weft.store.stage_layers import layers_for

MAX_TOKENS = 64
"""Tokens of recent steps by which workers know how old a state is."""


class Stopped(Exception):
    """Raised instead of making a step once the stream has been stopped, so that Spark keeps its batch."""


@dataclass
class StreamDriver:
    """The steps of one stream over one checkpoint.

    ``rules`` are those of each stream; a joined stream that has been silent for ``idle`` microseconds holds
    the others back no more.
    """

    spark: SparkSession
    running: RunningQueries
    checkpoint: Checkpoint
    versions: VersionKeeper
    delivery: Delivery
    rules: Mapping[str, TimeRules]
    tables: LookupTables
    buckets: int
    idle: int | None = None
    stopped: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._session = self.spark.newSession()
        self._shipper = TableShipper(self.spark, self.tables)
        last = self._last
        self._history = {last.token: last.seq} if last.token else {}
        self._ship(self.running.program)

    @property
    def program(self) -> Program:
        """The queries that run, compiled."""
        return self.running.program

    def batch(self, batch_id: int, part: BatchPart) -> Progress | None:
        """Make a step of one of Spark's batches, or of a part of it, unless the batch has been committed."""
        with self._lock:
            if self.stopped:
                raise Stopped
            if self.checkpoint.is_done(batch_id):
                return None
            return self._make(BATCH, batch_id, part)

    def flush(self, at_end: bool = False) -> Progress | None:
        """Answer all that the rows so far can be answered with; None where nothing waits.

        ``at_end`` is for a run after which none goes on, and which loses nothing by answering windows
        that are far ahead.
        """
        with self._lock:
            if self.stopped:
                raise Stopped
            last = self._last
            if self._time(0).closing(self.program.stages, at_end) is None:
                return None
            empty = BatchPart(lambda _: JobRows(one_task(self._session), StreamInput(), ()), last.taken)
            return self._make(FLUSH, last.batch_id, empty, at_end)

    def stop(self) -> None:
        """Make no step after the one that is being made."""
        with self._lock:
            self.stopped = True

    def close(self, clean: bool) -> None:
        """End the run, after its last step; ``clean`` says that it has not failed."""
        self.running.close()
        try:
            if clean:
                self.checkpoint.close()
        finally:
            self.delivery.close()

    def _make(self, kind: str, batch_id: int, part: BatchPart, at_end: bool = False) -> Progress:
        """Make one step and return its progress; where queries fail in it, the job is run without them."""
        began = time.perf_counter()
        seq = self._last.seq + 1
        while True:
            self._change(seq)
            rows = part.rows(self.program.reads)
            request = self._request(seq, kind, at_end)
            listed = time.perf_counter()
            job = StepJob(self.program, self._shipped, request, self._shipper.ship(self.program.lookups))
            outcome = job.run(rows.frame, rows.input)
            ran = time.perf_counter()
            if not outcome.failed:
                break
            # Nothing of this attempt is committed: the step is made again, as if they had left before it.
            self.running.fail(outcome.failed)
        entry = self._publish(outcome, request, kind, batch_id, part.taken)
        published = time.perf_counter()
        self.delivery.deliver_committed(self.checkpoint, entry)
        done = time.perf_counter()
        self._learn(outcome)
        laps = {
            "list": listed - began,
            "job": ran - listed,
            "commit": published - ran,
            "sink": done - published,
            **outcome.breakdown(),
        }
        remark = self._remark(outcome, kind, at_end)
        return self._progress(entry, outcome, rows.skipped, done - began, laps, remark)

    @property
    def _last(self) -> Entry:
        assert self.checkpoint.last is not None  # the turn was claimed with an entry
        return entry_with_names(self.checkpoint.last, self.running.compiler)

    def _position(self) -> Position:
        return position_of(self._last, self.running.compiler)

    def _change(self, seq: int) -> None:
        """Apply the pending changes, and write down what the step is made with, unless that was done."""
        program = self.versions.settle(self.running, self._position(), seq)
        if program is None and (tuned := self.running.tuned()) is not None:
            self.running.program = tuned
            self._ship(tuned)
        if program is not None:
            self._ship(program)
            self.running.confirm(program)

    def _ship(self, program: Program) -> None:
        """Make ready for steps of a program."""
        self._shipped = ShippedProgram(program)
        self.delivery.open(program)

    def _request(self, seq: int, kind: str, at_end: bool) -> StepRequest:
        """Put together what the tasks of a step have to know."""
        last, program = self._last, self.program
        step_time = self._time(seq)
        if kind == FLUSH:
            step_time = replace(step_time, until=step_time.closing(program.stages, at_end))
        layers = {
            stage.name: layers_for(
                stage,
                last.stages[stage.name].layers,
                lambda version, name=stage.name: self.checkpoint.layout(version, name),  # type: ignore[misc]
            )
            for stage in program.stages
            if stage.name in last.stages
        }
        saved = StateReference(
            place=self.checkpoint.place,
            seq=seq,
            token=uuid.uuid4().hex[:12],
            before=last.token or None,
            layers=layers,
            history=dict(self._history),
        )
        return StepRequest(step_time, self.buckets, saved, keep_missed=self.delivery.late is not None)

    def _time(self, seq: int) -> StepTime:
        """Return the time of a step: where that depends on when it is made, that of its first attempt."""
        position = self._position()
        rules = {
            name: replace(rule, lateness=self.versions.lateness_now.get(name, rule.lateness))
            for name, rule in self.rules.items()
        }
        step_time = StepTime(rules, 0, position.streams, position.marks, idle=self.idle)
        if not seq or not step_time.needs_clock:
            return step_time
        clock = {
            "now": round(wall_clock() * 1e6),
            "rules": {name: [rule.max_ahead, rule.idle] for name, rule in rules.items()},
            "idle": self.idle,
        }
        first = self.checkpoint.write_clock(seq, clock)
        for name, (ahead, idle) in first.get("rules", {}).items():
            rules[name] = replace(rules[name], max_ahead=ahead, idle=idle)
        return replace(step_time, rules=rules, now=first["now"], idle=first["idle"])

    def _publish(
        self, outcome: JobOutcome, request: StepRequest, kind: str, batch_id: int, taken: int | None
    ) -> Entry:
        """Commit a step: from here on it has happened."""
        assert request.saved is not None
        stages = {name: StageState(outcome.marks[name], layers) for name, layers in outcome.layers.items()}
        entry = self.checkpoint.publish(
            Entry(
                request.saved.seq,
                request.saved.token,
                kind,
                batch_id=batch_id,
                version=self.program.version,
                buckets=self.buckets,
                stages=stages,
                streams=streams_state(outcome.streams),
                taken=taken,
                answers=outcome.answers,
            )
        )
        self._history[entry.token] = entry.seq
        while len(self._history) > MAX_TOKENS:
            del self._history[next(iter(self._history))]
        return entry

    def _learn(self, outcome: JobOutcome) -> None:
        position = Position(outcome.streams, outcome.marks)
        self.running.learn(outcome.notes, outcome.choices, position)

    def _remark(self, outcome: JobOutcome, kind: str, at_end: bool) -> str:
        """Return a remark on a step for people."""
        if kind == FLUSH:
            marks = [mark for stage in outcome.marks.values() for mark in stage.values()]
            return "" if at_end else flush_remark(least_mark(marks))
        waits = [name for name, wait in self.versions.lateness_now.items() if wait is None]
        return UNREAD_REMARK if waits else ""

    def _progress(
        self,
        entry: Entry,
        outcome: JobOutcome,
        skipped: tuple[str, ...],
        seconds: float,
        laps: Mapping[str, float],
        remark: str,
    ) -> Progress:
        """Return the progress of a step that is done."""
        states = [state for report in outcome.reports for state in report["stages"].values()]
        facts = StepFacts(
            seq=entry.seq,
            kind=entry.kind,
            program=self.program,
            seen=sum(outcome.seen.values(), Seen()),
            streams=outcome.streams,
            marks=outcome.marks,
            results=outcome.result_count,
            state_rows=sum(state["rows"] for state in states),
            state_bytes=sum(state["bytes"] for state in states),
            seconds=seconds,
            breakdown=laps,
            remark=remark,
            batch_id=entry.batch_id,
            skipped=(*skipped, *outcome.first["skipped"]),
            choices=outcome.choices,
            partial_seconds=outcome.first["partial"],
            tree_seconds=_tree_seconds(outcome),
            failed={name: failure.message for name, failure in self.running.failed.items()},
        )
        return progress_of(facts)


def _tree_seconds(outcome: JobOutcome) -> list[float]:
    """Return the seconds of each tree, added up over buckets; trees of one stage after those of another."""
    seconds: list[float] = []
    for lots in outcome.notes.values():
        own = [note["trees"] for note in lots if "trees" in note]
        seconds += map(sum, zip(*own))
    return seconds
