"""SlickDeque (Non-Inv): its slide kernel."""

from __future__ import annotations

from functools import cache

import numpy as np

from lab.final.compiling import compile_slide_kernel
from weft.aggregates.monoid import Monoid
from weft.final.algebra import load, store
from weft.final.slickdeque import insert
from weft.final.technique import Kernel, ring_size


@cache
def slide_kernel(monoid: Monoid) -> Kernel:
    """Return the kernel of a monoid."""
    code, width = monoid.code, monoid.width

    @compile_slide_kernel
    def slide(values, windows, rows, neutral, columns, out):  # type: ignore[no-untyped-def]
        ring = ring_size(windows[0])
        positions, nodes = np.empty(ring, np.int64), np.empty(ring * width, np.int64)
        head = tail = column = 0
        for i in range(values.size // width):
            if head < tail and positions[np.uint64(head & (ring - 1))] <= i - windows[0]:
                head += 1
            tail = insert(code, width, positions, nodes, head, tail, i, load(width, values, i))
            at = head
            k = 0
            while windows[k] > 0:
                while positions[np.uint64(at & (ring - 1))] <= i - windows[k]:
                    at += 1
                store(width, out, rows[k] + column, load(width, nodes, at & (ring - 1)))
                k += 1
            column += 1
            if column == columns:
                column = 0

    return slide
