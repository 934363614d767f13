"""Costs of each technique as the engine calls it, and with them the choice that ``auto`` makes.

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
from weft.final.calibration import stored


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
        for constant in fields(self):
            value = getattr(self, constant.name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e12:
                raise ValueError(f"{constant.name} must be nanoseconds from 0, not {value!r}")

    def of(self, cells: int, runs: int, length: int) -> float:
        """Return the nanoseconds of one call."""
        ns = self.call + self.cell * cells + self.run * runs + self.length * length
        return ns + self.doubling * runs * log2(length / runs) if self.doubling and length > runs else ns


Costs: TypeAlias = Mapping[str, Mapping[str, Cost]]
"""By the kind of a call and the name of a technique."""

MIN_LONG_RUN_CELLS = 20
"""Cells of a run, on the mean, below which runs are short: there what surrounds the work weighs as much."""


def kind(monoid: Monoid, runs: int, length: int) -> str:
    """Return the kind of a call, by the monoid and the length of runs; calls of a kind cost about the same.

    >>> kind(Monoid(MAX, 1), runs=10, length=100), kind(Monoid(MIN, 3), runs=10, length=1000)
    ('extreme, short runs', 'ordered, long runs')
    """
    if monoid.code in (MIN, MAX):
        name = "extreme" if monoid.width == 1 else "ordered"
    else:
        name = NAMES.get(monoid.code, "float sum")
    return f"{name}, short runs" if length < MIN_LONG_RUN_CELLS * runs else f"{name}, long runs"


NAMES = {ADD: "count", SUM_INT: "integer sum", MOMENTS: "moments"}

DEFAULTS: Costs = {
    "count, short runs": {
        "recompute": Cost(call=5600, cell=0.048, run=2.2, doubling=0.31, length=0.029),
        "bulk": Cost(call=5400, cell=0.27, run=0.93, length=0.068),
    },
    "count, long runs": {
        "recompute": Cost(call=5600, cell=0.013, run=3.2, length=0.067),
        "bulk": Cost(call=5400, cell=0.31, run=1.5),
    },
    "integer sum, short runs": {
        "recompute": Cost(call=5600, cell=0.063, run=3.1, doubling=0.64, length=0.35),
        "bulk": Cost(call=5500, cell=0.62, run=1.7, doubling=0.067),
    },
    "integer sum, long runs": {
        "recompute": Cost(call=5500, cell=0.016, doubling=0.57, length=0.56),
        "bulk": Cost(call=5400, cell=0.66, run=1.8, doubling=0.029),
    },
    "float sum, short runs": {
        "recompute": Cost(call=5400, cell=0.97, length=2.9),
        "bulk": Cost(call=5500, cell=3.5, run=3.8, length=0.17),
    },
    "float sum, long runs": {
        "recompute": Cost(call=5500, cell=0.41, length=5.5),
        "bulk": Cost(call=5500, cell=3.9, run=5.9, length=0.016),
    },
    "extreme, short runs": {
        "recompute": Cost(call=5600, cell=0.049, run=2.2, doubling=0.26, length=0.069),
        "bulk": Cost(call=5500, cell=1.4, run=2.2, length=0.012),
    },
    "extreme, long runs": {
        "recompute": Cost(call=5600, cell=0.019, run=3.7, length=0.068),
        "bulk": Cost(call=5500, cell=0.76, run=3.3, doubling=0.36),
    },
    "ordered, short runs": {
        "recompute": Cost(call=5100, run=3.7, doubling=1.1, length=1.4),
        "bulk": Cost(call=5300, cell=2.8, run=3.9, length=0.92),
    },
    "ordered, long runs": {
        "recompute": Cost(call=5400, doubling=3.8, length=1.2),
        "bulk": Cost(call=5000, cell=3.1, doubling=2.2),
    },
    "moments, short runs": {
        "recompute": Cost(call=5800, length=5.7),
        "bulk": Cost(call=5500, cell=6.9, run=6.7, length=0.61),
    },
    "moments, long runs": {
        "recompute": Cost(call=5500, cell=0.71, length=12),
        "bulk": Cost(call=5400, cell=8.4, run=14, length=0.021),
    },
}
"""Measured on one core of a common server. ``auto`` chooses from the techniques named here, those that ever
were the fastest by more than a little: no others are compiled where nobody asks for them by name."""


def candidates(monoid: Monoid) -> tuple[str, ...]:
    """Return the techniques that ``auto`` may choose for a monoid.

    >>> candidates(Monoid(ADD, 1, invertible=True))
    ('recompute', 'bulk')
    """
    return tuple(
        dict.fromkeys(n for length in (1, MIN_LONG_RUN_CELLS) for n in DEFAULTS[kind(monoid, 1, length)])
    )


@cache
def costs() -> Costs:
    """Return the costs measured on this machine, or the defaults."""
    return stored("techniques", _read, DEFAULTS)


def cheapest(monoid: Monoid, cells: int, runs: int, length: int, by: Costs | None = None) -> str:
    """Return the technique that should answer such a call soonest.

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
    """Read the stored costs of the techniques that ``auto`` chooses from; none may be missing."""
    return {k: {name: Cost(**section[k][name]) for name in rows} for k, rows in DEFAULTS.items()}
