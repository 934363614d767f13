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

DRAWS = 200_000
"""Edges looked at: for edges that seldom meet, within 0.1 to 0.3% of the rate."""
TICKS, MARKS, CHECKS = 20, 250, 200
"""Per draw: ticks in a block, edges marked in it at most, and comparisons at most."""
FAR = 1 << 61


def sample(progressions: Iterable[Progression], draws: int = DRAWS, seed: int = 0) -> float:
    """Edges per unit of time, estimated: the same answer each time for one seed.

    >>> sample([Progression(9_000_000, 0), Progression(6_000_000, 0)]) * 18_000_000 - 4 < 0.01
    True
    """
    some = sorted(set(progressions))
    if not some:
        return 0.0
    unit, shift = common_unit(some)
    periods = np.array([p.period // unit for p in some])
    residues = np.array([(p.residue - shift) % p.period // unit for p in some])
    rates = 1 / periods
    random = np.random.default_rng(seed)
    if rates.sum() * TICKS > 0.25:
        return _block_density(periods, residues, draws, random) / unit
    draws = int(min(draws, max(draws * CHECKS // len(some), 1000)))
    # Systematic: each progression is drawn in proportion to its rate, give or take one.
    at = np.searchsorted(np.cumsum(rates), (np.arange(draws) + random.random()) / draws * rates.sum())
    at = np.minimum(at, len(some) - 1)
    steps = random.integers(0, FAR // periods[at])
    new = _first(periods, residues, at, steps)
    return float(rates.sum() * new / draws / unit)


def _block_density(
    periods: np.ndarray, residues: np.ndarray, draws: int, random: np.random.Generator
) -> float:
    """Edges per tick in a block at a random place."""
    length = int(min(draws * TICKS, draws * MARKS / (1 / periods).sum()))
    start = int(random.integers(0, FAR))
    marks = np.zeros(length, dtype=np.bool_)
    for period, first in zip(periods.tolist(), ((residues - start) % periods).tolist()):
        marks[first::period] = True
    return int(np.count_nonzero(marks)) / length


@njit(cache=True, nogil=True)
def _first(periods, residues, at, steps):  # type: ignore[no-untyped-def]
    """How many drawn edges no earlier progression has."""
    new = 0
    for k in range(at.size):
        instant = residues[at[k]] + steps[k] * periods[at[k]]
        for i in range(at[k]):
            if (instant - residues[i]) % periods[i] == 0:
                break
        else:
            new += 1
    return new
