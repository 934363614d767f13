"""Recompute: every window from all of its partials. The oracle of the others, and good for few partials.

J. Li, D. Maier, K. Tufte, V. Papadimos, P. A. Tucker: No Pane, No Gain. SIGMOD Record 34(1), 2005.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice

import numpy as np

from weft.aggregates.monoid import Monoid
from weft.final.card import Card
from weft.final.fold import fold_kernel
from weft.final.technique import Kernel, Technique
from weft.final.window import SlidingWindow

CARD = Card(
    title="recompute",
    paper="Li, Maier, Tufte, Papadimos, Tucker: No Pane, No Gain. SIGMOD Record 2005",
    amortised="n-1",
    worst="n-1",
    all_queries="n(n-1)/2",
    space="n",
)


class RecomputeWindow(SlidingWindow):
    """Combine the newest n partials, oldest first.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> window = RecomputeWindow(Monoid(MAX, 1), windows=[3])
    >>> for value in (6, 5, 0):
    ...     window.insert(np.array([[value]]))
    >>> window.query(2).tolist(), window.operations
    ([[5]], 1)
    """

    card = CARD

    def __init__(self, monoid: Monoid, windows: Iterable[int]) -> None:
        super().__init__(monoid, windows)
        self.partials: deque[np.ndarray] = deque()

    @property
    def memory(self) -> int:
        return len(self.partials)

    def _insert(self, partial: np.ndarray) -> None:
        self.partials.append(partial)

    def _evict(self) -> None:
        self.partials.popleft()

    def _query(self, n: int) -> np.ndarray:
        answer = None
        for partial in islice(self.partials, len(self) - n, None):
            answer = self.combine(answer, partial)
        return self.combine(answer, None)


class Recompute(Technique):
    """Combine the states of each run, oldest first.

    >>> from weft.aggregates.monoid import ADD, Monoid
    >>> states = np.array([[6], [5], [0], [1]])
    >>> Recompute(Monoid(ADD, 1), states).answer(np.array([0, 1]), np.array([3, 4])).ravel().tolist()
    [11, 6]
    """

    name = "recompute"
    card = CARD
    window = RecomputeWindow

    def _answer(self, low: np.ndarray, high: np.ndarray, out: np.ndarray) -> None:
        kernel = self.answer_kernel(self.monoid.code, self.monoid.width)
        kernel(self.words, low, high, np.arange(len(low)), self.neutral, out)

    @staticmethod
    def answer_kernel(code: int, width: int) -> Kernel:
        return fold_kernel(code, width)
