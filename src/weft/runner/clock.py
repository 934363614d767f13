"""The clock that runs go by: the machine's, or another that a test has put in its place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_replacements: list[Callable[[], float]] = []


def wall_clock() -> float:
    """Return the time in seconds since the epoch."""
    return _replacements[-1]() if _replacements else time.time()


def steady_clock() -> float:
    """Return seconds since any beginning, which only go forward: to measure how long something took."""
    return _replacements[-1]() if _replacements else time.monotonic()


@contextmanager
def clock_replaced(clock: Callable[[], float]) -> Iterator[None]:
    """Let all runs of this process go by another clock, in the block.

    >>> with clock_replaced(lambda: 60.0):
    ...     wall_clock()
    60.0
    """
    _replacements.append(clock)
    try:
        yield
    finally:
        _replacements.remove(clock)
