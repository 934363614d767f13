"""SlickDeque (Non-Inv): a deque of the partials that may still be an answer, for selective combines like max.

A partial that a newer one outdoes leaves at once, so values in the deque only get worse towards its tail and
the answer of a query is the oldest node that is in its range.
A. U. Shein, P. K. Chrysanthis, A. Labrinidis: SlickDeque: High Throughput and Low Latency Incremental
Sliding-Window Aggregation. EDBT 2018.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import cache

import numpy as np

from weft.aggregates.monoid import Monoid
from weft.final.algebra import combine, load, store
from weft.final.card import Card
from weft.final.kernels import compile_kernel, inlined
from weft.final.technique import Kernel, Technique, longest, ring_size, still_needed
from weft.final.window import SlidingWindow

CARD = Card(
    title="SlickDeque (Non-Inv)",
    paper="Shein, Chrysanthis, Labrinidis: SlickDeque. EDBT 2018",
    amortised="< 2",
    worst="n",
    all_queries="< 2, and one walk along the deque, the widest query first",
    space="2 to 2n",
    needs=frozenset({"associative", "selective"}),
    erratum=(
        "For independent values the deque has on average H_n nodes, the harmonic number (3.4 for n = 16, "
        "7.4 for 1024), not the sum of 1/i!, about 1.72. The pseudocode's start position is off by one, and "
        "positions wrap: here they increase."
    ),
)


class SlickDequeWindow(SlidingWindow):
    """One deque of (position, state) per group key: what leaves it depends on the data.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> window = SlickDequeWindow(Monoid(MAX, 1, selective=True), windows=[5, 3])
    >>> for value in (6, 5, 0, 1):
    ...     window.insert(np.array([[value]]))
    >>> window.query(4).tolist(), window.query(3).tolist(), window.operations
    ([[6]], [[5]], 4)
    """

    card = CARD

    def __init__(self, monoid: Monoid, windows: Iterable[int]) -> None:
        super().__init__(monoid, windows)
        self.deques: list[deque[tuple[int, np.ndarray]]] = []

    @property
    def memory(self) -> int:
        """For the key that has most."""
        return 2 * max(map(len, self.deques), default=0)

    def _insert(self, partial: np.ndarray) -> None:
        while len(self.deques) < len(partial):
            self.deques.append(deque())
        for nodes, state in zip(self.deques, partial[:, np.newaxis, :]):
            while nodes and np.array_equal(self.combine(nodes[-1][1], state), state):
                nodes.pop()
            nodes.append((self.end, state))

    def _evict(self) -> None:
        for nodes in self.deques:
            if nodes and nodes[0][0] == self.first:
                nodes.popleft()

    def _query(self, n: int) -> np.ndarray:
        missing = (self.end, self.monoid.identity(1))
        starts = (next((node for node in nodes if node[0] >= self.end - n), missing) for nodes in self.deques)
        return np.concatenate([self.monoid.identity(0), *(state for _, state in starts)])


class SlickDeque(Technique):
    """One deque for the runs of all queries.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> states = np.array([[6], [5], [0], [1]])
    >>> technique = SlickDeque(Monoid(MAX, 1, selective=True), states)
    >>> technique.answer(np.array([0, 1]), np.array([3, 4])).ravel().tolist()
    [6, 5]
    """

    name = "slickdeque"
    card = CARD
    window = SlickDequeWindow

    @staticmethod
    @cache
    def answer_kernel(code: int, width: int) -> Kernel:
        @compile_kernel
        def answer(states, low, high, order, neutral, out):  # type: ignore[no-untyped-def]
            ring = ring_size(longest(low, high))
            positions, nodes = np.empty(ring, np.int64), np.empty(ring * width, np.int64)
            need = still_needed(low, order)
            head = tail = at = end = 0
            for k in range(order.size):
                run = order[k]
                if high[run] > end:
                    while head < tail and positions[head & (ring - 1)] < need[k]:
                        head += 1
                    for i in range(max(end, need[k]), high[run]):
                        tail = insert(code, width, positions, nodes, head, tail, i, load(width, states, i))
                    end = high[run]
                    at = head
                # Runs with this end come widest first: the walk goes on from the last answer.
                while positions[at & (ring - 1)] < low[run]:
                    at += 1
                store(width, out, run, load(width, nodes, at & (ring - 1)))

        return answer


@inlined
def insert(code, width, positions, nodes, head, tail, position, state):  # type: ignore[no-untyped-def]
    """Add a partial behind those that it does not outdo; return the new tail."""
    mask = positions.size - 1
    while head < tail and combine(code, load(width, nodes, (tail - 1) & mask), state) == state:
        tail -= 1
    positions[np.uint64(tail & mask)] = position
    store(width, nodes, tail & mask, state)
    return tail + 1
