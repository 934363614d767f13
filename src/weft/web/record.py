"""A record of a run: totals since it was started, and its latest steps."""

from __future__ import annotations

import dataclasses
import datetime
import math
import threading
from collections import Counter, deque
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from weft.runner.progress import Progress

MAX_STEPS = 1000
RATE_STEPS = 30
QUANTILES = (0.5, 0.9, 0.99)
SUMMED_FIELDS = ("rows", "late", "untimed", "bad", "results", "seconds")


@dataclass(frozen=True, slots=True)
class VersionWork:
    """The work of the queries of one version so far, in seconds added up over all tasks."""

    version: int
    rows: int = 0
    seconds: float = 0.0
    partial: float = 0.0
    trees: tuple[float, ...] = ()

    def after(self, step: Progress) -> VersionWork:
        """The work with that of another step."""
        trees = tuple(a + b for a, b in zip_longest(self.trees, step.tree_seconds, fillvalue=0.0))
        return VersionWork(
            self.version,
            self.rows + step.rows,
            self.seconds + step.seconds,
            self.partial + step.partial_seconds,
            trees,
        )


class Record:
    """A record of each step's progress, read from any thread.

    >>> record = Record()
    >>> record.last is None, record.totals["rows"]
    (True, 0)
    """

    def __init__(self) -> None:
        self.work = VersionWork(0)
        self.totals: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.parts: dict[str, float] = {}
        self._steps: deque[tuple[datetime.datetime, Progress]] = deque(maxlen=MAX_STEPS)
        self._lock = threading.Lock()

    def step(self, progress: Progress) -> None:
        """Count a step."""
        with self._lock:
            for name in SUMMED_FIELDS:
                self.totals[name] += getattr(progress, name)
            self.kinds[progress.kind] += 1
            for part, seconds in progress.breakdown.items():
                self.parts[part] = self.parts.get(part, 0.0) + seconds
            if self.work.version != progress.version:
                self.work = VersionWork(progress.version)
            self.work = self.work.after(progress)
            self._steps.append((datetime.datetime.now(datetime.UTC), progress))

    @property
    def last(self) -> Progress | None:
        """The latest step."""
        steps = self._latest(1)
        return steps[0][1] if steps else None

    def quantiles(self) -> dict[float, float]:
        """Return the seconds that a share of the latest steps did not exceed, for several shares."""
        seconds = sorted(step.seconds for _, step in self._latest(MAX_STEPS))
        return {q: seconds[math.ceil(q * len(seconds)) - 1] for q in QUANTILES if seconds}

    def rate(self) -> float | None:
        """Rows per second of the clock over the last steps; None where there are not two."""
        latest = self._latest(RATE_STEPS)
        if len(latest) < 2:
            return None
        elapsed = (latest[-1][0] - latest[0][0]).total_seconds()
        return sum(step.rows for _, step in latest[1:]) / elapsed if elapsed else None

    def steps(self, most: int, after: int = -1) -> list[dict[str, Any]]:
        """The latest steps after a number as plain data, oldest first, each with when it was done."""
        return [
            {**dataclasses.asdict(step), "done": done}
            for done, step in self._latest(most)
            if step.seq > after
        ]

    def _latest(self, most: int) -> list[tuple[datetime.datetime, Progress]]:
        with self._lock:
            return list(self._steps)[-most:]
