"""Weave Share with a chosen way of counting edges: the oracle of the compiled greedy, and its measure.

The counters are the bit set, F1, F1+Opt and merged F1, all exact; and over the instants of the common table
the three ways of Guirguis et al., CIKM 2011, section 8: dividing by every slide, probing a bitmap, and
probing it with the tree that has fewer edges.
"""

from __future__ import annotations

import time
from itertools import combinations
from math import inf
from typing import Any, Protocol

import numpy as np
from numba import njit

from weft.errors import QueryError
from weft.planning.cost.load import NO_LOAD, add_load, final_operations
from weft.planning.problem import Problem
from weft.planning.table import union_rate
from weft.planning.windows import SECOND
from weft.slicing.count import COUNTERS, Counter, MergedF1, Unaffordable
from weft.slicing.count.bitset import common_unit
from weft.slicing.progression import Progression


class EdgeSets(Protocol):
    """The edges of trees: what two trees' edges are together, and making one tree of two."""

    def of_class(self, number: int) -> Any:
        """Return the edges of one class."""

    def rate(self, a: Any) -> float:
        """Return the edges per second."""

    def rate_of_union(self, a: Any, b: Any) -> float:
        """Return the edges per second of both together."""

    def union(self, a: Any, b: Any) -> Any:
        """Return the edges of both."""


def weave_counted(
    problem: Problem, counter: str, lookup: bool, bitmap: bool, smaller: bool, seconds: float = inf
) -> np.ndarray:
    """Return the tree of each class, as the compiled greedy does, by a counter; within ``seconds``."""
    return weave_sets(problem, find_sets(problem, counter, bitmap, smaller), lookup, seconds)


def weave_sets(problem: Problem, sets: EdgeSets, lookup: bool = True, seconds: float = inf) -> np.ndarray:
    """Return the same with edges kept in any way."""
    edges = [sets.of_class(i) for i in range(len(problem))]
    loads = problem.loads.copy()
    label = np.arange(len(problem))
    alive = list(range(len(problem)))
    saved = np.full((len(problem), len(problem)), -inf)
    price, code = problem.price, problem.code
    end = time.process_time() + seconds

    def cost(rate: float, i: int, more: np.ndarray = NO_LOAD) -> float:
        return float(price.combine * final_operations(code, rate, loads[i], more))

    def compare(i: int, j: int) -> None:
        if time.process_time() > end:
            raise Unaffordable(f"weaving took more than {seconds} s", "use the common table")
        apart = cost(sets.rate(edges[i]), i) + cost(sets.rate(edges[j]), j)
        together = cost(sets.rate_of_union(edges[i], edges[j]), i, loads[j])
        saved[min(i, j), max(i, j)] = price.tree + apart - together

    for i, j in combinations(alive, 2):
        compare(i, j)
    while len(alive) > 1:
        i, j = map(int, np.unravel_index(np.argmax(saved), saved.shape))
        if saved[i, j] <= 0:
            break
        edges[i] = sets.union(edges[i], edges[j])
        add_load(loads[i], loads[j])
        label[label == j] = i
        alive.remove(j)
        saved[j] = saved[:, j] = -inf
        for a, b in combinations(alive, 2) if not lookup else ((i, k) for k in alive if k != i):
            compare(a, b)
    return label


def find_sets(problem: Problem, counter: str, bitmap: bool = True, smaller: bool = True) -> EdgeSets:
    """Return edges as a counter of this name keeps them."""
    if counter == "table":
        return Probed(problem, bitmap, smaller)
    if counter == "merged-f1":
        return Merged(problem)
    if counter in COUNTERS:
        return CountedEdges(problem, COUNTERS[counter])
    raise QueryError(
        f"no counter is called {counter!r}", hint=f"choose table or one of {', '.join(COUNTERS)}"
    )


def _progressions(problem: Problem, number: int) -> frozenset[Progression]:
    return frozenset(problem.edges[np.array([number])].progressions())


class CountedEdges:
    """Progressions, counted afresh for every pair."""

    def __init__(self, problem: Problem, count: Counter) -> None:
        self.problem, self.count = problem, count
        self.rates: dict[frozenset[Progression], float] = {}

    def of_class(self, number: int) -> frozenset[Progression]:
        """Return the edges of one class."""
        return _progressions(self.problem, number)

    def rate(self, a: frozenset[Progression]) -> float:
        """Return the edges per second."""
        if a not in self.rates:
            self.rates[a] = float(self.count(a) * SECOND)
        return self.rates[a]

    def rate_of_union(self, a: frozenset[Progression], b: frozenset[Progression]) -> float:
        """Return the edges per second of both together."""
        return float(self.count(a | b) * SECOND)

    def union(self, a: frozenset[Progression], b: frozenset[Progression]) -> frozenset[Progression]:
        """Return the edges of both."""
        return a | b


class Merged:
    """The terms of merged F1; a pair is compared from the terms of both."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.clock = common_unit(problem.edges.progressions())

    def of_class(self, number: int) -> MergedF1:
        """Return the edges of one class."""
        return MergedF1.of(_progressions(self.problem, number), clock=self.clock)

    def rate(self, a: MergedF1) -> float:
        """Return the edges per second."""
        return float(a.rate) * SECOND

    def rate_of_union(self, a: MergedF1, b: MergedF1) -> float:
        """Return the edges per second of both together."""
        return float(a.rate_with(b)) * SECOND

    def union(self, a: MergedF1, b: MergedF1) -> MergedF1:
        """Return the edges of both."""
        return a.union(b)


class Probed:
    """Edges as a list of instants of the common table, a bitmap over them, and the progressions.

    A tree is ``(rate, places of its edges, bitmap, periods, residues)``.
    """

    def __init__(self, problem: Problem, bitmap: bool, smaller: bool) -> None:
        self.table, self.bitmap, self.smaller = problem.table, bitmap, smaller

    def of_class(self, number: int) -> tuple[Any, ...]:
        """Return the edges of one class."""
        table = self.table
        marks = np.unpackbits(table.bits[number].view(np.uint8), bitorder="little")[: table.instants.size]
        ticks = table.ticks
        periods, residues = np.repeat(ticks.periods[number], 2), ticks.residues[number]
        return float(table.rates[number]), np.flatnonzero(marks), marks.astype(np.bool_), periods, residues

    def rate(self, a: tuple[Any, ...]) -> float:
        """Return the edges per second."""
        return float(a[0])

    def rate_of_union(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> float:
        """Return the edges per second of both together."""
        return float(union_rate(a[0], a[1].size, b[0], b[1].size, self._common(a, b)))

    def union(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the edges of both."""
        marks = a[2] | b[2]
        periods, residues = np.concatenate([a[3], b[3]]), np.concatenate([a[4], b[4]])
        return self.rate_of_union(a, b), np.flatnonzero(marks), marks, periods, residues

    def _common(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
        if self.smaller and a[1].size < b[1].size:
            a, b = b, a
        if self.bitmap:
            return int(_probe(a[2], b[1]))
        return int(_divide(a[3], a[4], self.table.instants[b[1]]))


@njit(cache=True, nogil=True)
def _probe(marks, places):  # type: ignore[no-untyped-def]
    common = 0
    for place in places:
        common += marks[place]
    return common


@njit(cache=True, nogil=True)
def _divide(periods, residues, instants):  # type: ignore[no-untyped-def]
    common = 0
    for instant in instants:
        for k in range(periods.size):
            if (instant - residues[k]) % periods[k] == 0:
                common += 1
                break
    return common
