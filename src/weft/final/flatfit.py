"""FlatFIT: a ring of partials, each with a pointer to where its total ends; a query hops along the pointers.

On the way back every partial it hopped over, but the first, takes over the total to the newest one.
A. U. Shein, P. K. Chrysanthis, A. Labrinidis: FlatFIT: Accelerated Incremental Sliding-Window Aggregation For
Real-Time Analytics. SSDBM 2017; A. U. Shein, dissertation, University of Pittsburgh 2019, chapter 3.
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
    title="FlatFIT",
    paper="Shein, Chrysanthis, Labrinidis: FlatFIT. SSDBM 2017",
    amortised="3",
    worst="n",
    all_queries="3n",
    space="2n",
    erratum=(
        "The pseudocode pops an empty stack when a query is one hop, which costs nothing, and combines "
        "newest first; asked for all queries, the widest first, it needs n-1 operations per slide and not 3n."
    ),
)


class FlatFITWindow(SlidingWindow):
    """A weighted jump table over a ring.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> window = FlatFITWindow(Monoid(MAX, 1), windows=[5, 2])
    >>> for value in (2, 4, 0):
    ...     window.insert(np.array([[value]]))
    >>> window.query(3).tolist(), window.query(2).tolist(), window.operations
    ([[4]], [[4]], 2)
    """

    card = CARD

    def __init__(self, monoid: Monoid, windows: Iterable[int]) -> None:
        super().__init__(monoid, windows)
        self.partials: list[np.ndarray] = [monoid.identity(1)] * self.capacity
        self.pointers = [0] * self.capacity

    @property
    def memory(self) -> int:
        return 2 * self.capacity

    def _insert(self, partial: np.ndarray) -> None:
        self.partials[self.end % self.capacity] = partial
        self.pointers[self.end % self.capacity] = self.end + 1

    def _query(self, n: int) -> np.ndarray:
        at, positions = self.end - n, []
        while at != self.end:
            positions.append(at % self.capacity)
            at = self.pointers[at % self.capacity]
        answer = self.partials[positions.pop()]
        for number, slot in enumerate(reversed(positions), 1):
            answer = self.combine(self.partials[slot], answer)
            if number < len(positions):
                self.partials[slot], self.pointers[slot] = answer, self.end
        return answer


class FlatFIT(Technique):
    """One jump table for the runs of all queries.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> states = np.array([[6], [5], [0], [1]])
    >>> FlatFIT(Monoid(MAX, 1), states).answer(np.array([0, 1]), np.array([3, 4])).ravel().tolist()
    [6, 5]
    """

    name = "flatfit"
    card = CARD
    window = FlatFITWindow

    @staticmethod
    @cache
    def answer_kernel(code: int, width: int) -> Kernel:
        @compile_kernel
        def answer(states, low, high, order, neutral, out):  # type: ignore[no-untyped-def]
            ring = ring_size(longest(low, high))
            partials = np.empty(ring * width, np.int64)
            pointers, stack = np.empty(ring, np.int64), np.empty(ring, np.int64)
            end = 0
            for run in order:
                for i in range(end, high[run]):
                    store(width, partials, i & (ring - 1), load(width, states, i))
                    pointers[i & (ring - 1)] = i + 1
                end = high[run]
                store(width, out, run, query(code, width, partials, pointers, stack, low[run], end))

        return answer


@inlined
def query(code, width, partials, pointers, stack, low, high):  # type: ignore[no-untyped-def]
    """Return the partials ``[low, high)`` combined: hop along the pointers, and shorten the way behind."""
    mask = pointers.size - 1
    depth = 0
    at = low
    following = pointers[np.uint64(at & mask)]
    while following != high:
        stack[np.uint64(depth)] = at & mask
        depth += 1
        at = following
        following = pointers[np.uint64(at & mask)]
    total = load(width, partials, at & mask)
    while depth > 1:
        depth -= 1
        slot = stack[np.uint64(depth)]
        total = combine(code, load(width, partials, slot), total)
        store(width, partials, slot, total)
        pointers[np.uint64(slot)] = high
    if depth == 1:
        total = combine(code, load(width, partials, stack[0]), total)
    return total
