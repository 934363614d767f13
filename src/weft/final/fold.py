"""The plainest kernel: each run from all of its states, oldest first, and from no other state."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from weft.final.algebra import combine, load, store
from weft.final.kernels import compile_kernel


@cache
def fold_kernel(code: int, width: int) -> Callable[..., Any]:
    """Compile ``(states, low, high, order, neutral, out)``: combine the states of each run."""

    @compile_kernel
    def fold(states, low, high, order, neutral, out):  # type: ignore[no-untyped-def]
        for k in order:
            total = load(width, neutral, 0)
            for i in range(low[k], high[k]):
                total = combine(code, total, load(width, states, i))
            store(width, out, k, total)

    return fold
