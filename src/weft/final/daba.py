"""DABA: TwoStacks without the pause. The flip is done a little at a time, with every insert and evict.

The queue of partials is cut by four borders, the L, R, A and B of the paper:

    first    left      right       a        b       end
      |  to b  | to right | from right | to b | from b |      what each partial's total covers

The front list is [first, b), the back list [b, end). Each step moves the borders by one place, so that the
front list is finished (left = b) exactly when a new flip is due.
K. Tangwongsan, M. Hirzel, S. Schneider: Low-Latency Sliding-Window Aggregation in Worst-Case Constant Time.
DEBS 2017.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from weft.final.algebra import combine, load, store
from weft.final.card import Card
from weft.final.kernels import compile_kernel, inlined
from weft.final.technique import ChainTechnique, Kernel, longest, ring_size
from weft.final.window import CopyPerQuery, SingleQuery

CARD = Card(
    title="DABA",
    paper="Tangwongsan, Hirzel, Schneider: Low-Latency Sliding-Window Aggregation. DEBS 2017",
    amortised="5",
    worst="8",
    all_queries="5n, with one copy per query",
    space="2n",
)


class DABACopy(SingleQuery):
    """The queue of one query and its borders."""

    def __init__(self, owner: CopyPerQuery, capacity: int) -> None:
        super().__init__(owner, capacity)
        self.values: list[np.ndarray] = [owner.monoid.identity(1)] * capacity
        self.totals: list[np.ndarray] = self.values.copy()
        self.first = self.left = self.right = self.a = self.b = self.end = 0

    @property
    def memory(self) -> int:
        return 2 * self.size

    def insert(self, partial: np.ndarray) -> None:
        self.values[self.end % self.capacity] = partial
        self.totals[self.end % self.capacity] = self.combine(self._total(self.end - 1, self.b), partial)
        self.end += 1
        self._step()

    def evict(self) -> None:
        self.first += 1
        self._step()

    def newest(self, n: int) -> np.ndarray:
        at = self.end - n
        if self.first <= at < self.left or self.a <= at < self.b:
            return self.combine(self.totals[at % self.capacity], self._total(self.end - 1, self.b))
        if at == self.b:
            return self.totals[(self.end - 1) % self.capacity]
        total = None
        for i in range(at, self.end):
            total = self.combine(total, self.values[i % self.capacity])
        return self.combine(total, None)

    def _total(self, at: int, border: int) -> np.ndarray | None:
        """The total at a position, or None where its list, which begins at the border, is empty."""
        return self.totals[at % self.capacity] if at >= border else None

    def _step(self) -> None:
        if self.left == self.b:
            self.left, self.right, self.a, self.b = self.first, self.b, self.end, self.end
        if self.first == self.b:
            return
        if self.a != self.right:
            delta = self.totals[self.a % self.capacity] if self.a != self.b else None
            self.a -= 1
            self.totals[self.a % self.capacity] = self.combine(self.values[self.a % self.capacity], delta)
        if self.left != self.right:
            delta = self.totals[self.a % self.capacity] if self.a != self.b else None
            rest = self.combine(self._total(self.a - 1, self.right), delta)
            self.totals[self.left % self.capacity] = self.combine(
                self.totals[self.left % self.capacity], rest
            )
            self.left += 1
        else:
            self.left, self.right, self.a = self.left + 1, self.right + 1, self.a + 1


class DABAWindow(CopyPerQuery):
    """One queue per query.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> window = DABAWindow(Monoid(MAX, 1), windows=[3])
    >>> for value in (6, 5, 0):
    ...     window.insert(np.array([[value]]))
    >>> window.evict()
    >>> window.query(2).tolist()
    [[5]]
    """

    card = CARD
    copy = DABACopy


class DABA(ChainTechnique):
    """One queue along each chain of runs.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> states = np.array([[6], [5], [0], [1]])
    >>> DABA(Monoid(MAX, 1), states).answer(np.array([0, 1]), np.array([3, 4])).ravel().tolist()
    [6, 5]
    """

    name = "daba"
    card = CARD
    window = DABAWindow

    @staticmethod
    @cache
    def answer_kernel(code: int, width: int) -> Kernel:
        @compile_kernel
        def answer(states, low, high, order, chains, neutral, out):  # type: ignore[no-untyped-def]
            ring = ring_size(longest(low, high))
            values, totals = np.empty(ring * width, np.int64), np.empty(ring * width, np.int64)
            for c in range(chains.size - 1):
                borders = (0, 0, 0, 0, 0, 0)
                for k in range(chains[c], chains[c + 1]):
                    run = order[k]
                    borders = advance(code, width, states, values, totals, borders, low[run], high[run])
                    store(width, out, run, query(code, width, totals, neutral, borders))

        return answer


@inlined
def advance(code, width, states, values, totals, borders, low, high):  # type: ignore[no-untyped-def]
    """Evict the partials before ``low``, insert those before ``high``; a step of the flip with each."""
    mask = values.size // width - 1
    first, left, right, a, b, end = borders
    if low >= end:
        first = left = right = a = b = end = low
    while end < high or first < low:
        if first < low:
            first += 1
        else:
            newest = load(width, states, end)
            store(width, values, end & mask, newest)
            if b != end:
                newest = combine(code, load(width, totals, (end - 1) & mask), newest)
            store(width, totals, end & mask, newest)
            end += 1
        if left == b:
            left, right, a, b = first, b, end, end
        if first == b:
            continue
        if a != right:
            total = load(width, values, (a - 1) & mask)
            if a != b:
                total = combine(code, total, load(width, totals, a & mask))
            a -= 1
            store(width, totals, a & mask, total)
        if left != right:
            # From left to right, from right to a, from a to b: any but the first may be empty.
            total = load(width, totals, left & mask)
            if a != right:
                total = combine(code, total, load(width, totals, (a - 1) & mask))
            if a != b:
                total = combine(code, total, load(width, totals, a & mask))
            store(width, totals, left & mask, total)
            left += 1
        else:
            left, right, a = left + 1, right + 1, a + 1
    return first, left, right, a, b, end


@inlined
def query(code, width, totals, neutral, borders):  # type: ignore[no-untyped-def]
    """Return the whole queue combined: the totals of front list and back list."""
    mask = totals.size // width - 1
    first, _, _, _, b, end = borders
    total = load(width, neutral, 0)
    if first != b:
        total = load(width, totals, first & mask)
    if b != end:
        total = combine(code, total, load(width, totals, (end - 1) & mask))
    return total
