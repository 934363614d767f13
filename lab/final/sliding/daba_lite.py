"""DABA Lite: its slide kernel."""

from __future__ import annotations

from functools import cache

import numpy as np

from lab.final.compiling import compile_slide_kernel
from weft.aggregates.monoid import Monoid
from weft.final.algebra import load, store
from weft.final.daba_lite import evict, insert, query, step
from weft.final.technique import Kernel, ring_size


@cache
def slide_kernel(monoid: Monoid) -> Kernel:
    """Return the kernel of a monoid."""
    code, width = monoid.code, monoid.width

    @compile_slide_kernel
    def slide(values, windows, rows, neutral, columns, out):  # type: ignore[no-untyped-def]
        for k in range(rows.size):
            queue = np.empty(ring_size(windows[k]) * width, np.int64)
            borders = (0, 0, 0, 0, 0, 0)
            middle = back = load(width, neutral, 0)
            column = 0
            for i in range(values.size // width):
                if i >= windows[k]:
                    borders = evict(borders)
                    borders, middle, back = step(code, width, queue, neutral, borders, middle, back)
                borders, back = insert(code, width, queue, borders, back, load(width, values, i))
                borders, middle, back = step(code, width, queue, neutral, borders, middle, back)
                store(width, out, rows[k] + column, query(code, width, queue, borders, back))
                column += 1
                if column == columns:
                    column = 0

    return slide
