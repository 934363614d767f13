"""The problem of a strategy and its solution: classes of queries in, a tree and a node for each out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit

from weft.planning.cost.load import loads_of
from weft.planning.cost.omega import find_omega, omega
from weft.planning.cost.price import Price
from weft.planning.table import EdgeTable, edge_table
from weft.planning.windows import SECOND, Edges, Windows
from weft.slicing.rate import measure_rate

MAX_COMPARED_CLASSES = 1024
"""Classes compared each with each at most; more are woven in blocks."""


class TreeArrays(NamedTuple):
    """Trees as kernels take them, a row each: edges as bits, the bits set, edges per second, and loads."""

    bits: np.ndarray
    counts: np.ndarray
    rates: np.ndarray
    loads: np.ndarray


class TreePrice(NamedTuple):
    """The price of trees as kernels take it: the technique's number, per tree, and per final operation."""

    code: int
    tree: float
    combine: float


@dataclass(frozen=True, eq=False)
class Problem:
    """Classes of queries to be put into trees on nodes, at a price.

    ``class_of`` is each query's class; ``edges`` and ``loads`` are per class; ``capacities`` per node, as
    shares of the largest. All queries of a class have the same edges.
    """

    windows: Windows
    class_of: np.ndarray
    edges: Edges
    loads: np.ndarray
    price: Price
    technique: str
    capacities: np.ndarray
    seed: int = 0

    @classmethod
    def of(
        cls,
        windows: Windows,
        price: Price,
        technique: str = "recompute",
        capacities: Sequence[float] = (1.0,),
        slicer: str = "pairs",
        merge: bool = True,
        seed: int = 0,
    ) -> Problem:
        """Return the problem of these windows; without ``merge`` each query is a class of its own."""
        edges = Edges.of(windows, slicer)
        first, class_of = edges.classes() if merge else (np.arange(len(edges)), np.arange(len(edges)))
        ranges, slides = windows.ranges / SECOND, windows.slides / SECOND
        loads = loads_of(ranges, slides, class_of, len(first))
        shares = np.asarray(capacities, dtype=np.float64) / np.max(capacities)
        return cls(windows, class_of, edges[first], loads, price, technique, shares, seed)

    def __len__(self) -> int:
        return len(self.edges)

    def merged(self) -> Problem:
        """Return the same queries with those of equal edges in one class."""
        edges = self.edges[self.class_of]
        first, class_of = edges.classes()
        if len(first) == len(self):
            return self
        ranges, slides = self.windows.ranges / SECOND, self.windows.slides / SECOND
        loads = loads_of(ranges, slides, class_of, len(first))
        return replace(self, class_of=class_of, edges=edges[first], loads=loads)

    def priced(self, price: Price) -> Problem:
        """Return the same problem at another price."""
        other = replace(self, price=price)
        if "table" in self.__dict__:
            other.__dict__["table"] = self.table
        return other

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.capacities.size

    @property
    def code(self) -> int:
        """The technique's number in the kernels."""
        return find_omega(self.technique).code

    @cached_property
    def table(self) -> EdgeTable:
        """The edges of all classes over common instants."""
        return edge_table(self.edges, min(len(self), MAX_COMPARED_CLASSES), self.seed)

    @property
    def class_trees(self) -> TreeArrays:
        """Each class as a tree of its own."""
        return TreeArrays(self.table.bits, self.table.counts, self.table.rates, self.loads)

    @property
    def tree_price(self) -> TreePrice:
        """The price of trees, for kernels."""
        return TreePrice(self.code, self.price.tree, self.price.combine)

    @property
    def random(self) -> np.random.Generator:
        """Random numbers of this problem: the same for the same seed."""
        return np.random.default_rng(self.seed)

    def costs(self, grouping: TreeAssignment) -> PlanCosts:
        """Return the costs of a grouping, from every query: exact wherever the edge rates are."""
        tree_of_query = grouping.tree_of[self.class_of]
        order = np.argsort(tree_of_query, kind="stable")
        starts = np.searchsorted(tree_of_query[order], np.arange(grouping.trees + 1))
        rates = self._rates(grouping)
        windows = self.windows[order]
        omegas = _omegas(self.code, rates, windows.ranges / SECOND, windows.slides / SECOND, starts)
        answers = np.bincount(tree_of_query, SECOND / self.windows.slides, grouping.trees)
        price = self.price
        trees_on = np.bincount(grouping.node_of, minlength=self.nodes)
        pays = (trees_on[grouping.node_of] > 1) | (not price.lone_free)
        costs = price.tree * pays + price.combine * rates * omegas + price.answer * answers
        nodes = np.bincount(grouping.node_of, costs, self.nodes) + price.node * (trees_on > 0)
        return PlanCosts(rates, costs, nodes, float(price.base + nodes.sum()))

    def _rates(self, grouping: TreeAssignment) -> np.ndarray:
        """Return the edges per second of each tree."""
        members = np.bincount(grouping.tree_of, minlength=grouping.trees)
        rates = np.zeros(grouping.trees)
        rates[grouping.tree_of] = self.edges.rates
        order = np.argsort(grouping.tree_of, kind="stable")
        starts = np.concatenate([[0], np.cumsum(members)])
        joined = np.flatnonzero(members > 1)
        effort = min(1.0, 20 / max(len(joined), 1))
        for tree in joined.tolist():
            classes = order[starts[tree] : starts[tree + 1]]
            rates[tree] = measure_rate(self.edges[classes].progressions(), effort).value * SECOND
        return rates


@dataclass(frozen=True, eq=False)
class TreeAssignment:
    """The tree of each class, counted from 0, and the node of each tree."""

    tree_of: np.ndarray
    node_of: np.ndarray

    @classmethod
    def of(cls, labels: np.ndarray, node_of_label: np.ndarray | None = None) -> TreeAssignment:
        """Make it from any numbers that tell trees apart; trees are numbered in order of their first class.

        >>> TreeAssignment.of(np.array([7, 3, 7])).tree_of.tolist()
        [0, 1, 0]
        """
        names, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(order.size, dtype=np.int64)
        rank[order] = np.arange(order.size)
        nodes = np.zeros(names.size, np.int64) if node_of_label is None else node_of_label[names[order]]
        return cls(rank[inverse.ravel()], np.asarray(nodes, dtype=np.int64))

    @property
    def trees(self) -> int:
        """The number of trees."""
        return self.node_of.size

    def on(self, node_of: np.ndarray) -> TreeAssignment:
        """Return the same trees on other nodes."""
        return TreeAssignment(self.tree_of, np.asarray(node_of, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class PlanCosts:
    """Edges per second and cost of each tree, cost of each node, and the total with what is paid once."""

    edges: np.ndarray
    trees: np.ndarray
    nodes: np.ndarray
    total: float

    def largest(self, capacities: np.ndarray) -> float:
        """Return the cost of the busiest node, for its capacity."""
        return float((self.nodes / capacities).max())


@njit(cache=True, nogil=True)
def _omegas(code, rates, ranges, slides, starts):  # type: ignore[no-untyped-def]
    omegas = np.zeros(rates.size)
    for tree in range(rates.size):
        low, high = starts[tree], starts[tree + 1]
        omegas[tree] = omega(code, rates[tree], ranges[low:high], slides[low:high])
    return omegas
