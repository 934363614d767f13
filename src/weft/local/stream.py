"""A stream in this process that goes on by itself, as one on Spark does: a thread feeds it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

import pyarrow as pa

from weft.errors import JobError, WeftError
from weft.io.sinks import Sink
from weft.local.joins import LocalJoins
from weft.local.run import LocalRun
from weft.model.instants import END_OF_TIME
from weft.model.join import JoinQuery
from weft.model.query import Query
from weft.operators.joins.state import Joins
from weft.operators.watermark import flush_remark
from weft.operators.windows.program import Program
from weft.planning.joins.plan import JoinPlan
from weft.planning.plan import Plan
from weft.runner.background import Background
from weft.runner.changes import Change
from weft.runner.clock import steady_clock, wall_clock
from weft.runner.progress import Progress
from weft.store.versions import Failure


class LocalStream(Background):
    """A `LocalRun`, or `LocalJoins`, that runs until its batches end, it fails or is stopped.

    ``with`` stops it at the end of the block.

    A batch that is None says that no row has come: the stream waits for ``pause`` seconds, and for ``idle``
    seconds before it answers the windows still open.

    >>> import datetime, weft
    >>> from weft.operators.windows.compile import compile_plan
    >>> from weft.io.sinks import MemorySink
    >>> queries = weft.sql("SELECT count(*) AS n FROM s [RANGE '1 min']")
    >>> batch = pa.table({"ts": [datetime.datetime(2024, 1, 1, 0, minute) for minute in (0, 1)]})
    >>> run, sink = LocalRun(compile_plan(weft.plan(queries), batch.schema, "ts")), MemorySink()
    >>> with LocalStream(run, [batch, None, batch], sink, pause=0.01) as stream:
    ...     stream.await_done()
    True
    >>> sink.tables["q1"].column("n").to_pylist()
    [1, 2]
    """

    def __init__(
        self,
        run: LocalRun | LocalJoins,
        batches: Iterable[Any],
        sink: Sink,
        *,
        pause: float = 1.0,
        idle: float | None = None,
        close_at_end: bool = True,
        on_progress: Callable[[Progress], Any] | None = None,
    ) -> None:
        super().__init__()
        self._run, self._batches, self._sink = run, batches, sink
        self._pause, self._idle, self._close_at_end = pause, idle, close_at_end
        self._on_progress = on_progress
        self._seq = 0
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._opened: Program | Joins | None = None
        self._open_sink()
        self._thread = threading.Thread(target=self._work, name="weft-stream", daemon=True)
        self._thread.start()

    @property
    def program(self) -> Program | Joins:
        """The queries that run, compiled."""
        return self._run.program

    @property
    def plan(self) -> Plan | JoinPlan:
        """The plan that runs: sharing, and its cost."""
        return self._run.plan

    def queries(self) -> tuple[Query, ...] | tuple[JoinQuery, ...]:
        """The queries that are answered."""
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

    def stop(self) -> None:
        """Stop after the step that is being made; windows still open are not answered."""
        self._stopped.set()
        self._wake.set()
        self._ended.wait()

    def _woken(self, change: Future[Change]) -> Future[Change]:
        self._wake.set()
        return change

    def _work(self) -> None:
        try:
            self._feed()
        except WeftError as error:
            self._error = error
        except Exception as error:
            self._error = JobError(f"{type(error).__name__}: {error}")
            self._error.__cause__ = error
        finally:
            self._run.shutdown()
            try:
                self._sink.close()
            except Exception as error:
                self._error = self._error or JobError(f"the sink cannot be closed: {error}")
            self._ended.set()

    def _feed(self) -> None:
        """Make a step of each batch until there is none or it is stopped; flush when idle and at the end."""
        heard = steady_clock()
        for batch in self._batches:
            if self._stopped.is_set():
                return
            if batch is not None:
                self._step("batch", partial(self._run.step, batch))
                heard = steady_clock()
            elif self._wake.is_set():
                self._wake.clear()
                self._step("batch", partial(self._run.step, self._run.empty()))
            elif self._idle is not None and steady_clock() - heard >= self._idle:
                self._step("flush", self._run.flush)
                heard = steady_clock()
            else:
                self._wake.wait(self._pause)
        if self._close_at_end and not self._stopped.is_set():
            self._step("flush", self._run.close)

    def _step(self, kind: str, make: Callable[[], dict[str, pa.Table] | None]) -> None:
        """Make one step, deliver its answers and report its progress."""
        began, before, skipped = time.perf_counter(), self._run.seen, len(self._run.skipped)
        results = make()
        if results is None:
            return
        answered = time.perf_counter()
        self._seq += 1
        self._open_sink()
        self._deliver(results)
        done = time.perf_counter()
        if self._on_progress is None:
            return
        run = self._run
        seconds, rows, watermark = done - began, run.seen.rows - before.rows, run.watermark
        self._on_progress(
            Progress(
                seq=self._seq,
                kind=kind,
                version=run.program.version,
                queries=len(run.program.queries),
                cost=run.plan.cost,
                rows=rows,
                rows_per_second=rows / seconds,
                late=run.seen.late - before.late,
                untimed=run.seen.untimed - before.untimed,
                bad=run.seen.bad - before.bad,
                ahead=run.seen.ahead - before.ahead,
                remark=run.remark if kind == "batch" else flush_remark(watermark),
                watermark=watermark,
                watermark_lag=None if watermark in (None, END_OF_TIME) else wall_clock() - watermark / 1e6,
                results=sum(table.num_rows for table in results.values()),
                state_rows=run.state_rows,
                state_bytes=run.state_bytes,
                seconds=seconds,
                breakdown={"job": round(answered - began, 4), "sink": round(done - answered, 4)},
                skipped_files=run.skipped[skipped:],
                sharing=tuple(run.choices),
                partial_seconds=round(run.partial_seconds, 6),
                tree_seconds=tuple(round(spent, 6) for spent in run.tree_seconds),
                failed={name: failure.message for name, failure in run.failed.items()},
            )
        )

    def _open_sink(self) -> None:
        """Tell the sink of the queries, whenever they have changed."""
        program = self.program
        if program is not self._opened:
            self._sink.open({q.name: program.result_schema(q.name) for q in program.queries}, "run")
            self._opened = program

    def _deliver(self, results: dict[str, pa.Table]) -> None:
        """Hand a step's results to the sink; JobError says which one failed."""
        try:
            self._sink.deliver(results, self._seq)
        except WeftError:
            raise
        except Exception as error:
            raise JobError(
                f"the sink {type(self._sink).__name__} failed at step {self._seq}: {error}"
            ) from error
