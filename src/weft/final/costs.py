"""What each technique costs as the engine calls it, and with that the choice that ``auto`` makes.

A plan is made before any data is seen, and one tree is asked for a handful of windows at one step and for
thousands when it catches up. So the choice is made at every call, from what the call holds: cells (the
states of all groups), runs (the due windows of all queries) and their length (the cells of all runs).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from math import inf, log2
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
"""By the kind of a call and the name of a technique."""

SHORT = 20
"""Cells of a run, on the mean, below which runs are short: there what surrounds the work weighs as much."""


def kind(monoid: Monoid, runs: int, length: int) -> str:
    """Calls of one kind cost about the same: that of the monoid, and of the length of runs.

    >>> kind(Monoid(MAX, 1), runs=10, length=100), kind(Monoid(MIN, 3), runs=10, length=1000)
    ('extreme, short runs', 'ordered, long runs')
    """
    if monoid.code in (MIN, MAX):
        name = "extreme" if monoid.width == 1 else "ordered"
    else:
        name = NAMES.get(monoid.code, "float sum")
    return f"{name}, short runs" if length < SHORT * runs else f"{name}, long runs"


NAMES = {ADD: "count", SUM_INT: "integer sum", MOMENTS: "moments"}

DEFAULTS: Costs = {
    "count, short runs": {
        "recompute": Cost(call=6000, cell=0.076, run=2.2, doubling=0.35, length=0.021),
        "bulk": Cost(call=5700, cell=0.27, run=1, length=0.074),
    },
    "count, long runs": {
        "recompute": Cost(call=6000, cell=0.051, run=3, length=0.07),
        "bulk": Cost(call=5800, cell=0.33, run=1.8),
    },
    "integer sum, short runs": {
        "recompute": Cost(call=5900, cell=0.078, run=3.2, doubling=0.55, length=0.4),
        "bulk": Cost(call=5700, cell=0.63, run=1.9, doubling=0.091),
    },
    "integer sum, long runs": {
        "recompute": Cost(call=5900, cell=0.05, run=2.1, length=0.58),
        "bulk": Cost(call=5800, cell=0.7, run=2.5),
    },
    "float sum, short runs": {
        "recompute": Cost(call=5800, cell=1, length=2.9),
        "bulk": Cost(call=5900, cell=3.4, run=3.9, length=0.17),
    },
    "float sum, long runs": {
        "recompute": Cost(call=5900, cell=0.54, length=5.5),
        "bulk": Cost(call=5900, cell=4, run=6.6, length=0.014),
    },
    "extreme, short runs": {
        "recompute": Cost(call=6000, cell=0.067, run=2.3, doubling=0.3, length=0.064),
        "bulk": Cost(call=6000, cell=1.4, run=2.2, length=0.044),
    },
    "extreme, long runs": {
        "recompute": Cost(call=5900, cell=0.062, run=3.5, length=0.071),
        "bulk": Cost(call=5800, cell=1, run=3.6, doubling=0.39),
    },
    "ordered, short runs": {
        "recompute": Cost(call=5000, run=3, length=2.4),
        "bulk": Cost(call=5600, cell=2.8, run=4.5, length=1.1),
    },
    "ordered, long runs": {
        "recompute": Cost(call=5700, cell=0.33, doubling=6.5, length=1.1),
        "bulk": Cost(call=5400, cell=4.3, run=13),
    },
    "moments, short runs": {
        "recompute": Cost(call=6100, length=5.8),
        "bulk": Cost(call=5900, cell=6.8, run=6.7, length=0.73),
    },
    "moments, long runs": {
        "recompute": Cost(call=5900, cell=0.88, length=12),
        "bulk": Cost(call=5700, cell=8.9, run=16, length=0.026),
    },
}
"""Measured on one core of a common server. ``auto`` chooses from the techniques named here, those that ever
were the fastest by more than a little: no others are compiled where nobody asks for them by name."""


def candidates(monoid: Monoid) -> tuple[str, ...]:
    """What ``auto`` may choose for a monoid.

    >>> candidates(Monoid(ADD, 1, invertible=True))
    ('recompute', 'bulk')
    """
    return tuple(dict.fromkeys(n for length in (1, SHORT) for n in DEFAULTS[kind(monoid, 1, length)]))


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
    chosen, least = "", inf
    for name, cost in (costs() if by is None else by)[kind(monoid, runs, length)].items():
        ns = cost.of(cells, runs, length)
        if ns < least:
            chosen, least = name, ns
    return chosen


def _read(section: Any) -> Costs:
    """What was stored of the techniques that ``auto`` chooses from; none may be missing."""
    return {k: {name: Cost(**section[k][name]) for name in rows} for k, rows in DEFAULTS.items()}
