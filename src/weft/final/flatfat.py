"""FlatFAT: a complete binary tree over a ring of partials, in one flat array: node i has children 2i, 2i+1.

Inserting recomputes the path from the leaf to the root; a query combines the few nodes that tile its range.
K. Tangwongsan, M. Hirzel, S. Schneider, K.-L. Wu: General Incremental Sliding-Window Aggregation. PVLDB 2015.
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
    title="FlatFAT",
    paper="Tangwongsan, Hirzel, Schneider, Wu: General Incremental Sliding-Window Aggregation. PVLDB 2015",
    amortised="log2 n",
    worst="log2 n; 3 log2 n if n is no power of two",
    all_queries="n log2 n",
    space="2 * 2^ceil(log2 n)",
    erratum=(
        "The root answers the whole window only where the order does not matter: for a combine that is not "
        "commutative a ring that has wrapped costs up to 2 log2 n more, oldest lap first."
    ),
)


class FlatFATWindow(SlidingWindow):
    """A tree whose leaves are a ring.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> window = FlatFATWindow(Monoid(MAX, 1), windows=[4])
    >>> for value in (6, 5, 0, 1):
    ...     window.insert(np.array([[value]]))
    >>> window.query(4).tolist(), window.operations
    ([[6]], 8)
    """

    card = CARD

    def __init__(self, monoid: Monoid, windows: Iterable[int]) -> None:
        super().__init__(monoid, windows)
        self.leaves = ring_size(self.capacity)
        self.tree: list[np.ndarray] = [monoid.identity(1)] * (2 * self.leaves)

    @property
    def memory(self) -> int:
        return len(self.tree)

    def _insert(self, partial: np.ndarray) -> None:
        node = self.leaves + self.end % self.leaves
        self.tree[node] = partial
        while node > 1:
            node //= 2
            self.tree[node] = self.combine(self.tree[2 * node], self.tree[2 * node + 1])

    def _query(self, n: int) -> np.ndarray:
        if n == self.leaves and self.monoid.commutative:
            return self.tree[1]
        at, answer = self.end - n, None
        while at < self.end:
            lap_end = min(self.end, (at // self.leaves + 1) * self.leaves)
            answer = self.combine(answer, self._span(at % self.leaves, at % self.leaves + lap_end - at))
            at = lap_end
        return self.combine(answer, None)

    def _span(self, low: int, high: int) -> np.ndarray:
        """The leaves ``[low, high)``, climbing from both ends."""
        left: np.ndarray | None = None
        right: np.ndarray | None = None
        low, high = low + self.leaves, high + self.leaves
        while low < high:
            if low % 2:
                left = self.combine(left, self.tree[low])
                low += 1
            if high % 2:
                high -= 1
                right = self.combine(self.tree[high], right)
            low, high = low // 2, high // 2
        return self.combine(left, right)


class FlatFAT(Technique):
    """One tree for the runs of all queries.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> states = np.array([[6], [5], [0], [1]])
    >>> FlatFAT(Monoid(MAX, 1), states).answer(np.array([0, 1]), np.array([3, 4])).ravel().tolist()
    [6, 5]
    """

    name = "flatfat"
    card = CARD
    window = FlatFATWindow

    @staticmethod
    @cache
    def answer_kernel(code: int, width: int) -> Kernel:
        @compile_kernel
        def answer(states, low, high, order, neutral, out):  # type: ignore[no-untyped-def]
            leaves = ring_size(longest(low, high))
            tree = np.zeros(2 * leaves * width, np.int64)
            end = 0
            for run in order:
                for i in range(end, high[run]):
                    insert(code, width, tree, leaves, i, load(width, states, i))
                end = high[run]
                store(width, out, run, query(code, width, tree, leaves, neutral, low[run], end))

        return answer


@inlined
def insert(code, width, tree, leaves, position, state):  # type: ignore[no-untyped-def]
    """Replace the leaf at a position, and recompute the path to the root."""
    node = leaves + (position & (leaves - 1))
    total = state
    store(width, tree, node, total)
    while node > 1:
        sibling = load(width, tree, node ^ 1)
        if node & 1:
            total = combine(code, sibling, total)
        else:
            total = combine(code, total, sibling)
        node >>= 1
        store(width, tree, node, total)


@inlined
def query(code, width, tree, leaves, neutral, low, high):  # type: ignore[no-untyped-def]
    """Return the partials ``[low, high)`` combined: the nodes that tile them."""
    total = load(width, neutral, 0)
    at = low
    while at < high:
        # A lap of the ring at a time: in the tree, slots are in the order of time only within a lap.
        stop = min(high, (at | (leaves - 1)) + 1)
        a = leaves + (at & (leaves - 1))
        b = a + stop - at
        right = load(width, neutral, 0)
        while a < b:
            if a & 1:
                total = combine(code, total, load(width, tree, a))
                a += 1
            if b & 1:
                b -= 1
                right = combine(code, load(width, tree, b), right)
            a >>= 1
            b >>= 1
        total = combine(code, total, right)
        at = stop
    return total
