"""Bulk: all windows of a batch from one structure built once for every query.

Where taking back is exact (counts, integer sums) a window is the difference of two prefixes. Elsewhere
levels of base intervals of 8, 64, 512... slices are kept (after B-Int, Arasu and Widom, VLDB 2004, with a
wider fan-out) and a window is combined, oldest first, from the few intervals that tile it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from weft.aggregates.monoid import ADD, SUM_INT, Monoid, combine

SHIFT = 3
FAN = 1 << SHIFT


class Bulk:
    """Prefix differences where the inverse is exact, base intervals otherwise.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> states = np.array([[6], [5], [0], [1], [3], [4], [2], [7], [0], [1]])
    >>> Bulk(Monoid(MAX, 1), states).answer(np.array([0, 1, 2]), np.array([10, 7, 3])).ravel().tolist()
    [7, 5, 0]
    """

    name = "bulk"

    def __init__(self, monoid: Monoid, states: np.ndarray) -> None:
        self.monoid, self.states = monoid, np.ascontiguousarray(states)
        if monoid.code in (ADD, SUM_INT):
            self._structure = _prefix(self.states)
        else:
            self._structure, self._starts = _levels(monoid, self.states)

    def answer(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The states of the runs ``[low[k], high[k])``."""
        if self.monoid.code in (ADD, SUM_INT):
            out = self._structure[high] - self._structure[low]
            if self.monoid.code == SUM_INT:
                out[:, 0] += out[:, 1] >> 32
                out[:, 1] &= 0xFFFFFFFF
            return out
        out = self.monoid.identity(len(low))
        kernel = _answer_kernel(self.monoid.code, self.monoid.width)
        kernel(
            self._structure,
            self._structure.view(np.float64),
            self._starts,
            low,
            high,
            out,
            out.view(np.float64),
        )
        return out


def _prefix(states: np.ndarray) -> np.ndarray:
    prefix = np.zeros((len(states) + 1, states.shape[1]), dtype=np.int64)
    np.cumsum(states, axis=0, out=prefix[1:])
    return prefix


def _levels(monoid: Monoid, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All levels in one matrix, level 0 the states themselves, and where each level starts."""
    sizes = [len(states)]
    while sizes[-1] >= FAN:
        sizes.append(sizes[-1] // FAN)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    levels = monoid.identity(int(starts[-1]))
    levels[: len(states)] = states
    kernel = _build_kernel(monoid.code, monoid.width)
    kernel(levels, levels.view(np.float64), starts)
    return levels, starts


@cache
def _build_kernel(code: int, width: int) -> Callable[..., Any]:
    @njit(cache=True, nogil=True)
    def build(levels, levels_f, starts):  # type: ignore[no-untyped-def]
        for level in range(1, starts.size - 1):
            below = starts[level - 1]
            for i in range(starts[level + 1] - starts[level]):
                at = starts[level] + i
                for j in range(FAN):
                    combine(code, width, levels, levels_f, at, levels, levels_f, below + i * FAN + j)

    return build


@cache
def _answer_kernel(code: int, width: int) -> Callable[..., Any]:
    @njit(cache=True, nogil=True)
    def answer(levels, levels_f, starts, low, high, out, out_f):  # type: ignore[no-untyped-def]
        top = starts.size - 2
        for k in range(low.size):
            at, end = low[k], high[k]
            level = 0
            # Climb while aligned to the next level and it still fits; descend towards the end.
            while at < end:
                while (
                    level < top
                    and at & ((1 << (SHIFT * (level + 1))) - 1) == 0
                    and at + (1 << (SHIFT * (level + 1))) <= end
                ):
                    level += 1
                while at + (1 << (SHIFT * level)) > end:
                    level -= 1
                combine(code, width, out, out_f, k, levels, levels_f, starts[level] + (at >> (SHIFT * level)))
                at += 1 << (SHIFT * level)

    return answer
