"""DABA: its slide kernel."""

from __future__ import annotations

from functools import cache

import numpy as np

from lab.final.compiling import compile_slide_kernel
from weft.aggregates.monoid import Monoid
from weft.final.algebra import store
from weft.final.daba import advance, query
from weft.final.technique import Kernel, ring_size


@cache
def slide_kernel(monoid: Monoid) -> Kernel:
    """Return the kernel of a monoid."""
    code, width = monoid.code, monoid.width

    @compile_slide_kernel
    def slide(values, windows, rows, neutral, columns, out):  # type: ignore[no-untyped-def]
        for k in range(rows.size):
            ring = ring_size(windows[k])
            queue, totals = np.empty(ring * width, np.int64), np.empty(ring * width, np.int64)
            borders = (0, 0, 0, 0, 0, 0)
            column = 0
            for i in range(values.size // width):
                low = max(i + 1 - windows[k], 0)
                borders = advance(code, width, values, queue, totals, borders, low, i + 1)
                store(width, out, rows[k] + column, query(code, width, totals, neutral, borders))
                column += 1
                if column == columns:
                    column = 0

    return slide
