"""TwoStacks: a queue made of two stacks, each knowing the total of what is in it.

New partials go on the back stack. What leaves is popped from the front stack, and where that is empty the
back stack is flipped onto it. Front total and back total together are the answer.
K. Tangwongsan, M. Hirzel, S. Schneider: Low-Latency Sliding-Window Aggregation in Worst-Case Constant Time.
DEBS 2017 (after adamax, Stack Overflow 2011).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from weft.final.algebra import combine, load, store
from weft.final.card import Card
from weft.final.kernels import compile_kernel
from weft.final.technique import ChainTechnique, Kernel, longest, ring_size
from weft.final.window import CopyPerQuery, SingleQuery

CARD = Card(
    title="TwoStacks",
    paper="Tangwongsan, Hirzel, Schneider: Low-Latency Sliding-Window Aggregation. DEBS 2017",
    amortised="3",
    worst="n",
    all_queries="3n, with one copy per query",
    space="2n",
)


class TwoStacksCopy(SingleQuery):
    """The two stacks of one query."""

    def __init__(self, owner: CopyPerQuery, capacity: int) -> None:
        super().__init__(owner, capacity)
        # front[i] is the total from its partial to the newest in front; the oldest is on top, at the end.
        self.front: list[np.ndarray] = []
        self.back: list[np.ndarray] = []
        self.total: np.ndarray | None = None

    @property
    def memory(self) -> int:
        return 2 * self.size

    def insert(self, partial: np.ndarray) -> None:
        self.back.append(partial)
        self.total = self.combine(self.total, partial)

    def evict(self) -> None:
        if not self.front:
            total = None
            while self.back:
                total = self.combine(self.back.pop(), total)
                self.front.append(total)
            self.total = None
        self.front.pop()

    def newest(self, n: int) -> np.ndarray:
        if n > len(self.back):
            return self.combine(self.front[n - len(self.back) - 1], self.total)
        if n == len(self.back):
            return self.combine(self.total, None)
        total = None
        for partial in self.back[len(self.back) - n :]:
            total = self.combine(total, partial)
        return self.combine(total, None)


class TwoStacksWindow(CopyPerQuery):
    """Two stacks per query.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> window = TwoStacksWindow(Monoid(MAX, 1), windows=[3])
    >>> for value in (6, 5, 0):
    ...     window.insert(np.array([[value]]))
    >>> window.evict()
    >>> window.query(2).tolist(), window.operations
    ([[5]], 4)
    """

    card = CARD
    copy = TwoStacksCopy


class TwoStacks(ChainTechnique):
    """Two stacks along each chain of runs; the back stack is only its total, its partials being the states.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> states = np.array([[6], [5], [0], [1]])
    >>> TwoStacks(Monoid(MAX, 1), states).answer(np.array([0, 1]), np.array([3, 4])).ravel().tolist()
    [6, 5]
    """

    name = "twostacks"
    card = CARD
    window = TwoStacksWindow

    @staticmethod
    @cache
    def answer_kernel(code: int, width: int) -> Kernel:
        @compile_kernel
        def answer(states, low, high, order, chains, neutral, out):  # type: ignore[no-untyped-def]
            ring = ring_size(longest(low, high))
            front = np.empty(ring * width, np.int64)
            for c in range(chains.size - 1):
                total = load(width, neutral, 0)
                # The front stack holds [.., middle), the back stack [middle, end).
                middle = end = 0
                for k in range(chains[c], chains[c + 1]):
                    run = order[k]
                    if low[run] < middle:
                        for i in range(end, high[run]):
                            total = combine(code, total, load(width, states, i))
                        older = load(width, front, low[run] & (ring - 1))
                        store(width, out, run, combine(code, older, total))
                    else:
                        total = load(width, neutral, 0)
                        for i in range(high[run] - 1, low[run] - 1, -1):
                            total = combine(code, load(width, states, i), total)
                            store(width, front, i & (ring - 1), total)
                        store(width, out, run, total)
                        total = load(width, neutral, 0)
                        middle = high[run]
                    end = high[run]

        return answer
