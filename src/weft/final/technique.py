"""The engine's path through an algorithm: all runs of all queries at once, in one compiled kernel.

A kernel is made for one monoid, by closing over its code and width, and is cached on disk by Numba. It takes
flat arrays of words; ``load`` and ``store`` know the width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numba import njit

from weft.aggregates.monoid import OBJECTS, Monoid
from weft.final.card import Card
from weft.final.fold import fold_kernel
from weft.final.kernels import inlined
from weft.final.runs import by_chain, by_end
from weft.final.steps import answer_steps
from weft.final.window import SlidingWindow

Kernel: TypeAlias = Callable[..., Any]


class Technique(ABC):
    """An algorithm that answers runs of consecutive states.

    The states are those of many groups' cells, one group after the other, each in the order of time. A
    run never crosses groups.
    """

    name: ClassVar[str]
    card: ClassVar[Card]
    window: ClassVar[type[SlidingWindow]]
    steps: ClassVar[type[SlidingWindow] | None] = None
    """The window that answers for Python objects, where it is not the technique's own."""

    def __init__(self, monoid: Monoid, states: np.ndarray) -> None:
        self.card.check(monoid)
        self.monoid = monoid
        self.words = np.ascontiguousarray(states).reshape(-1)
        self.neutral = monoid.identity(1).reshape(-1)

    def answer(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return one state per run ``[low[k], high[k])``, oldest first; a run of nothing is the identity."""
        out = self.monoid.identity(len(low))
        if self.monoid.code == OBJECTS:
            states = self.words.reshape(-1, 1)
            answer_steps(self.steps or self.window, self.monoid, states, low, high, out)
        elif len(low) and self.words.size:
            try:
                self._answer(np.ascontiguousarray(low), np.ascontiguousarray(high), out.reshape(-1))
            except Exception:
                out = self._answer_again(low, high)
        return out

    def _answer_again(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Answer from the runs alone: a user's formula may have failed on states of two groups."""
        out = self.monoid.identity(len(low))
        fold = fold_kernel(self.monoid.code, self.monoid.width)
        try:
            fold(self.words, low, high, np.arange(len(low)), self.neutral, out.reshape(-1))
        except Exception as error:
            raise self.monoid.failure(error) from error
        return out

    def _answer(self, low: np.ndarray, high: np.ndarray, out: np.ndarray) -> None:
        kernel = self.answer_kernel(self.monoid.code, self.monoid.width)
        kernel(self.words, low, high, by_end(low, high), self.neutral, out)

    @staticmethod
    @abstractmethod
    def answer_kernel(code: int, width: int) -> Kernel:
        """``(states, low, high, order, neutral, out)``: answers the runs, which come by their end."""


class ChainTechnique(Technique):
    """An algorithm that follows one query at a time: a copy for each chain of runs."""

    def _answer(self, low: np.ndarray, high: np.ndarray, out: np.ndarray) -> None:
        order, chains = by_chain(low, high)
        kernel = self.answer_kernel(self.monoid.code, self.monoid.width)
        kernel(self.words, low, high, order, chains, self.neutral, out)

    @staticmethod
    @abstractmethod
    def answer_kernel(code: int, width: int) -> Kernel:
        """``(states, low, high, order, chains, neutral, out)``: chain c is order[chains[c]:chains[c + 1]]."""


@inlined
def ring_size(states):  # type: ignore[no-untyped-def]
    """Return the smallest power of two that holds so many states: a position becomes a slot by a mask.

    >>> [ring_size(n) for n in (1, 5, 8)]
    [1, 8, 8]
    """
    size = 1
    while size < states:
        size *= 2
    return size


@inlined
def longest(low, high):  # type: ignore[no-untyped-def]
    """Return the length of the longest run."""
    cells = 1
    for k in range(low.size):
        cells = max(cells, high[k] - low[k])
    return cells


@njit(nogil=True)
def still_needed(low, order):  # type: ignore[no-untyped-def]
    """Return, for each run of ``order``, the first cell that it or any later run reads."""
    need = np.empty(order.size, np.int64)
    first = np.int64(9223372036854775807)
    for k in range(order.size - 1, -1, -1):
        first = min(first, low[order[k]])
        need[k] = first
    return need
