"""SlickDeque (Inv): subtract-on-evict for many queries: partials kept once, one running answer per query.

A. U. Shein, P. K. Chrysanthis, A. Labrinidis: SlickDeque: High Throughput and Low Latency Incremental
Sliding-Window Aggregation. EDBT 2018.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import cache
from itertools import islice

import numpy as np

from weft.aggregates.monoid import Monoid
from weft.final.algebra import combine, inverse, load, store
from weft.final.card import Card
from weft.final.kernels import compile_kernel
from weft.final.runs import by_end, chain_of
from weft.final.technique import Kernel, Technique
from weft.final.window import SlidingWindow

CARD = Card(
    title="SlickDeque (Inv)",
    paper="Shein, Chrysanthis, Labrinidis: SlickDeque. EDBT 2018",
    amortised="2",
    worst="2",
    all_queries="2n: 2 per distinct number of partials",
    space="n + queries",
    needs=frozenset({"associative", "inverse"}),
    erratum=(
        "Its cost per edge is 2 per distinct number of partials: equation 7.6 lost the factor 2. Positions "
        "increase and never wrap."
    ),
)


class SlickDequeInvWindow(SlidingWindow):
    """Partials once, and a running answer for each of ``windows``.

    >>> from weft.aggregates.monoid import ADD, Monoid
    >>> window = SlickDequeInvWindow(Monoid(ADD, 1, invertible=True), windows=[3, 2])
    >>> for value in (6, 5, 0):
    ...     window.insert(np.array([[value]]))
    >>> window.query(3).tolist(), window.query(2).tolist(), window.operations
    ([[11]], [[5]], 7)
    """

    card = CARD

    def __init__(self, monoid: Monoid, windows: Iterable[int]) -> None:
        super().__init__(monoid, windows)
        self.partials: deque[np.ndarray] = deque()
        self.answers = {n: monoid.identity(1) for n in self.windows}

    @property
    def memory(self) -> int:
        return len(self.partials) + len(self.answers)

    def _insert(self, partial: np.ndarray) -> None:
        for n, answer in self.answers.items():
            answer = self.combine(answer, partial)
            if len(self) >= n:
                answer = self.inverse(answer, self.partials[len(self) - n])
            self.answers[n] = answer
        self.partials.append(partial)

    def _evict(self) -> None:
        oldest = self.partials.popleft()
        for n, answer in self.answers.items():
            if n >= len(self):
                self.answers[n] = self.inverse(answer, oldest)

    def _query(self, n: int) -> np.ndarray:
        # The answer for another number of partials is the next longer one without its oldest.
        nearest = min(known for known in self.windows if known >= n)
        answer, covered = self.answers[nearest], min(nearest, len(self))
        for partial in islice(self.partials, len(self) - covered, len(self) - n):
            answer = self.inverse(answer, partial)
        return answer


class SlickDequeInv(Technique):
    """One pass over the states, with a running answer per chain of runs.

    >>> from weft.aggregates.monoid import ADD, Monoid
    >>> states = np.array([[6], [5], [0], [1]])
    >>> technique = SlickDequeInv(Monoid(ADD, 1, invertible=True), states)
    >>> technique.answer(np.array([0, 1]), np.array([3, 4])).ravel().tolist()
    [11, 6]
    """

    name = "slickdeque_inv"
    card = CARD
    window = SlickDequeInvWindow

    def _answer(self, low: np.ndarray, high: np.ndarray, out: np.ndarray) -> None:
        order = by_end(low, high)
        kernel = self.answer_kernel(self.monoid.code, self.monoid.width)
        kernel(self.words, low, high, order, chain_of(low, order), self.neutral, out)

    @staticmethod
    @cache
    def answer_kernel(code: int, width: int) -> Kernel:
        @compile_kernel
        def answer(states, low, high, order, chain, neutral, out):  # type: ignore[no-untyped-def]
            chains = chain.max() + 1 if chain.size else 0
            answers = np.empty(chains * width, np.int64)
            first, end = np.zeros(chains, np.int64), np.zeros(chains, np.int64)
            for k in range(order.size):
                run, c = order[k], chain[k]
                total = load(width, answers, c)
                if low[run] >= end[c]:
                    total = load(width, neutral, 0)
                    first[c] = end[c] = low[run]
                for i in range(end[c], high[run]):
                    total = combine(code, total, load(width, states, i))
                for i in range(first[c], low[run]):
                    total = inverse(code, total, load(width, states, i))
                first[c], end[c] = low[run], high[run]
                store(width, answers, c, total)
                store(width, out, run, total)

        return answer
