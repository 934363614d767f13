"""Recompute: every window from all of its slices. The oracle of the other techniques, and good for few slices.

J. Li et al., SIGMOD Record 2005 (Panes).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from weft.aggregates.monoid import Monoid, combine


@cache
def _kernel(code: int, width: int) -> Callable[..., Any]:
    @njit(cache=True, nogil=True)
    def answer(states, states_f, low, high, out, out_f):  # type: ignore[no-untyped-def]
        for k in range(low.size):
            for i in range(low[k], high[k]):
                combine(code, width, out, out_f, k, states, states_f, i)

    return answer


class Recompute:
    """Combine the slices of each window, oldest first.

    >>> from weft.aggregates.monoid import ADD, Monoid
    >>> states = np.array([[6], [5], [0], [1]])
    >>> Recompute(Monoid(ADD, 1), states).answer(np.array([0, 1]), np.array([3, 4])).ravel().tolist()
    [11, 6]
    """

    name = "recompute"

    def __init__(self, monoid: Monoid, states: np.ndarray) -> None:
        self.monoid, self.states = monoid, np.ascontiguousarray(states)

    def answer(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The states of the runs ``[low[k], high[k])``."""
        out = self.monoid.identity(len(low))
        kernel = _kernel(self.monoid.code, self.monoid.width)
        kernel(self.states, self.states.view(np.float64), low, high, out, out.view(np.float64))
        return out
