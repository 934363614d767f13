"""What each technique costs as the engine calls it, and with that the choice that ``auto`` makes.

A plan is made before any data is seen, and one tree is asked for a handful of windows at one step and for
thousands when it catches up. So the choice is made at every call, from what the call holds: cells (the
states of all groups), runs (the due windows of all queries) and their length (the cells of all runs).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from math import log2
from typing import Any, TypeAlias

from weft.aggregates.monoid import ADD, MAX, MIN, MOMENTS, SUM_INT, Monoid
from weft.calibration import stored


@dataclass(frozen=True, slots=True)
class Cost:
    """Nanoseconds per call, per cell, per run, per run and doubling of its length, and per cell of a run.

    >>> Cost(call=1000, run=10, length=2).of(cells=100, runs=5, length=50)
    1150.0
    """

    call: float = 0.0
    cell: float = 0.0
    run: float = 0.0
    doubling: float = 0.0
    length: float = 0.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e12:
                raise ValueError(f"{each.name} must be nanoseconds from 0, not {value!r}")

    def of(self, cells: int, runs: int, length: int) -> float:
        """What one call costs."""
        ns = self.call + self.cell * cells + self.run * runs + self.length * length
        return ns + self.doubling * runs * log2(length / runs) if self.doubling and length > runs else ns


Costs: TypeAlias = Mapping[str, Mapping[str, Cost]]
"""By the kind of a monoid and the name of a technique."""


def kind(monoid: Monoid) -> str:
    """Monoids of one kind cost about the same.

    >>> kind(Monoid(MAX, 1)), kind(Monoid(MIN, 3))
    ('extreme', 'ordered')
    """
    if monoid.code in (MIN, MAX):
        return "extreme" if monoid.width == 1 else "ordered"
    return {ADD: "count", SUM_INT: "integer sum", MOMENTS: "moments"}.get(monoid.code, "float sum")


DEFAULTS: Costs = {
    "count": {"recompute": Cost(5500, 0.1, 2.4, 0.3, 0.06), "bulk": Cost(5000, 0.37, 1.4, 0.05)},
    "integer sum": {"recompute": Cost(5500, 0.2, 4.0, 0.9, 0.54), "bulk": Cost(5000, 1.0, 2.2)},
    "float sum": {"recompute": Cost(5700, 2.7, 0, 0, 2.7), "bulk": Cost(5200, 4.3, 4.5, 0.6)},
    "extreme": {"recompute": Cost(5800, 0.05, 2.3, 0.3, 0.06), "bulk": Cost(5200, 1.3, 2.0, 0.4)},
    "ordered": {"recompute": Cost(5300, 0.3, 4, 4, 1.2), "bulk": Cost(5000, 4.3, 15)},
    "moments": {"recompute": Cost(5700, 6, 0, 0, 6), "bulk": Cost(5000, 9.5, 12, 2)},
}
"""Measured on one core of a common server. ``auto`` chooses from the techniques named here, those that ever
were the fastest by more than a little: no others are compiled where nobody asks for them by name."""


@cache
def costs() -> Costs:
    """Those measured on this machine, or the defaults."""
    return stored("techniques", _read, DEFAULTS)


def cheapest(monoid: Monoid, cells: int, runs: int, length: int, by: Costs | None = None) -> str:
    """The technique that should answer such a call soonest.

    >>> from weft.aggregates.monoid import SUM_FLOAT
    >>> cheapest(Monoid(SUM_FLOAT, 2), cells=1000, runs=1, length=60, by=DEFAULTS)
    'recompute'
    >>> cheapest(Monoid(SUM_FLOAT, 2), cells=1000, runs=1000, length=60_000, by=DEFAULTS)
    'bulk'
    """
    table = (costs() if by is None else by)[kind(monoid)]
    return min(table, key=lambda name: table[name].of(cells, runs, length))


def _read(section: Any) -> Costs:
    """What was stored of the techniques that ``auto`` chooses from; none may be missing."""
    return {k: {name: Cost(**section[k][name]) for name in rows} for k, rows in DEFAULTS.items()}
