"""FlatFAT: its slide kernel."""

from __future__ import annotations

from functools import cache

import numpy as np

from lab.final.compiling import compile_slide_kernel
from weft.aggregates.monoid import AFFINE, Monoid
from weft.final.algebra import load, store
from weft.final.flatfat import insert, query
from weft.final.technique import Kernel, ring_size


@cache
def slide_kernel(monoid: Monoid) -> Kernel:
    """Return the kernel of a monoid."""
    code, width = monoid.code, monoid.width

    @compile_slide_kernel
    def slide(values, windows, rows, neutral, columns, out):  # type: ignore[no-untyped-def]
        leaves = ring_size(windows[0])
        tree = np.empty(2 * leaves * width, np.int64)
        for i in range(2 * leaves):
            store(width, tree, i, load(width, neutral, 0))
        column = 0
        for i in range(values.size // width):
            insert(code, width, tree, leaves, i, load(width, values, i))
            k = 0
            while windows[k] > 0:
                if windows[k] == leaves and code != AFFINE:
                    total = load(width, tree, 1)
                else:
                    first = max(i + 1 - windows[k], 0)
                    total = query(code, width, tree, leaves, neutral, first, i + 1)
                store(width, out, rows[k] + column, total)
                k += 1
            column += 1
            if column == columns:
                column = 0

    return slide
