"""FlatFIT: its slide kernel."""

from __future__ import annotations

from functools import cache

import numpy as np

from lab.final.compiling import compile_slide_kernel
from weft.aggregates.monoid import Monoid
from weft.final.algebra import load, store
from weft.final.flatfit import query
from weft.final.technique import Kernel, ring_size


@cache
def slide_kernel(monoid: Monoid) -> Kernel:
    """Return the kernel of a monoid."""
    code, width = monoid.code, monoid.width

    @compile_slide_kernel
    def slide(values, windows, rows, neutral, columns, out):  # type: ignore[no-untyped-def]
        ring = ring_size(windows[0])
        partials = np.empty(ring * width, np.int64)
        pointers, stack = np.empty(ring, np.int64), np.empty(ring, np.int64)
        column = 0
        for i in range(values.size // width):
            store(width, partials, i & (ring - 1), load(width, values, i))
            pointers[np.uint64(i & (ring - 1))] = i + 1
            k = 0
            while windows[k] > 0:
                first = max(i + 1 - windows[k], 0)
                total = query(code, width, partials, pointers, stack, first, i + 1)
                store(width, out, rows[k] + column, total)
                k += 1
            column += 1
            if column == columns:
                column = 0

    return slide
