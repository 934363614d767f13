"""SlideSide (Non-Inv): the two stacks of all queries, overlaid: suffixes up to the last flip, a total since.

The flip comes when the narrowest window starts to evict. It scans back over the elements, and may stop where
a suffix is what it was before: then all older ones are, too.
G. Theodorakis, P. Pietzuch, H. Pirk: SlideSide: A Fast Incremental Stream Processing Algorithm for Multiple
Queries. EDBT 2020.
"""

from __future__ import annotations

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
    title="SlideSide (Non-Inv)",
    paper="Theodorakis, Pietzuch, Pirk: SlideSide. EDBT 2020",
    amortised="3",
    worst="n",
    all_queries="1 per query, and the rescans: few for max, up to n for a sum",
    space="2n",
    erratum=(
        "A rescan reads the elements. It may stop early for any associative combine, at the first suffix "
        "from before the last flip that does not change; a sum changes them all."
    ),
)


class SlideSideWindow(SlidingWindow):
    """Elements, their suffix scan up to the last flip, and the total since.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> window = SlideSideWindow(Monoid(MAX, 1), windows=[4, 3])
    >>> for value in (3, 4, 2, 8):
    ...     window.insert(np.array([[value]]))
    >>> window.query(3).tolist(), window.query(4).tolist()
    ([[8]], [[8]])
    """

    card = CARD

    def __init__(self, monoid: Monoid, windows: Iterable[int]) -> None:
        super().__init__(monoid, windows)
        self.elements: list[np.ndarray] = [monoid.identity(1)] * self.capacity
        self.suffix: list[np.ndarray] = self.elements.copy()
        self.flipped = 0
        self.total: np.ndarray | None = None

    @property
    def memory(self) -> int:
        return 2 * self.capacity

    def _insert(self, partial: np.ndarray) -> None:
        if self.end - self.flipped == self.windows[-1]:
            self._flip()
        self.elements[self.end % self.capacity] = partial
        self.total = self.combine(self.total, partial)

    def _query(self, n: int) -> np.ndarray:
        start = self.end - n
        if start > self.flipped:
            self._flip()
        if start == self.flipped:
            return self.combine(self.total, None)
        return self.combine(self.suffix[start % self.capacity], self.total)

    def _flip(self) -> None:
        total: np.ndarray | None = None
        for at in range(self.end - 1, self.first - 1, -1):
            slot = at % self.capacity
            total = self.combine(self.elements[slot], total)
            if at < self.flipped and self.same(total, self.suffix[slot]):
                break
            self.suffix[slot] = total
        self.flipped, self.total = self.end, None


class SlideSide(Technique):
    """One suffix scan for the runs of all queries.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> states = np.array([[6], [5], [0], [1]])
    >>> SlideSide(Monoid(MAX, 1), states).answer(np.array([0, 1]), np.array([3, 4])).ravel().tolist()
    [6, 5]
    """

    name = "slideside"
    card = CARD
    window = SlideSideWindow

    @staticmethod
    @cache
    def answer_kernel(code: int, width: int) -> Kernel:
        @compile_kernel
        def answer(states, low, high, order, neutral, out):  # type: ignore[no-untyped-def]
            ring = ring_size(longest(low, high) + 1)
            suffix = np.empty(ring * width, np.int64)
            # At the flip itself nothing is older than the total since: the identity stands there.
            store(width, suffix, 0, load(width, neutral, 0))
            need = still_needed(low, order)
            total = load(width, neutral, 0)
            flipped = end = 0
            for k in range(order.size):
                run = order[k]
                for i in range(end, high[run]):
                    total = combine(code, total, load(width, states, i))
                end = high[run]
                if low[run] > flipped:
                    flip(code, width, states, neutral, suffix, need[k], flipped, end)
                    flipped = end
                    total = load(width, neutral, 0)
                    store(width, suffix, end & (ring - 1), total)
                store(width, out, run, combine(code, load(width, suffix, low[run] & (ring - 1)), total))

        return answer


@inlined
def flip(code, width, states, neutral, suffix, oldest, flipped, end):  # type: ignore[no-untyped-def]
    """suffix[i] := the states from i to the end, back to the oldest, or to where nothing changes."""
    mask = suffix.size // width - 1
    total = load(width, neutral, 0)
    i = end - 1
    while i >= max(oldest, flipped):
        total = combine(code, load(width, states, i), total)
        store(width, suffix, i & mask, total)
        i -= 1
    while i >= oldest:
        total = combine(code, load(width, states, i), total)
        if total == load(width, suffix, i & mask):
            break
        store(width, suffix, i & mask, total)
        i -= 1
