"""TwoStacks: its slide kernel."""

from __future__ import annotations

from functools import cache

import numpy as np

from lab.final.compiling import compile_slide_kernel
from weft.aggregates.monoid import Monoid
from weft.final.algebra import combine, load, store
from weft.final.technique import Kernel


@cache
def slide_kernel(monoid: Monoid) -> Kernel:
    """Return the kernel of a monoid."""
    code, width = monoid.code, monoid.width

    @compile_slide_kernel
    def slide(values, windows, rows, neutral, columns, out):  # type: ignore[no-untyped-def]
        size = values.size // width
        totals = np.empty(rows.size * width, np.int64)
        # The front stack of window k takes windows[k] states from place[k] on.
        place, middles = np.zeros(rows.size + 1, np.int64), np.zeros(rows.size, np.int64)
        for k in range(rows.size):
            store(width, totals, k, load(width, neutral, 0))
            place[k + 1] = place[k] + windows[k]
        fronts = np.empty(place[rows.size] * width, np.int64)
        for begin in range(0, size, columns):
            stop = min(begin + columns, size)
            for k in range(rows.size):
                n, middle, total = windows[k], middles[k], load(width, totals, k)
                front, into = place[k], rows[k] - begin
                at = begin
                while at < stop:
                    if at - middle == n:
                        # The back stack is a whole window: flip. Its oldest partial leaves at once.
                        total = load(width, neutral, 0)
                        j = n - 1
                        while j > 0:
                            total = combine(code, load(width, values, middle + j), total)
                            store(width, fronts, front + j, total)
                            j -= 1
                        total = load(width, neutral, 0)
                        middle = at
                    until = min(stop, middle + n)
                    if middle == 0:
                        for i in range(at, until):
                            total = combine(code, total, load(width, values, i))
                            store(width, out, into + i, total)
                    else:
                        for i in range(at, min(until, middle + n - 1)):
                            total = combine(code, total, load(width, values, i))
                            older = load(width, fronts, front + i + 1 - middle)
                            store(width, out, into + i, combine(code, older, total))
                        if until == middle + n:
                            total = combine(code, total, load(width, values, until - 1))
                            store(width, out, into + until - 1, total)
                    at = until
                middles[k] = middle
                store(width, totals, k, total)

    return slide
