"""Spreading: from shards, which carry a set of predicates, to what each predicate has of each slice.

``spread`` keeps the slices as they are, for windows of all lengths to be answered from. ``Places`` has for
each predicate only the slices that its own queries need, which are often far fewer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numba import njit


@dataclass(frozen=True, slots=True)
class Spread:
    """Cells listed once for each predicate that they satisfy, ordered by predicate, then as they were.

    ``cell[k]`` goes to slice ``target[k]`` of a predicate; ``first`` has where each predicate's pairs begin,
    ``bounds`` where its slices do, and ``leader`` one cell of each slice.
    """

    cell: np.ndarray
    target: np.ndarray
    first: np.ndarray
    bounds: np.ndarray
    leader: np.ndarray

    def pairs(self, chosen: Sequence[bool]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Targets and cells of the chosen predicates, neighbours together."""
        edges = np.flatnonzero(np.diff(np.array([False, *chosen, False]).astype(np.int8)))
        for low, high in edges.reshape(-1, 2):
            inside = slice(self.first[low], self.first[high])
            yield self.target[inside], self.cell[inside]


def spread(signature: np.ndarray, satisfied: np.ndarray, group: np.ndarray, at: np.ndarray) -> Spread:
    """List cells, ordered by group and ``at``, by the predicates that their signatures satisfy.

    Neighbours of equal group and ``at`` go to one slice.

    >>> satisfied = np.array([[True, False], [True, True]])
    >>> found = spread(np.array([0, 1, 1]), satisfied, np.array([5, 5, 6]), np.array([0, 0, 0]))
    >>> found.cell.tolist(), found.target.tolist(), found.bounds.tolist(), found.leader.tolist()
    ([0, 1, 2, 1, 2], [0, 0, 1, 2, 3], [0, 2, 4], [0, 2, 1, 2])
    """
    cell, first = satisfying(signature, satisfied)
    target = np.empty(len(cell), dtype=np.int64)
    bounds = np.zeros(len(first), dtype=np.int64)
    leader = np.empty(len(cell), dtype=np.int64)
    count = _slices(cell, first, group, at, target, bounds, leader)
    return Spread(cell, target, first, bounds, leader[:count].copy())


def satisfying(signature: np.ndarray, satisfied: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cells that satisfy each predicate, predicate after predicate, and where each one's begin.

    >>> cells, first = satisfying(np.array([0, 1, 1]), np.array([[True, False], [True, True]]))
    >>> cells.tolist(), first.tolist()
    ([0, 1, 2, 1, 2], [0, 3, 5])
    """
    of_signature, predicate = map(np.ascontiguousarray, np.nonzero(satisfied))
    starts = np.searchsorted(of_signature, np.arange(len(satisfied) + 1))
    counts = np.bincount(signature, minlength=len(satisfied)) @ satisfied.astype(np.int64)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    cells = np.empty(first[-1], dtype=np.int64)
    _list(signature, starts, predicate, first[:-1].copy(), cells)
    return cells, first


Slices: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Starts and ends of slices, and the slice of each row, or of each finer slice (-1: none)."""

PAIRS_PER_BLOCK = 1 << 16


class PlaceColumns(NamedTuple):
    """Predicate, slice and group of places, as columns."""

    predicate: np.ndarray
    slice: np.ndarray
    group: np.ndarray


class Places:
    """A place for every predicate, slice of its own queries and group: where its partials are gathered.

    ``slices`` has the slices of each predicate, by those of the cells; ``satisfied`` a row for each
    signature, a column for each predicate.
    """

    def __init__(self, slices: Sequence[Slices], satisfied: np.ndarray, groups: int) -> None:
        self.groups, self.satisfied = groups, satisfied
        self.starts = np.concatenate([starts for starts, _, _ in slices])
        self.ends = np.concatenate([ends for _, ends, _ in slices])
        self._first = np.cumsum([0, *(len(starts) for starts, _, _ in slices)])
        # By slice first: the places of one cell lie together.
        self._place = (np.stack([at for *_, at in slices], axis=1) + self._first[:-1]) * groups
        of_signature, self._predicate = map(np.ascontiguousarray, np.nonzero(satisfied))
        self._bits = np.searchsorted(of_signature, np.arange(len(satisfied) + 1))

    def __len__(self) -> int:
        return int(self._first[-1]) * self.groups

    def pairs(
        self, signature: np.ndarray, at: np.ndarray, group: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Cells and their places, block by block: each cell once for every predicate that it satisfies."""
        weights = np.cumsum(np.diff(self._bits)[signature])
        total = int(weights[-1]) if len(weights) else 0
        cuts = np.searchsorted(
            weights, np.arange(PAIRS_PER_BLOCK, total + PAIRS_PER_BLOCK, PAIRS_PER_BLOCK), "right"
        )
        for low, high in pairwise([0, *cuts.tolist()]):
            high = max(high, low)
            room = int(weights[high - 1] - (weights[low - 1] if low else 0)) if high > low else 0
            cell, place = np.empty(room, np.int64), np.empty(room, np.int64)
            inside = slice(low, high)
            _place(
                signature[inside],
                at[inside],
                group[inside],
                self._bits,
                self._predicate,
                self._place,
                cell,
                place,
            )
            yield cell + low, place

    def decode(self, place: np.ndarray) -> PlaceColumns:
        """Return predicate, slice and group of places."""
        at, group = np.divmod(place, self.groups)
        return PlaceColumns(np.searchsorted(self._first, at, "right") - 1, at, group)


@njit(cache=True, nogil=True)
def _place(signature, at, group, bits, predicate, places, cell, place):  # type: ignore[no-untyped-def]
    k = 0
    for i in range(signature.size):
        s, a, g = signature[i], at[i], group[i]
        for b in range(bits[s], bits[s + 1]):
            cell[k] = i
            place[k] = places[a, predicate[b]] + g
            k += 1


@njit(cache=True, nogil=True)
def _list(signature, starts, predicate, place, cells):  # type: ignore[no-untyped-def]
    for i in range(signature.size):
        s = signature[i]
        for k in range(starts[s], starts[s + 1]):
            p = predicate[k]
            cells[place[p]] = i
            place[p] += 1


@njit(cache=True, nogil=True)
def _slices(cell, first, group, at, target, bounds, leader):  # type: ignore[no-untyped-def]
    count = 0
    for p in range(first.size - 1):
        bounds[p] = count
        for k in range(first[p], first[p + 1]):
            j = cell[k]
            if k == first[p] or group[cell[k - 1]] != group[j] or at[cell[k - 1]] != at[j]:
                leader[count] = j
                count += 1
            target[k] = count - 1
    bounds[first.size - 1] = count
    return count
