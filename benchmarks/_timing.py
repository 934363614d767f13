"""Fewest seconds: of one work in several tries, of several works in turns."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from weft.cli.bench import stopwatch


def best_of(times: int, work: Callable[[], Any]) -> float:
    """Return the fewest seconds that ``work`` took in so many tries."""
    seconds = []
    for _ in range(times):
        with stopwatch() as elapsed:
            work()
        seconds.append(elapsed())
    return min(seconds)


def race(works: Mapping[str, Callable[[], Any]], seconds: float, far: float = math.inf) -> dict[str, float]:
    """Return the fewest seconds that each work took, in turns: what disturbs the machine disturbs them all.

    Each is first done once untimed. Turns go on for so many seconds, three at least; who is then ``far``
    times slower than the fastest is out.

    >>> sorted(race({"one": lambda: sum(range(10)), "other": lambda: None}, seconds=0))
    ['one', 'other']
    """
    for work in works.values():
        work()
    best = dict.fromkeys(works, math.inf)
    left, turn, order = list(works), 0, random.Random(0)
    with stopwatch() as elapsed:
        while turn < 3 or elapsed() < seconds:
            # In any order, and each twice: nobody pays for what another left in the caches.
            for name in order.sample(left, len(left)):
                best[name] = min(best[name], best_of(2, works[name]))
            turn += 1
            if turn == 3:
                left = [name for name in works if best[name] <= far * min(best.values())]
    return best


def fewest(rounds: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the fewest seconds of each work over several races, run at different times.

    >>> fewest([{"one": 2.0, "other": 3.0}, {"one": 1.0, "other": 4.0}])
    {'one': 1.0, 'other': 3.0}
    """
    best: dict[str, float] = {}
    for took in rounds:
        for name, seconds in took.items():
            best[name] = min(best.get(name, math.inf), seconds)
    return best
