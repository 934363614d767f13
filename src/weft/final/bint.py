"""B-Int: base intervals of 1, 2, 4... partials; an interval is built once, when its last partial arrives.

A query combines, oldest first, the widest intervals that tile its range.
A. Arasu, J. Widom: Resource Sharing in Continuous Sliding-Window Aggregates. VLDB 2004.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np

from weft.aggregates.monoid import Monoid
from weft.final.algebra import combine, load, store
from weft.final.card import Card
from weft.final.kernels import compile_kernel, inlined
from weft.final.technique import Kernel, Technique, longest, ring_size
from weft.final.window import SlidingWindow

CARD = Card(
    title="B-Int",
    paper="Arasu, Widom: Resource Sharing in Continuous Sliding-Window Aggregates. VLDB 2004",
    amortised="log2 n",
    worst="log2 n; 3 log2 n if n is no power of two",
    all_queries="n log2 n",
    space="2 * 2^ceil(log2 n)",
)


class BIntWindow(SlidingWindow):
    """Rings of base intervals, one ring per level.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> window = BIntWindow(Monoid(MAX, 1), windows=[4])
    >>> for value in (6, 5, 0, 1):
    ...     window.insert(np.array([[value]]))
    >>> window.query(4).tolist(), window.query(3).tolist(), window.operations
    ([[6]], [[5]], 4)
    """

    card = CARD

    def __init__(self, monoid: Monoid, windows: Iterable[int]) -> None:
        super().__init__(monoid, windows)
        leaves = ring_size(self.capacity)
        # Interval i of level l covers the partials from i * 2^l on; its ring has leaves / 2^l slots.
        self.levels = [[monoid.identity(1)] * (leaves >> level) for level in range(leaves.bit_length())]

    @property
    def memory(self) -> int:
        return sum(map(len, self.levels)) + 1

    def _insert(self, partial: np.ndarray) -> None:
        at, level = self.end, 0
        self.levels[0][at % len(self.levels[0])] = partial
        while at % 2 and level + 1 < len(self.levels):
            below, level = self.levels[level], level + 1
            both = self.combine(below[(at - 1) % len(below)], below[at % len(below)])
            at //= 2
            self.levels[level][at % len(self.levels[level])] = both

    def _query(self, n: int) -> np.ndarray:
        at, level, answer = self.end - n, 0, None
        while at < self.end:
            while level + 1 < len(self.levels) and at % (2 << level) == 0 and at + (2 << level) <= self.end:
                level += 1
            while at + (1 << level) > self.end:
                level -= 1
            ring = self.levels[level]
            answer = self.combine(answer, ring[(at >> level) % len(ring)])
            at += 1 << level
        return self.combine(answer, None)


class BInt(Technique):
    """One set of intervals for the runs of all queries.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> states = np.array([[6], [5], [0], [1]])
    >>> BInt(Monoid(MAX, 1), states).answer(np.array([0, 1]), np.array([3, 4])).ravel().tolist()
    [6, 5]
    """

    name = "bint"
    card = CARD
    window = BIntWindow

    @staticmethod
    @cache
    def answer_kernel(code: int, width: int) -> Kernel:
        @compile_kernel
        def answer(states, low, high, order, neutral, out):  # type: ignore[no-untyped-def]
            leaves = ring_size(longest(low, high))
            nodes = np.zeros(2 * leaves * width, np.int64)
            end = 0
            for run in order:
                for i in range(end, high[run]):
                    insert(code, width, nodes, leaves, i, load(width, states, i))
                end = high[run]
                store(width, out, run, query(code, width, nodes, leaves, neutral, low[run], end))

        return answer


# All levels are in one array, laid out as a tree: a ring of so many slots starts at just that index.


@inlined
def insert(code, width, nodes, leaves, position, state):  # type: ignore[no-untyped-def]
    """Add a partial, and build the intervals that end with it."""
    node = leaves + (position & (leaves - 1))
    total = state
    store(width, nodes, node, total)
    # A right child completes its parent.
    while node & 1 and node > 1:
        total = combine(code, load(width, nodes, node - 1), total)
        node >>= 1
        store(width, nodes, node, total)


@inlined
def query(code, width, nodes, leaves, neutral, low, high):  # type: ignore[no-untyped-def]
    """Return the partials ``[low, high)`` combined: the widest intervals that tile them."""
    total = load(width, neutral, 0)
    at = low
    level, span = 0, 1
    # Climb: an interval that does not begin with its parent is taken. Then descend towards the end.
    while at + span <= high:
        if at & span:
            total = combine(code, total, load(width, nodes, (leaves + (at & (leaves - 1))) >> level))
            at += span
        level += 1
        span += span
    while level > 0:
        level -= 1
        span >>= 1
        if at + span <= high:
            total = combine(code, total, load(width, nodes, (leaves + (at & (leaves - 1))) >> level))
            at += span
    return total
