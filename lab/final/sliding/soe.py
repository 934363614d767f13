"""Subtract-on-evict: its slide kernel."""

from __future__ import annotations

from functools import cache

import numpy as np

from lab.final.compiling import compile_slide_kernel
from weft.aggregates.monoid import Monoid
from weft.final.algebra import combine, inverse, load, store
from weft.final.technique import Kernel


@cache
def slide_kernel(monoid: Monoid) -> Kernel:
    """Return the kernel of a monoid."""
    code, width = monoid.code, monoid.width

    @compile_slide_kernel
    def slide(values, windows, rows, neutral, columns, out):  # type: ignore[no-untyped-def]
        size = values.size // width
        totals = np.empty(rows.size * width, np.int64)
        for k in range(rows.size):
            store(width, totals, k, load(width, neutral, 0))
        for begin in range(0, size, columns):
            stop = min(begin + columns, size)
            for k in range(rows.size):
                n = windows[k]
                total = load(width, totals, k)
                into = rows[k] - begin
                full = min(max(n, begin), stop)
                for i in range(begin, full):
                    total = combine(code, total, load(width, values, i))
                    store(width, out, into + i, total)
                for i in range(full, stop):
                    total = combine(code, total, load(width, values, i))
                    total = inverse(code, total, load(width, values, i - n))
                    store(width, out, into + i, total)
                store(width, totals, k, total)

    return slide
