"""The engine's path through an algorithm: all runs of all queries at once, in one compiled kernel.

A kernel is made for one monoid, by closing over its code and width, and is cached on disk by Numba. It takes
flat arrays of words; ``load`` and ``store`` know the width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numba import njit

from weft.aggregates.monoid import OBJECTS, Monoid
from weft.final.card import Card
from weft.final.kernels import inlined
from weft.final.runs import by_chain, by_end
from weft.final.steps import answer_steps
from weft.final.window import SlidingWindow

Kernel: TypeAlias = Callable[..., Any]


class Technique(ABC):
    """Answers runs of consecutive states.

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
        """One state per run ``[low[k], high[k])``, oldest first; a run of nothing is the identity."""
        out = self.monoid.identity(len(low))
        if self.monoid.code == OBJECTS:
            states = self.words.reshape(-1, 1)
            answer_steps(self.steps or self.window, self.monoid, states, low, high, out)
        elif len(low) and self.words.size:
            try:
                self._answer(np.ascontiguousarray(low), np.ascontiguousarray(high), out.reshape(-1))
            except Exception as error:
                out = self._answer_again(low, high, error)
        return out

    def _answer_again(self, low: np.ndarray, high: np.ndarray, error: Exception) -> np.ndarray:
        """The runs and nothing but the runs: a user's formula may have failed on states of two groups."""
        from weft.final.recompute import Recompute

        if isinstance(self, Recompute):
            raise self.monoid.failure(error) from error
        return Recompute(self.monoid, self.words).answer(low, high)

    def _answer(self, low: np.ndarray, high: np.ndarray, out: np.ndarray) -> None:
        kernel = self.answer_kernel(self.monoid.code, self.monoid.width)
        kernel(self.words, low, high, by_end(low, high), self.neutral, out)

    @staticmethod
    @abstractmethod
    def answer_kernel(code: int, width: int) -> Kernel:
        """``(states, low, high, order, neutral, out)``: answers the runs, which come by their end."""

    @classmethod
    def slide(
        cls, monoid: Monoid, values: np.ndarray, windows: Iterable[int], out: np.ndarray | None = None
    ) -> np.ndarray:
        """After each value, the newest ``windows[k]`` values combined (as many as there are, at first).

        ``out[k, i % m]`` is the answer of window k after value i, where ``out`` is ``[windows, m, width]``:
        with fewer columns than values it keeps the newest answers. By default it holds them all.
        """
        cls.card.check(monoid)
        sizes = np.array(list(windows), dtype=np.int64)
        if out is None:
            out = np.empty((len(sizes), max(len(values), 1), monoid.width), dtype=np.int64)
        order = np.argsort(-sizes, kind="stable")
        widest_first = np.append(sizes[order], 0)
        kernel, neutral = cls.slide_kernel_for(monoid), monoid.identity(1).reshape(-1)
        words, rows = np.ascontiguousarray(values).reshape(-1), order * out.shape[1]
        kernel(words, widest_first, rows, neutral, out.shape[1], out.reshape(-1))
        return out

    @classmethod
    def slide_kernel_for(cls, monoid: Monoid) -> Kernel:
        """The kernel that slides over the states of a monoid."""
        return cls.slide_kernel(monoid.code, monoid.width)

    @staticmethod
    @abstractmethod
    def slide_kernel(code: int, width: int) -> Kernel:
        """``(values, windows, rows, neutral, columns, out)``: the answers of window k go to the ``columns``
        states of ``out`` from ``rows[k]`` on. The widest window comes first, and a zero after the last: a
        loop that ends there is not unrolled for many windows, which would slow down the few."""


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
    """The smallest power of two that holds so many states: a position becomes a slot by a mask.

    >>> [ring_size(n) for n in (1, 5, 8)]
    [1, 8, 8]
    """
    size = 1
    while size < states:
        size *= 2
    return size


@inlined
def longest(low, high):  # type: ignore[no-untyped-def]
    """The length of the longest run."""
    most = 1
    for k in range(low.size):
        most = max(most, high[k] - low[k])
    return most


@njit(nogil=True)
def still_needed(low, order):  # type: ignore[no-untyped-def]
    """For each run of ``order``, the first cell that it or any later run reads."""
    need = np.empty(order.size, np.int64)
    first = np.int64(9223372036854775807)
    for k in range(order.size - 1, -1, -1):
        first = min(first, low[order[k]])
        need[k] = first
    return need
