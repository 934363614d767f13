"""Edges as arithmetic progressions, and the slices between them.

A window's start edges are the progression ``(slide, offset)``, its end edges ``(slide, offset + range)``.
The composite of many queries has the edges of all; its pattern repeats only with the lcm of the slides,
so nothing here ever materialises a period: edges come from the progressions for the time span at hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from weft.aggregates.cached import read_only


@dataclass(frozen=True, slots=True, order=True)
class Progression:
    """The instants ``residue + k*period`` for every integer k."""

    period: int
    residue: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "residue", self.residue % self.period)

    def contains(self, other: Progression) -> bool:
        """Return whether every instant of the other is one of this.

        >>> Progression(5, 2).contains(Progression(15, 7))
        True
        """
        return other.period % self.period == 0 and (other.residue - self.residue) % self.period == 0


def reduce_progressions(progressions: Iterable[Progression]) -> tuple[Progression, ...]:
    """Return the same edges from the fewest progressions: duplicates and contained ones are dropped.

    >>> reduce_progressions([Progression(6, 0), Progression(3, 0), Progression(6, 0), Progression(4, 1)])
    (Progression(period=3, residue=0), Progression(period=4, residue=1))
    """
    residues: dict[int, set[int]] = {}
    for p in progressions:
        residues.setdefault(p.period, set()).add(p.residue)
    periods = np.array(sorted(residues), dtype=np.int64)
    for number, period in enumerate(periods.tolist()):
        # Only an edge whose period divides this one can contain it; shorter ones have been reduced by now.
        for divisor in periods[:number][period % periods[:number] == 0].tolist():
            residues[period] = {r for r in residues[period] if r % divisor not in residues[divisor]}
    return tuple(Progression(period, r) for period in periods.tolist() for r in sorted(residues[period]))


def edges_between(progressions: Iterable[Progression], low: int, high: int) -> np.ndarray:
    """Return the edges of the slices of ``[low, high]``: from the last up to low to the first after high.

    >>> # (12, 9) and (10, 6), starts at multiples of the slide
    >>> both = Progression(9, 0), Progression(9, 3), Progression(6, 0), Progression(6, 4)
    >>> edges_between(both, 3, 17).tolist()
    [3, 4, 6, 9, 10, 12, 16, 18]
    """
    period, residue = np.array([(p.period, p.residue) for p in progressions], dtype=np.int64).T
    before = np.max(low - (low - residue) % period)
    after = np.min(high + 1 + (residue - high - 1) % period)
    first = before + (residue - before) % period
    count = (after - first) // period + 1
    at = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    edges = np.repeat(first, count) + np.repeat(period, count) * at
    edges.sort()
    return edges[np.diff(edges, prepend=before - 1) > 0]


def count_between(progressions: Iterable[Progression], low: int, high: int) -> int:
    """Return a bound on the edges that ``edges_between`` would give, at no cost."""
    return sum((high - low) // p.period + 2 for p in progressions)


@njit(cache=True, nogil=True)
def _locate(edges, times, keep, out):  # type: ignore[no-untyped-def]
    """out[i] := the slice of times[i]; rows come nearly in order, so the last slice is tried first."""
    low, high = edges[0], edges[0]
    at = 0
    for i in range(times.size):
        if keep.size and not keep[i]:
            out[i] = -1
            continue
        t = times[i]
        if t < low or t >= high:
            left, right = 0, edges.size
            while right - left > 1:
                middle = (left + right) >> 1
                if edges[middle] <= t:
                    left = middle
                else:
                    right = middle
            at, low, high = left, edges[left], edges[left + 1]
        out[i] = at


def locate(edges: np.ndarray, times: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Return each time's slice i, ``edges[i] <= t < edges[i + 1]``; -1 where not kept (empty: keep all).

    >>> locate(np.array([0, 5, 9]), np.array([0, 4, 5, 8]), np.zeros(0, bool)).tolist()
    [0, 0, 1, 1]
    """
    out = np.empty(times.size, dtype=np.int32)
    _locate(edges, read_only(times), keep, out)
    return out


class SlicedTimes(NamedTuple):
    """Starts and ends of slices, and the slice of each of some times (-1 where it was not kept)."""

    starts: np.ndarray
    ends: np.ndarray
    slice_of_time: np.ndarray


def slices_of(progressions: tuple[Progression, ...], times: np.ndarray, keep: np.ndarray) -> SlicedTimes:
    """Return the slices that cover the kept times, and each time's slice.

    Where the edges of the span would outnumber the rows by far (a microsecond slide over an hour), only
    the slices that hold a row are found, each from the progressions alone.

    >>> cut = Progression(5, 0), Progression(5, 3)
    >>> starts, ends, at = slices_of(cut, np.array([4, 1, 8]), np.zeros(0, bool))
    >>> starts.tolist(), ends.tolist(), at.tolist()
    ([0, 3, 5, 8], [3, 5, 8, 10], [1, 0, 3])
    """
    kept_times = times[keep] if keep.size else times
    if not kept_times.size:
        empty = np.zeros(0, dtype=np.int64)
        return SlicedTimes(empty, empty, np.full(times.size, -1, dtype=np.int32))
    low, high = int(kept_times.min()), int(kept_times.max())
    if count_between(progressions, low, high) <= max(4 * kept_times.size, 1 << 20):
        edges = edges_between(progressions, low, high)
        return SlicedTimes(edges[:-1], edges[1:], locate(edges, times, keep))
    instants, position = np.unique(kept_times, return_inverse=True)
    starts = align(progressions, instants)
    ends = np.min([t + (p.residue - t - 1) % p.period + 1 for p in progressions for t in (instants,)], axis=0)
    starts, index, slice_of_instant = np.unique(starts, return_index=True, return_inverse=True)
    at = np.full(times.size, -1, dtype=np.int32)
    at[keep if keep.size else slice(None)] = slice_of_instant[position]
    return SlicedTimes(starts, ends[index], at)


def align(progressions: Iterable[Progression], times: np.ndarray) -> np.ndarray:
    """Return, for each time, the last edge at or before it.

    >>> align([Progression(5, 0), Progression(5, 3)], np.array([4, 5, 9])).tolist()
    [3, 5, 8]
    """
    starts = np.full(times.size, np.iinfo(np.int64).min, dtype=np.int64)
    for p in progressions:
        np.maximum(starts, times - (times - p.residue) % p.period, out=starts)
    return starts
