"""A running stream: its progress, its end, and its errors as weft's own."""

from __future__ import annotations

import datetime
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from weft.io.lookups import TableSource
from weft.model.duration import parse_duration
from weft.planning.plan import Plan
from weft.runner.background import POLL_SECONDS, Background
from weft.runner.changes import Change
from weft.runner.notebook import run_html, watch
from weft.runner.program import AnyQuery, Program
from weft.runner.progress import Progress
from weft.spark.batch_files import settle
from weft.spark.claim import Claim
from weft.spark.driver import Stopped, StreamDriver
from weft.spark.failure import is_jvm_gone, surfaced, translated
from weft.spark.stream_sources import StreamSources
from weft.store.version_file import Failure

MAX_PROGRESS_STEPS = 1000


class Run(Background):
    """A stream that runs until it ends, fails or is stopped; ``with`` stops it at the end of the block.

    Queries may come and go while it runs.
    """

    def __init__(
        self,
        writer: DataStreamWriter,
        driver: StreamDriver,
        sources: StreamSources,
        idle: float | None,
        close_at_end: bool,
        on_progress: Callable[[Progress], Any] | None,
        claim: Claim,
    ) -> None:
        super().__init__()
        self._driver, self._sources = driver, sources
        self._idle, self._close_at_end, self._on_progress = idle, close_at_end, on_progress
        self._claim = claim
        self._progress: deque[Progress] = deque(maxlen=MAX_PROGRESS_STEPS)
        self._heard = time.monotonic()
        with claim.taken(), surfaced():
            self._query = writer.foreachBatch(self._batch).start()
        self._watcher = threading.Thread(target=self._watch, name="weft-stream", daemon=True)
        self._watcher.start()

    @property
    def progress(self) -> list[Progress]:
        """Progress of the latest steps, oldest first."""
        return list(self._progress)

    @property
    def last_progress(self) -> Progress | None:
        """Progress of the latest step."""
        return self._progress[-1] if self._progress else None

    def watch(self, timeout: float | None = None, every: float = 1.0) -> None:
        """Show the latest steps until the end, or for so many seconds: a table that goes on in a
        notebook, lines elsewhere. An interrupt ends the watching, not the run."""
        watch(self, timeout, every)

    def _repr_html_(self) -> str:
        """Show its state and latest steps in a notebook."""
        return run_html(self)

    @property
    def program(self) -> Program:
        """The queries that run, compiled."""
        return self._driver.program

    @property
    def plan(self) -> Plan:
        """The plan that runs: trees, chains of joins, and their cost."""
        return self.program.plan

    def queries(self) -> tuple[AnyQuery, ...]:
        """Return the queries that are answered."""
        return self.program.queries

    @property
    def failed(self) -> Mapping[str, Failure]:
        """The queries that could not be answered any more and have left, until they are replaced."""
        return self._driver.running.failed

    def change(self, name: str) -> Change:
        """Return the change that a running query came with: from when on it is exact."""
        return self._driver.running.change(name)

    def add(self, query: Any, name: str | None = None) -> Future[Change]:
        """Add a query (or one in SQL) with the next batch; errors in it are raised at once.

        The future has a ``Change`` once a batch has taken it: from when on the query is exact.
        """
        return self._driver.running.add(query, name)

    def drop(self, name: str) -> Future[Change]:
        """Drop a query before the next batch; its open windows are not answered."""
        return self._driver.running.drop(name)

    def replace(self, query: Any, name: str | None = None) -> Future[Change]:
        """Put a query in the place of the one of its name, with the next batch."""
        return self._driver.running.replace(query, name)

    def set_lateness(self, lateness: str | datetime.timedelta, stream: str | None = None) -> None:
        """Wait for so long for rows out of order, of one stream or of all, from the next batch on; the
        watermark never goes back.

        It holds for runs that go on with the checkpoint, until one is started with another ``lateness``.
        """
        wait, lateness_of = parse_duration(lateness, "lateness"), self._driver.versions.lateness
        for name in lateness_of if stream is None else [stream]:
            lateness_of[name] = wait

    def replace_table(self, name: str, table: TableSource) -> None:
        """Look up another table under this name, from the next batch on; JobError if it cannot be used."""
        self._driver.tables.replace(name, table, self.program.lookups)

    def stop(self) -> None:
        """Stop after the step that is being made; windows still open stay so, for the next run."""
        self._driver.stop()
        self._stop_query()
        self._ended.wait()

    def _batch(self, batch: DataFrame, batch_id: int) -> None:
        """Called by Spark with each micro-batch."""
        checkpoint = self._driver.checkpoint
        try:
            if checkpoint.is_done(batch_id):
                return
            parts = self._sources.parts(
                batch, batch_id, checkpoint.taken(batch_id), partial(settle, checkpoint)
            )
            for part in parts:
                progress = self._driver.batch(batch_id, part)
                if progress is None:
                    return
                if progress.rows:
                    self._heard = time.monotonic()
                self._report(progress)
        except Stopped:
            raise
        except Exception as error:
            self._error = translated(error)
            raise

    def _watch(self) -> None:
        """Wait for the end of Spark's query; flush when nothing comes, and at the end if asked to."""
        try:
            pause: Any = POLL_SECONDS if self._idle is None else min(POLL_SECONDS, self._idle)
            while not self._query.awaitTermination(pause):
                if self._idle is not None and time.monotonic() - self._heard >= self._idle:
                    self._flush()
                    self._heard = time.monotonic()
            if self._close_at_end and not self._driver.stopped:
                self._flush(at_end=not self._claim.is_kept)
        except Stopped:
            pass
        except Exception as error:
            if not self._driver.stopped or not isinstance(error, PySparkException):
                self._error = self._error or translated(error)
            self._stop_query()
        finally:
            self._finish()

    def _stop_query(self) -> None:
        try:
            self._query.stop()
        except (Py4JError, ConnectionError) as error:
            if not is_jvm_gone(error):
                raise

    def _flush(self, at_end: bool = False) -> None:
        progress = self._driver.flush(at_end)
        if progress is not None:
            self._report(progress)

    def _report(self, progress: Progress) -> None:
        self._progress.append(progress)
        if self._on_progress is not None:
            self._on_progress(progress)

    def _finish(self) -> None:
        try:
            self._driver.close(clean=self._error is None)
        except Exception as error:
            self._error = self._error or translated(error)
        self._claim.release()
        self._ended.set()
