"""A stream in this process that goes on by itself, as one on Spark does: a thread feeds it."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from weft.errors import JobError, WeftError
from weft.local.committing import LocalCommits
from weft.local.feed import Feed, Reads
from weft.local.running import LocalRun, StepOutcome
from weft.operators.watermark import flush_remark
from weft.runner.clock import steady_clock
from weft.runner.contract import RunningStream
from weft.runner.delivery import Delivery, in_order
from weft.runner.progress import Progress, StepFacts, progress_of
from weft.store.log import BATCH, FLUSH


class LocalStream(RunningStream):
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
        super().__init__(run.running, on_progress)
        self._run, self._feed, self._delivery, self._commits = run, feed, delivery, commits
        self._pause, self._idle, self._close_at_end = pause, idle, close_at_end
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._before, self._skipped = run.seen, len(run.skipped)
        run.running.on_ask = self._wake.set
        run.keep_missed = delivery.late is not None
        if commits is None:
            delivery.open(run.program)
        else:
            delivery.catch_up(commits.checkpoint, run.program)
        self._thread = threading.Thread(target=self._work, name="weft-stream", daemon=True)
        self._thread.start()

    def set_lateness(self, lateness: str | datetime.timedelta, stream: str | None = None) -> None:
        self._run.set_lateness(lateness, stream)

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()
        self._thread.join()

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
        self._report_step(kind, seq, results, time.perf_counter() - began, laps, remark)

    def _report_step(
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
        self._report(progress_of(facts))
