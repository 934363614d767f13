"""The edge rate from a sample, where every exact counter would take too long.

Dense edges are counted in one long block of ticks at a random place. Sparse ones by the union estimator of
Karp and Luby (FOCS 1983): draw an edge of one progression and see whether an earlier one has it too; the
share of new ones, times the sum of the rates, is the rate of the union.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numba import njit

from weft.slicing.count.bitset import common_unit
from weft.slicing.progression import Progression

DEFAULT_DRAWS = 200_000
"""Edges looked at: for edges that seldom meet, within 0.1 to 0.3% of the rate."""
BLOCK_TICKS_PER_DRAW, MAX_MARKS_PER_DRAW, MAX_CHECKS_PER_DRAW = 20, 250, 200
"""Per draw: ticks in a block, edges marked in it at most, and comparisons at most."""
MAX_INSTANT = 1 << 61


def sample(progressions: Iterable[Progression], draws: int = DEFAULT_DRAWS, seed: int = 0) -> float:
    """Return the edges per unit of time, estimated: the same answer each time for one seed.

    >>> sample([Progression(9_000_000, 0), Progression(6_000_000, 0)]) * 18_000_000 - 4 < 0.01
    True
    """
    distinct = sorted(set(progressions))
    if not distinct:
        return 0.0
    unit, shift = common_unit(distinct)
    periods = np.array([p.period // unit for p in distinct])
    residues = np.array([(p.residue - shift) % p.period // unit for p in distinct])
    rates = 1 / periods
    random = np.random.default_rng(seed)
    if rates.sum() * BLOCK_TICKS_PER_DRAW > 0.25:
        return _block_density(periods, residues, draws, random) / unit
    draws = int(min(draws, max(draws * MAX_CHECKS_PER_DRAW // len(distinct), 1000)))
    # Systematic: each progression is drawn in proportion to its rate, give or take one.
    at = np.searchsorted(np.cumsum(rates), (np.arange(draws) + random.random()) / draws * rates.sum())
    at = np.minimum(at, len(distinct) - 1)
    steps = random.integers(0, MAX_INSTANT // periods[at])
    new = _first(periods, residues, at, steps)
    return float(rates.sum() * new / draws / unit)


def _block_density(
    periods: np.ndarray, residues: np.ndarray, draws: int, random: np.random.Generator
) -> float:
    """Return the edges per tick in a block at a random place."""
    length = int(min(draws * BLOCK_TICKS_PER_DRAW, draws * MAX_MARKS_PER_DRAW / (1 / periods).sum()))
    start = int(random.integers(0, MAX_INSTANT))
    marks = np.zeros(length, dtype=np.bool_)
    for period, first in zip(periods.tolist(), ((residues - start) % periods).tolist()):
        marks[first::period] = True
    return int(np.count_nonzero(marks)) / length


@njit(cache=True, nogil=True)
def _first(periods, residues, at, steps):  # type: ignore[no-untyped-def]
    """Count the drawn edges that no earlier progression has."""
    new = 0
    for k in range(at.size):
        instant = residues[at[k]] + steps[k] * periods[at[k]]
        for i in range(at[k]):
            if (instant - residues[i]) % periods[i] == 0:
                break
        else:
            new += 1
    return new
