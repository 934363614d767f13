"""SlideSide (Inv): a prefix scan of the ring since its last lap began, and a suffix scan of the lap before.

A query is one prefix, a suffix and a prefix, or one prefix without another: at most one operation each.
G. Theodorakis, P. Pietzuch, H. Pirk: SlideSide: A Fast Incremental Stream Processing Algorithm for Multiple
Queries. EDBT 2020.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np

from weft.aggregates.monoid import Monoid
from weft.final.algebra import combine, inverse, load, store
from weft.final.card import Card
from weft.final.kernels import compile_kernel, inlined
from weft.final.technique import Kernel, Technique, longest
from weft.final.window import SlidingWindow

CARD = Card(
    title="SlideSide (Inv)",
    paper="Theodorakis, Pietzuch, Pirk: SlideSide. EDBT 2020",
    amortised="3",
    worst="n",
    all_queries="n + 2: at most 1 per query",
    space="3n",
    needs=frozenset({"associative", "inverse"}),
    erratum=(
        "In algorithm 2 the suffix scan reads the elements (called partials there), and its loop has one "
        "step too many."
    ),
)


class SlideSideInvWindow(SlidingWindow):
    """Elements, their prefix scan since the lap began, and the suffix scan of the lap before.

    >>> from weft.aggregates.monoid import ADD, Monoid
    >>> window = SlideSideInvWindow(Monoid(ADD, 1, invertible=True), windows=[4, 3])
    >>> for value in (3, 4, 2, 8):
    ...     window.insert(np.array([[value]]))
    >>> window.query(3).tolist(), window.query(4).tolist(), window.operations
    ([[14]], [[17]], 4)
    """

    card = CARD

    def __init__(self, monoid: Monoid, windows: Iterable[int]) -> None:
        super().__init__(monoid, windows)
        self.lap = 0
        self.elements: list[np.ndarray] = []
        # prefix[i] covers [lap, lap + i]; suffix[i] covers the lap before from its i-th element on.
        self.prefix: list[np.ndarray] = []
        self.suffix: list[np.ndarray] = []

    @property
    def memory(self) -> int:
        return 3 * self.capacity

    def _insert(self, partial: np.ndarray) -> None:
        if len(self.elements) == self.capacity:
            self.suffix, total = [], None
            for element in reversed(self.elements):
                total = self.combine(element, total)
                self.suffix.append(total)
            self.suffix.reverse()
            self.elements, self.prefix, self.lap = [], [], self.end
        self.elements.append(partial)
        self.prefix.append(self.combine(self.prefix[-1] if self.prefix else None, partial))

    def _query(self, n: int) -> np.ndarray:
        start = self.end - n - self.lap
        if start < 0:
            return self.combine(self.suffix[start], self.prefix[-1])
        if start == 0:
            return self.prefix[-1]
        return self.inverse(self.prefix[-1], self.prefix[start - 1])


class SlideSideInv(Technique):
    """One prefix and one suffix scan for the runs of all queries.

    >>> from weft.aggregates.monoid import ADD, Monoid
    >>> states = np.array([[6], [5], [0], [1]])
    >>> technique = SlideSideInv(Monoid(ADD, 1, invertible=True), states)
    >>> technique.answer(np.array([0, 1]), np.array([3, 4])).ravel().tolist()
    [11, 6]
    """

    name = "slideside_inv"
    card = CARD
    window = SlideSideInvWindow

    @staticmethod
    @cache
    def answer_kernel(code: int, width: int) -> Kernel:
        @compile_kernel
        def answer(states, low, high, order, neutral, out):  # type: ignore[no-untyped-def]
            size = longest(low, high)
            prefix, suffix = np.empty((size + 1) * width, np.int64), np.empty((size + 1) * width, np.int64)
            store(width, prefix, 0, load(width, neutral, 0))
            lap = end = 0
            for run in order:
                for i in range(end, high[run]):
                    if i - lap == size:
                        scan_back(code, width, states, neutral, lap, size, suffix)
                        lap = i
                    total = combine(code, load(width, prefix, i - lap), load(width, states, i))
                    store(width, prefix, i - lap + 1, total)
                end = high[run]
                total = load(width, prefix, end - lap)
                if low[run] < lap:
                    total = combine(code, load(width, suffix, low[run] - lap + size), total)
                else:
                    total = inverse(code, total, load(width, prefix, low[run] - lap))
                store(width, out, run, total)

        return answer


@inlined
def scan_back(code, width, states, neutral, lap, size, suffix):  # type: ignore[no-untyped-def]
    """suffix[i] := the states from ``lap + i`` to the end of the lap."""
    total = load(width, neutral, 0)
    for i in range(size - 1, -1, -1):
        total = combine(code, load(width, states, lap + i), total)
        store(width, suffix, i, total)
