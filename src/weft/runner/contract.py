"""The runner contract: what a running stream offers, on both engines, for any mix of queries and sources."""

from __future__ import annotations

import datetime
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Self

from weft.errors import WeftError
from weft.runner.notebook import run_html, watch
from weft.runner.progress import Progress
from weft.runner.running_queries import ChangingQueries, RunningQueries

MAX_PROGRESS_STEPS = 1000
POLL_SECONDS = 0.2


class RunningStream(ChangingQueries):
    """A stream that runs, on Spark or in this process, until it ends, fails or is stopped; ``with`` stops it
    at the end of the block.

    Queries may come and go while it runs.
    """

    def __init__(self, running: RunningQueries, on_progress: Callable[[Progress], Any] | None) -> None:
        self.running, self._on_progress = running, on_progress
        self._progress: deque[Progress] = deque(maxlen=MAX_PROGRESS_STEPS)
        self._error: WeftError | None = None
        self._ended = threading.Event()

    @abstractmethod
    def set_lateness(self, lateness: str | datetime.timedelta, stream: str | None = None) -> None:
        """Wait for so long for rows out of order, of one stream or of all, from the next batch on; the
        watermark never goes back.

        It holds for runs that go on with the checkpoint, until one is started with another ``lateness``.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop after the step that is being made; windows still open stay so, for the next run."""

    @property
    def progress(self) -> list[Progress]:
        """Progress of the latest steps, oldest first."""
        return list(self._progress)

    @property
    def last_progress(self) -> Progress | None:
        """Progress of the latest step."""
        return self._progress[-1] if self._progress else None

    def _report(self, progress: Progress) -> None:
        self._progress.append(progress)
        if self._on_progress is not None:
            self._on_progress(progress)

    @property
    def is_active(self) -> bool:
        """True while it runs."""
        return not self._ended.is_set()

    @property
    def exception(self) -> WeftError | None:
        """The error that it failed with."""
        return self._error if self._ended.is_set() else None

    def await_done(self, timeout: float | None = None) -> bool:
        """Wait for the end, at most so many seconds; raises what it failed with. Says if it has ended."""
        # In short waits, so that Ctrl-C gets through.
        until = None if timeout is None else time.monotonic() + timeout
        while not self._ended.wait(
            POLL_SECONDS if until is None else min(POLL_SECONDS, max(0.0, until - time.monotonic()))
        ):
            if until is not None and time.monotonic() >= until:
                return False
        if self._error is not None:
            raise self._error
        return True

    def watch(self, timeout: float | None = None, every: float = 1.0) -> None:
        """Show the latest steps until the end, or for so many seconds: a table that goes on in a
        notebook, lines elsewhere. An interrupt ends the watching, not the run."""
        watch(self, timeout, every)

    def _repr_html_(self) -> str:
        """Show its state and latest steps in a notebook."""
        return run_html(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
