"""A stream in this process that goes on by itself, as one on Spark does: a thread feeds it."""

from __future__ import annotations

import datetime
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import pyarrow as pa

from weft.errors import JobError, WeftError
from weft.local.committing import LocalCommits
from weft.local.feed import Feed, Reads
from weft.local.running import LocalRun, StepOutcome
from weft.operators.watermark import flush_remark
from weft.planning.plan import Plan
from weft.runner.background import Background
from weft.runner.changes import Change
from weft.runner.clock import steady_clock
from weft.runner.delivery import Delivery, in_order
from weft.runner.program import AnyQuery, Program
from weft.runner.progress import Progress, StepFacts, progress_of
from weft.store.log import BATCH, FLUSH
from weft.store.version_file import Failure

MAX_PROGRESS_STEPS = 1000


class LocalStream(Background):
    """A `LocalRun` that runs until its input ends, it fails or is stopped; ``with`` stops it at the end of
    the block.

    While no row comes it waits for ``pause`` seconds, and for ``idle`` seconds before it answers the windows
    still open. With ``commits`` every step is committed to a checkpoint before it is delivered.
    """

    def __init__(
        self,
        run: LocalRun,
        feed: Feed,
        delivery: Delivery,
        *,
        commits: LocalCommits | None = None,
        pause: float = 1.0,
        idle: float | None = None,
        close_at_end: bool = True,
        on_progress: Callable[[Progress], Any] | None = None,
    ) -> None:
        super().__init__()
        self._run, self._feed, self._delivery, self._commits = run, feed, delivery, commits
        self._pause, self._idle, self._close_at_end = pause, idle, close_at_end
        self._on_progress = on_progress
        self._progress: deque[Progress] = deque(maxlen=MAX_PROGRESS_STEPS)
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._before, self._skipped = run.seen, len(run.skipped)
        run.keep_missed = delivery.late is not None
        if commits is None:
            delivery.open(run.program)
        else:
            delivery.catch_up(commits.checkpoint, run.program)
        self._thread = threading.Thread(target=self._work, name="weft-stream", daemon=True)
        self._thread.start()

    @property
    def program(self) -> Program:
        """The queries that run, compiled."""
        return self._run.program

    @property
    def plan(self) -> Plan:
        """The plan that runs: sharing, and its cost."""
        return self._run.plan

    @property
    def progress(self) -> list[Progress]:
        """Progress of the latest steps, oldest first."""
        return list(self._progress)

    @property
    def last_progress(self) -> Progress | None:
        """Progress of the latest step."""
        return self._progress[-1] if self._progress else None

    def queries(self) -> tuple[AnyQuery, ...]:
        """Return the queries that are answered."""
        return self._run.queries()

    @property
    def failed(self) -> Mapping[str, Failure]:
        """The queries that could not be answered any more and have left, until they are replaced."""
        return self._run.failed

    def change(self, name: str) -> Change:
        """Return the change that a running query came with: from when on it is exact."""
        return self._run.change(name)

    def add(self, query: Any, name: str | None = None) -> Future[Change]:
        """Add a query with the next batch, or at once while none comes."""
        return self._woken(self._run.add(query, name))

    def drop(self, name: str) -> Future[Change]:
        """Drop a query before the next batch; its open windows are not answered."""
        return self._woken(self._run.drop(name))

    def replace(self, query: Any, name: str | None = None) -> Future[Change]:
        """Put a query in the place of the one of its name."""
        return self._woken(self._run.replace(query, name))

    def set_lateness(self, lateness: str | datetime.timedelta, stream: str | None = None) -> None:
        """Wait for so long for rows out of order, of one stream or of all, from the next batch on."""
        self._run.set_lateness(lateness, stream)

    def stop(self) -> None:
        """Stop after the step that is being made; windows still open stay so."""
        self._stopped.set()
        self._wake.set()
        self._thread.join()

    def _woken(self, change: Future[Change]) -> Future[Change]:
        self._wake.set()
        return change

    def _work(self) -> None:
        try:
            self._feed_all()
        except WeftError as error:
            self._error = error
        except Exception as error:
            self._error = JobError(f"{type(error).__name__}: {error}")
            self._error.__cause__ = error
        finally:
            self._run.shutdown()
            try:
                if self._commits is not None and self._error is None:
                    self._commits.checkpoint.close()
                self._delivery.close()
            except Exception as error:
                self._error = self._error or JobError(f"the sink cannot be closed: {error}")
            self._ended.set()

    def _feed_all(self) -> None:
        """Make a step of each batch until there is none or it is stopped; flush when idle and at the end."""
        heard = steady_clock()
        for reads in self._feed.beside():
            if self._stopped.is_set():
                return
            if reads is not None:
                self._batch(reads)
                heard = steady_clock()
            elif self._wake.is_set():
                self._wake.clear()
                self._batch({})
            elif self._idle is not None and steady_clock() - heard >= self._idle:
                self._flush()
                heard = steady_clock()
            else:
                self._wake.wait(self._pause)
        if self._stopped.is_set():
            return
        if self._close_at_end:
            self._end()
        self._commit_end()

    def _batch(self, reads: Reads) -> None:
        began, self._before = time.perf_counter(), self._run.seen
        outcome = self._run.take({name: read.chunk for name, read in reads.items()})
        self._finish(BATCH, outcome, began, self._run.remark)

    def _flush(self) -> None:
        began, self._before = time.perf_counter(), self._run.seen
        outcome = self._run.take_flush()
        if outcome is not None:
            self._finish(FLUSH, outcome, began, flush_remark(self._run.watermark))

    def _end(self) -> None:
        """Answer what is open at the end; over a checkpoint, from which another run may go on, as a flush."""
        if self._commits is not None:
            self._flush()
            return
        began, self._before = time.perf_counter(), self._run.seen
        self._finish(FLUSH, self._run.take_end(), began, "")

    def _commit_end(self) -> None:
        """Commit that this run's input is read, where the next run's begins elsewhere."""
        if self._commits is None or self._feed.positions_at_end() == self._commits.offsets():
            return
        began, self._before = time.perf_counter(), self._run.seen
        outcome = self._run.take({})
        self._feed.positions = self._feed.positions_at_end()
        self._finish(BATCH, outcome, began, "")

    def _finish(self, kind: str, outcome: StepOutcome, began: float, remark: str) -> None:
        """Commit a step, deliver its answers and report its progress."""
        answered = time.perf_counter()
        seq = self._run.steps
        if self._commits is not None:
            entry = self._commits.commit(self._run, outcome, kind, self._feed.positions)
            committed, seq = time.perf_counter(), entry.seq
            self._delivery.open(self._run.program)
            results = self._delivery.deliver_committed(self._commits.checkpoint, entry)
        else:
            committed = answered
            results = {name: in_order(tables) for name, tables in outcome.answers.items()}
            self._delivery.open(self._run.program)
            self._delivery.deliver(results, outcome.late, seq)
        laps = {
            "job": answered - began,
            "commit": committed - answered,
            "sink": time.perf_counter() - committed,
        }
        self._report(kind, seq, results, time.perf_counter() - began, laps, remark)

    def _report(
        self,
        kind: str,
        seq: int,
        results: Mapping[str, pa.Table],
        seconds: float,
        laps: Mapping[str, float],
        remark: str,
    ) -> None:
        run, reported = self._run, self._skipped
        self._skipped = len(run.skipped)
        facts = StepFacts(
            seq=seq,
            kind=kind,
            program=run.program,
            seen=run.seen - self._before,
            streams=run.streams,
            marks=run.marks,
            results=sum(table.num_rows for table in results.values()),
            state_rows=run.state_rows,
            state_bytes=run.state_bytes,
            seconds=seconds,
            breakdown=laps,
            remark=remark,
            skipped=run.skipped[reported:],
            choices=run.choices,
            partial_seconds=run.partial_seconds,
            tree_seconds=run.tree_seconds,
            failed={name: failure.message for name, failure in run.failed.items()},
        )
        progress = progress_of(facts)
        self._progress.append(progress)
        if self._on_progress is not None:
            self._on_progress(progress)
