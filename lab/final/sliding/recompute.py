"""Recompute: its slide kernel."""

from __future__ import annotations

from functools import cache

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
        column = 0
        for i in range(values.size // width):
            k = 0
            while windows[k] > 0:
                # From the identity on, a window of 2^k values is a whole number of vectors.
                total = load(width, neutral, 0)
                for j in range(max(i + 1 - windows[k], 0), i + 1):
                    total = combine(code, total, load(width, values, j))
                store(width, out, rows[k] + column, total)
                k += 1
            column += 1
            if column == columns:
                column = 0

    return slide
