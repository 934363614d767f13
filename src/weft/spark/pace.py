"""The number of files that a step takes, so that it lasts about as long as was asked for."""

from __future__ import annotations

from collections.abc import Sequence

MAX_SIZE_FACTOR = 2.0
"""By how much a step may be larger or smaller than the one before, at most."""


class Pace:
    """Bytes per step, from how long steps of so many bytes took.

    >>> pace = Pace(target=2.0)
    >>> pace.take([100, 100, 100, 100])
    1
    >>> pace.learn(100, seconds=1.0, full=True)
    >>> pace.take([100, 100, 100, 100])
    2
    """

    def __init__(self, target: float) -> None:
        self.target = target
        self.size: float | None = None

    def take(self, sizes: Sequence[int]) -> int:
        """Return how many of these files, in this order, the next step takes: one at least."""
        if self.size is None:
            return 1
        total, count = 0, 0
        for size in sizes:
            total += size
            if count and total > self.size:
                break
            count += 1
        return count

    def learn(self, size: int, seconds: float, full: bool) -> None:
        """Note a step; one that was short because there was no more (not ``full``) says little."""
        factor = min(max(self.target / max(seconds, 1e-9), 1 / MAX_SIZE_FACTOR), MAX_SIZE_FACTOR)
        if self.size is None or full or factor < 1:
            self.size = max(size, 1) * factor
