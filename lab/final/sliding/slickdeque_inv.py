"""SlickDeque (Inv): its slide kernel."""

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
        answers = np.empty(rows.size * width, np.int64)
        for k in range(rows.size):
            store(width, answers, k, load(width, neutral, 0))
        column = 0
        for i in range(size):
            newest = load(width, values, i)
            k = 0
            while windows[k] > i:
                total = combine(code, load(width, answers, k), newest)
                store(width, answers, k, total)
                store(width, out, rows[k] + column, total)
                k += 1
            # The rest is full already: what is oldest leaves.
            while windows[k] > 0:
                total = combine(code, load(width, answers, k), newest)
                total = inverse(code, total, load(width, values, i - windows[k]))
                store(width, answers, k, total)
                store(width, out, rows[k] + column, total)
                k += 1
            column += 1
            if column == columns:
                column = 0

    return slide
