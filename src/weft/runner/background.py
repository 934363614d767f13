"""Work in the background, until it ends, fails or is stopped: how to wait for it, and its error."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import Self

from weft.errors import WeftError

POLL_SECONDS = 0.2


class Background(ABC):
    """Work in the background; ``with`` stops it at the end of the block."""

    def __init__(self) -> None:
        self._error: WeftError | None = None
        self._ended = threading.Event()

    @abstractmethod
    def stop(self) -> None:
        """Stop it, and wait for its end."""

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
