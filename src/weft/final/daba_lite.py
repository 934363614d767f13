"""DABA Lite: DABA with one value per partial instead of two, and two totals beside the queue.

    first    left      right     a        b       end
      |  to b  | to right | itself | to b | itself |      what each value of the queue covers

``middle`` is the total from right to b while left is on its way to right, ``back`` the total from b to end.
K. Tangwongsan, M. Hirzel, S. Schneider: In-Order Sliding-Window Aggregation in Worst-Case Constant Time.
VLDB Journal 2021.
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
    title="DABA Lite",
    paper="Tangwongsan, Hirzel, Schneider: In-Order Sliding-Window Aggregation. VLDB Journal 2021",
    amortised="4",
    worst="6",
    all_queries="4n, with one copy per query",
    space="n + 2",
)


class DABALiteCopy(SingleQuery):
    """The queue of one query, its borders and its two totals."""

    def __init__(self, owner: CopyPerQuery, capacity: int) -> None:
        super().__init__(owner, capacity)
        self.queue: list[np.ndarray] = [owner.monoid.identity(1)] * capacity
        self.middle: np.ndarray | None = None
        self.back: np.ndarray | None = None
        self.first = self.left = self.right = self.a = self.b = self.end = 0

    @property
    def memory(self) -> int:
        return self.size + 2

    def insert(self, partial: np.ndarray) -> None:
        self.queue[self.end % self.capacity] = partial
        self.back = self.combine(self.back, partial)
        self.end += 1
        self._step()

    def evict(self) -> None:
        self.first += 1
        self._step()

    def newest(self, n: int) -> np.ndarray:
        total, at = None, self.end - n
        while at < self.end:
            if at == self.b:
                return self.combine(total, self.back)
            total = self.combine(total, self.queue[at % self.capacity])
            at = self._covered(at)
        return self.combine(total, None)

    def _covered(self, at: int) -> int:
        """Return the end of what the value at a position covers: see the picture above."""
        if at < self.left or self.a <= at < self.b:
            return self.b
        return self.right if at < self.right else at + 1

    def _step(self) -> None:
        if self.left == self.b:
            self.left, self.right, self.a, self.b = self.first, self.b, self.end, self.end
            self.middle, self.back = self.back, None
        if self.first == self.b:
            self.middle = self.back = None
            return
        if self.a != self.right:
            self.a -= 1
            newer = self.queue[(self.a + 1) % self.capacity] if self.a + 1 != self.b else None
            self.queue[self.a % self.capacity] = self.combine(self.queue[self.a % self.capacity], newer)
        if self.left != self.right:
            self.queue[self.left % self.capacity] = self.combine(
                self.queue[self.left % self.capacity], self.middle
            )
            self.left += 1
        else:
            self.left, self.right, self.a = self.left + 1, self.right + 1, self.a + 1
            self.middle = self.queue[self.a % self.capacity] if self.a != self.b else None


class DABALiteWindow(CopyPerQuery):
    """One queue per query.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> window = DABALiteWindow(Monoid(MAX, 1), windows=[3])
    >>> for value in (6, 5, 0):
    ...     window.insert(np.array([[value]]))
    >>> window.evict()
    >>> window.query(2).tolist()
    [[5]]
    """

    card = CARD
    copy = DABALiteCopy


class DABALite(ChainTechnique):
    """One queue along each chain of runs.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> states = np.array([[6], [5], [0], [1]])
    >>> DABALite(Monoid(MAX, 1), states).answer(np.array([0, 1]), np.array([3, 4])).ravel().tolist()
    [6, 5]
    """

    name = "daba_lite"
    card = CARD
    window = DABALiteWindow

    @staticmethod
    @cache
    def answer_kernel(code: int, width: int) -> Kernel:
        @compile_kernel
        def answer(states, low, high, order, chains, neutral, out):  # type: ignore[no-untyped-def]
            queue = np.empty(ring_size(longest(low, high)) * width, np.int64)
            for c in range(chains.size - 1):
                borders = (0, 0, 0, 0, 0, 0)
                middle = back = load(width, neutral, 0)
                for k in range(chains[c], chains[c + 1]):
                    run = order[k]
                    borders, middle, back = _advance(
                        code, width, states, queue, neutral, borders, middle, back, low[run], high[run]
                    )
                    store(width, out, run, query(code, width, queue, borders, back))

        return answer


@inlined
def _advance(code, width, states, queue, neutral, borders, middle, back, low, high):  # type: ignore[no-untyped-def]  # noqa: PLR0913 (arrays of a kernel)
    """Evict the partials before ``low``, insert those before ``high``; a step of the flip with each."""
    if low >= borders[5]:
        borders = (low, low, low, low, low, low)
        middle = back = load(width, neutral, 0)
    while borders[5] < high or borders[0] < low:
        if borders[0] < low:
            borders = evict(borders)
        else:
            borders, back = insert(code, width, queue, borders, back, load(width, states, borders[5]))
        borders, middle, back = step(code, width, queue, neutral, borders, middle, back)
    return borders, middle, back


@inlined
def insert(code, width, queue, borders, back, state):  # type: ignore[no-untyped-def]
    """Add a partial at the end of the queue."""
    first, left, right, a, b, end = borders
    store(width, queue, end & (queue.size // width - 1), state)
    return (first, left, right, a, b, end + 1), combine(code, back, state)


@inlined
def evict(borders):  # type: ignore[no-untyped-def]
    """Drop the oldest partial of the queue."""
    first, left, right, a, b, end = borders
    return first + 1, left, right, a, b, end


@inlined
def step(code, width, queue, neutral, borders, middle, back):  # type: ignore[no-untyped-def]
    """Move the borders by one place."""
    mask = queue.size // width - 1
    first, left, right, a, b, end = borders
    if left == b:
        left, right, a, b = first, b, end, end
        middle = back
        back = load(width, neutral, 0)
    if first == b:
        middle = back = load(width, neutral, 0)
        return (first, left, right, a, b, end), middle, back
    if a != right:
        total = load(width, queue, (a - 1) & mask)
        if a != b:
            total = combine(code, total, load(width, queue, a & mask))
        a -= 1
        store(width, queue, a & mask, total)
    if left != right:
        store(width, queue, left & mask, combine(code, load(width, queue, left & mask), middle))
        left += 1
    else:
        left, right, a = left + 1, right + 1, a + 1
        middle = load(width, neutral, 0)
        if a != b:
            middle = load(width, queue, a & mask)
    return (first, left, right, a, b, end), middle, back


@inlined
def query(code, width, queue, borders, back):  # type: ignore[no-untyped-def]
    """Return the whole queue combined: the totals of front list and back list."""
    first, b = borders[0], borders[4]
    if first == b:
        return back
    return combine(code, load(width, queue, first & (queue.size // width - 1)), back)
