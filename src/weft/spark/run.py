"""A running stream: its progress, its end, and its errors as weft's own."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from weft.io.lookups import TableSource
from weft.model.duration import parse_duration
from weft.runner.contract import POLL_SECONDS, RunningStream
from weft.runner.lateness import check_stream
from weft.runner.progress import Progress
from weft.spark.batch_files import settle
from weft.spark.claim import Claim
from weft.spark.driver import Stopped, StreamDriver
from weft.spark.failure import is_jvm_gone, surfaced, translated
from weft.spark.stream_sources import StreamSources


class Run(RunningStream):
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
        super().__init__(driver.running, on_progress)
        self._driver, self._sources = driver, sources
        self._idle, self._close_at_end = idle, close_at_end
        self._claim = claim
        self._heard = time.monotonic()
        with claim.taken(), surfaced():
            self._query = writer.foreachBatch(self._batch).start()
        self._watcher = threading.Thread(target=self._watch, name="weft-stream", daemon=True)
        self._watcher.start()

    def set_lateness(self, lateness: str | datetime.timedelta, stream: str | None = None) -> None:
        wait, lateness_of = parse_duration(lateness, "lateness"), self._driver.versions.lateness
        if stream is not None:
            check_stream(stream, lateness_of)
        for name in lateness_of if stream is None else [stream]:
            lateness_of[name] = wait

    def replace_table(self, name: str, table: TableSource) -> None:
        """Look up another table under this name, from the next batch on; JobError if it cannot be used."""
        self._driver.tables.replace(name, table, self.program.lookups)

    def stop(self) -> None:
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

    def _finish(self) -> None:
        try:
            self._driver.close(clean=self._error is None)
        except Exception as error:
            self._error = self._error or translated(error)
        self._claim.release()
        self._ended.set()
