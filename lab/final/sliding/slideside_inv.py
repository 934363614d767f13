"""SlideSide (Inv): its slide kernel."""

from __future__ import annotations

from functools import cache

import numpy as np

from lab.final.compiling import compile_slide_kernel
from weft.aggregates.monoid import Monoid
from weft.final.algebra import combine, inverse, load, store
from weft.final.kernels import inlined
from weft.final.slideside_inv import scan_back
from weft.final.technique import Kernel

MAX_SLIDES_AT_ONCE, MIN_SLIDES_AT_ONCE = 256, 8
"""The most slides answered at once, whose prefixes stay in the cache, and the fewest that are worth it."""


@cache
def slide_kernel(monoid: Monoid) -> Kernel:
    """Return the kernel of a monoid."""
    code, width = monoid.code, monoid.width

    @compile_slide_kernel
    def slide(values, windows, rows, neutral, columns, out):  # type: ignore[no-untyped-def]
        size = windows[0]
        prefix, suffix = np.empty((size + 1) * width, np.int64), np.empty((size + 1) * width, np.int64)
        for i in range(size + 1):
            store(width, suffix, i, load(width, neutral, 0))
        store(width, prefix, 0, load(width, neutral, 0))
        lap = column = i = 0
        while i < values.size // width:
            if i - lap == size:
                scan_back(code, width, values, neutral, lap, size, suffix)
                lap = i
            # A run of slides that ends with the lap, the output's columns, or the values.
            filled = i - lap
            count = min(values.size // width - i, columns - column, size - filled, MAX_SLIDES_AT_ONCE)
            total = load(width, prefix, filled)
            for s in range(count):
                total = combine(code, total, load(width, values, i + s))
                store(width, prefix, filled + 1 + s, total)
            if count < MIN_SLIDES_AT_ONCE:
                _by_slide(code, width, prefix, suffix, windows, rows, filled + 1, count, column, out)
            else:
                _by_query(code, width, prefix, suffix, windows, rows, filled + 1, count, column, out)
            i += count
            column += count
            if column == columns:
                column = 0

    return slide


@inlined
def _by_slide(code, width, prefix, suffix, windows, rows, filled, count, column, out):  # type: ignore[no-untyped-def]  # noqa: PLR0913 (arrays of a kernel)
    """Answer the slides after which the lap has ``filled`` values or more, one after the other."""
    for s in range(count):
        total = load(width, prefix, filled + s)
        # The windows that reach into the lap before, then those within this lap.
        k = 0
        while windows[k] > filled + s:
            older = load(width, suffix, filled + s - windows[k] + windows[0])
            store(width, out, rows[k] + column + s, combine(code, older, total))
            k += 1
        while windows[k] > 0:
            before = load(width, prefix, filled + s - windows[k])
            store(width, out, rows[k] + column + s, inverse(code, total, before))
            k += 1


@inlined
def _by_query(code, width, prefix, suffix, windows, rows, filled, count, column, out):  # type: ignore[no-untyped-def]  # noqa: PLR0913 (arrays of a kernel)
    """Answer them one query after the other: plain vectors up to where its window leaves the lap before."""
    k = 0
    while windows[k] > 0:
        oldest, into = filled - windows[k], rows[k] + column
        before_lap = oldest + windows[0]
        cut = min(max(-oldest, 0), count)
        for s in range(cut):
            older, total = load(width, suffix, before_lap + s), load(width, prefix, filled + s)
            store(width, out, into + s, combine(code, older, total))
        for s in range(cut, count):
            before, total = load(width, prefix, oldest + s), load(width, prefix, filled + s)
            store(width, out, into + s, inverse(code, total, before))
        k += 1
