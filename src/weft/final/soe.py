"""Subtract-on-evict: a running total per query; what leaves is taken back. Needs an exact inverse.

Also Panes (Inv) and R-Int: J. Li et al., SIGMOD Record 2005; A. Arasu, J. Widom: Resource Sharing in
Continuous Sliding-Window Aggregates. VLDB 2004.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from itertools import islice

import numpy as np

from weft.final.algebra import combine, inverse, load, store
from weft.final.card import Card
from weft.final.kernels import compile_kernel
from weft.final.technique import ChainTechnique, Kernel
from weft.final.window import CopyPerQuery, SingleQuery

CARD = Card(
    title="subtract-on-evict",
    paper="Arasu, Widom: Resource Sharing in Continuous Sliding-Window Aggregates. VLDB 2004",
    amortised="2",
    worst="2",
    all_queries="2n, with one copy per query",
    space="n",
    needs=frozenset({"associative", "inverse"}),
)


class SubtractOnEvictCopy(SingleQuery):
    """The partials of one query, and their total."""

    def __init__(self, owner: CopyPerQuery, capacity: int) -> None:
        super().__init__(owner, capacity)
        self.partials: deque[np.ndarray] = deque()
        self.total = owner.monoid.identity(1)

    @property
    def memory(self) -> int:
        return len(self.partials) + 1

    def insert(self, partial: np.ndarray) -> None:
        self.partials.append(partial)
        self.total = self.combine(self.total, partial)

    def evict(self) -> None:
        self.total = self.inverse(self.total, self.partials.popleft())

    def newest(self, n: int) -> np.ndarray:
        total = self.total
        for partial in islice(self.partials, self.size - n):
            total = self.inverse(total, partial)
        return total


class SubtractOnEvictWindow(CopyPerQuery):
    """Add what arrives, subtract what leaves.

    >>> from weft.aggregates.monoid import ADD, Monoid
    >>> window = SubtractOnEvictWindow(Monoid(ADD, 1, invertible=True), windows=[2])
    >>> for value in (6, 5):
    ...     window.insert(np.array([[value]]))
    >>> window.evict()
    >>> window.query(1).tolist(), window.operations
    ([[5]], 3)
    """

    card = CARD
    copy = SubtractOnEvictCopy


class SubtractOnEvict(ChainTechnique):
    """A running total along each chain of runs.

    >>> from weft.aggregates.monoid import ADD, Monoid
    >>> states = np.array([[6], [5], [0], [1]])
    >>> technique = SubtractOnEvict(Monoid(ADD, 1, invertible=True), states)
    >>> technique.answer(np.array([0, 1]), np.array([3, 4])).ravel().tolist()
    [11, 6]
    """

    name = "soe"
    card = CARD
    window = SubtractOnEvictWindow

    @staticmethod
    @cache
    def answer_kernel(code: int, width: int) -> Kernel:
        @compile_kernel
        def answer(states, low, high, order, chains, neutral, out):  # type: ignore[no-untyped-def]
            for c in range(chains.size - 1):
                total = load(width, neutral, 0)
                first = end = 0
                for k in range(chains[c], chains[c + 1]):
                    run = order[k]
                    if low[run] >= end:
                        total = load(width, neutral, 0)
                        first = end = low[run]
                    for i in range(end, high[run]):
                        total = combine(code, total, load(width, states, i))
                    for i in range(first, low[run]):
                        total = inverse(code, total, load(width, states, i))
                    first, end = low[run], high[run]
                    store(width, out, run, total)

        return answer
