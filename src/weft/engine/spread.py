"""Spreading: from shards, which carry a set of predicates, to what each predicate has of each slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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

    def pairs(self, wanted: Sequence[bool]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Targets and cells of the predicates that are wanted, neighbours together."""
        edges = np.flatnonzero(np.diff(np.array([False, *wanted, False]).astype(np.int8)))
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
    of_signature, predicate = np.nonzero(satisfied)
    starts = np.searchsorted(of_signature, np.arange(len(satisfied) + 1))
    counts = np.bincount(signature, minlength=len(satisfied)) @ satisfied.astype(np.int64)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    cells = np.empty(first[-1], dtype=np.int64)
    _list(signature, starts, predicate, first[:-1].copy(), cells)
    return cells, first


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
