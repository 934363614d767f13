"""The edge table: the edges of every class as bits over the same instants, so that joining trees is an OR.

The instants are one whole period where it is short enough, and then every rate is exact. Otherwise they are a
block of ticks at a random place; where slides are too long for a block, instants drawn from the edges of each
class. (Guirguis et al., CIKM 2011, section 8.2, keep a bitmap of each tree's own composite period, which
explodes; a common table is bounded by what it may cost.)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from weft.planning.windows import Edges

MAX_WORDS, MIN_WORDS = 1 << 14, 16
MAX_COMPARED_WORDS = 1 << 29
MAX_TABLE_BYTES = 1 << 28
MAX_INSTANT = 1 << 61


@dataclass(frozen=True, slots=True)
class EdgeTable:
    """One row of bits per class; ``counts`` are the bits set, ``rates`` the classes' edges per second.

    ``instants`` are what the bits stand for, and ``ticks`` the edges, both in ticks of their common clock.
    """

    bits: np.ndarray
    counts: np.ndarray
    rates: np.ndarray
    exact: bool
    instants: np.ndarray
    ticks: Edges

    def rate(self, classes: np.ndarray) -> float:
        """Return the edges per second of these classes together."""
        return float(rate_of(self.bits, self.counts, self.rates, np.asarray(classes)))


def edge_table(edges: Edges, compared: int, seed: int = 0) -> EdgeTable:
    """Return the table of these classes, of which at most ``compared`` are compared each with each.

    >>> edges = Edges(np.array([9, 6]), np.array([[0, 3], [0, 4]]))
    >>> table = edge_table(edges, 2)
    >>> table.exact, round(table.rate(np.array([0, 1])) / 1_000_000 * 18)
    (True, 8)
    """
    unit = int(
        np.gcd.reduce(np.concatenate([edges.periods, (edges.residues - edges.residues[0, 0]).ravel()]))
    )
    periods = edges.periods // unit
    residues = (edges.residues - edges.residues[0, 0]) % edges.periods[:, None] // unit
    words = min(MAX_WORDS, MAX_COMPARED_WORDS // max(compared, 1) ** 2, MAX_TABLE_BYTES // 8 // len(edges))
    ticks = 64 * max(words, MIN_WORDS)
    period = _period(periods, ticks)
    random = np.random.default_rng(seed)
    if period is not None:
        instants = np.arange(period)
        bits = _block(periods, residues, period)
    elif periods.max() * 4 <= ticks:
        start = int(random.integers(0, MAX_INSTANT))
        instants = start + np.arange(ticks)
        bits = _block(periods, (residues - start) % periods[:, None], ticks)
    else:
        instants = _draw(periods, residues, ticks, random)
        bits = _members(periods, residues, instants)
    clock = Edges(periods, residues)
    return EdgeTable(bits, count_rows(bits), edges.rates, period is not None, instants, clock)


def _period(periods: np.ndarray, longest: int) -> int | None:
    """Return the composite period in ticks, or none where it is longer than that."""
    together = 1
    for period in np.unique(periods).tolist():
        together = lcm(together, period)
        if together > longest:
            return None
    return together


def _draw(
    periods: np.ndarray, residues: np.ndarray, instants: int, random: np.random.Generator
) -> np.ndarray:
    """Draw random edges, as many of each class as of any other."""
    at = (
        np.arange(instants) % len(periods)
        if instants >= len(periods)
        else random.permutation(len(periods))[:instants]
    )
    steps = random.integers(0, MAX_INSTANT // periods[at])
    return residues[at, random.integers(0, 2, instants)] + steps * periods[at]


@njit(cache=True, nogil=True)
def _block(periods, first, ticks):  # type: ignore[no-untyped-def]
    bits = np.zeros((periods.size, (ticks + 63) >> 6), np.uint64)
    for i in range(periods.size):
        for side in range(2):
            for tick in range(first[i, side], ticks, periods[i]):
                bits[i, tick >> 6] |= np.uint64(1) << np.uint64(tick & 63)
    return bits


@njit(cache=True, nogil=True)
def _members(periods, residues, instants):  # type: ignore[no-untyped-def]
    bits = np.zeros((periods.size, (instants.size + 63) >> 6), np.uint64)
    for i in range(periods.size):
        for k in range(instants.size):
            at = instants[k] % periods[i]
            if at == residues[i, 0] or at == residues[i, 1]:
                bits[i, k >> 6] |= np.uint64(1) << np.uint64(k & 63)
    return bits


@intrinsic
def _popcount(typing, word):  # type: ignore[no-untyped-def]
    """Count the bits set in a 64-bit word, as one machine instruction."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), generate


popcount: Any = _popcount


@njit(cache=True, nogil=True)
def count_common(a, b):  # type: ignore[no-untyped-def]
    """Count the bits set in both rows."""
    total = np.uint64(0)
    for w in range(a.size):
        total += popcount(a[w] & b[w])
    return np.int64(total)


@njit(cache=True, nogil=True)
def count_rows(bits):  # type: ignore[no-untyped-def]
    """Count the bits set in each row."""
    counts = np.zeros(bits.shape[0], np.int64)
    for i in range(bits.shape[0]):
        counts[i] = count_common(bits[i], bits[i])
    return counts


@njit(cache=True, nogil=True)
def union_rate(rate_a, count_a, rate_b, count_b, common):  # type: ignore[no-untyped-def]
    """Return the edge rate of two trees from their own and the bits they have in common.

    Taken as the share of the smaller tree's edges that the larger has, so that it is right whatever the
    sample where one tree has all edges of the other, and where they have none in common.
    """
    if count_a < count_b:
        rate_a, rate_b, count_b = rate_b, rate_a, count_a
    together = rate_a + rate_b
    if count_b:
        together -= rate_b * common / count_b
    return max(together, rate_a, rate_b)


@njit(cache=True, nogil=True)
def rate_of(bits, counts, rates, classes):  # type: ignore[no-untyped-def]
    """Return the edge rate of a set of classes, whatever the order they came together in."""
    if classes.size == 1:
        return rates[classes[0]]
    rate, count, highest = 0.0, 0, 0.0
    for i in classes:
        rate += rates[i]
        count += counts[i]
        highest = max(highest, rates[i])
    if count == 0:
        return rate
    union = np.uint64(0)
    for w in range(bits.shape[1]):
        word = np.uint64(0)
        for i in classes:
            word |= bits[i, w]
        union += popcount(word)
    return max(np.int64(union) * rate / count, highest)
