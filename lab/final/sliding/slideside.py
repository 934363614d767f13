"""SlideSide (Non-Inv): its slide kernel."""

from __future__ import annotations

from functools import cache

import numpy as np

from lab.final.compiling import compile_slide_kernel
from weft.aggregates.monoid import Monoid
from weft.final.algebra import combine, load, store
from weft.final.kernels import inlined
from weft.final.slideside import flip
from weft.final.technique import Kernel, ring_size

MAX_SLIDES_AT_ONCE, MIN_SLIDES_AT_ONCE = 256, 8
"""The most slides answered at once, whose totals stay in the cache, and the fewest that are worth it."""


@cache
def slide_kernel(monoid: Monoid) -> Kernel:
    """Return the kernel of a monoid."""
    code, width = monoid.code, monoid.width

    @compile_slide_kernel
    def slide(values, windows, rows, neutral, columns, out):  # type: ignore[no-untyped-def]
        ring = ring_size(windows[0] + 1)
        suffix = np.empty(ring * width, np.int64)
        store(width, suffix, 0, load(width, neutral, 0))
        total = load(width, neutral, 0)
        totals = np.empty(MAX_SLIDES_AT_ONCE * width, np.int64)
        flipped = column = i = 0
        narrowest = windows[windows.size - 2]
        while i < values.size // width:
            if i - flipped == narrowest:
                oldest = max(i + 1 - windows[0], 0)
                flip(code, width, values, neutral, suffix, oldest, flipped, i)
                flipped = i
                total = load(width, neutral, 0)
                store(width, suffix, i & (ring - 1), total)
            # A run of slides up to the next flip, the last column of the output, or the last value.
            until_flip = flipped + narrowest - i
            count = min(values.size // width - i, columns - column, until_flip, MAX_SLIDES_AT_ONCE)
            for s in range(count):
                total = combine(code, total, load(width, values, i + s))
                store(width, totals, s, total)
            if count < MIN_SLIDES_AT_ONCE or i < windows[0]:
                _by_slide(code, width, suffix, totals, windows, rows, i, count, column, out)
            else:
                _by_query(code, width, suffix, totals, windows, rows, i, count, column, out)
            i += count
            column += count
            if column == columns:
                column = 0

    return slide


@inlined
def _by_slide(code, width, suffix, totals, windows, rows, i, count, column, out):  # type: ignore[no-untyped-def]  # noqa: PLR0913 (arrays of a kernel)
    """Answer the slides from i on, one slide after the other; ``totals`` are those since the flip."""
    mask = suffix.size // width - 1
    for s in range(count):
        total = load(width, totals, s)
        # The windows that are not full yet begin with the first value of all.
        k = 0
        while windows[k] > i + s:
            store(width, out, rows[k] + column + s, combine(code, load(width, suffix, 0), total))
            k += 1
        while windows[k] > 0:
            older = load(width, suffix, (i + s + 1 - windows[k]) & mask)
            store(width, out, rows[k] + column + s, combine(code, older, total))
            k += 1


@inlined
def _by_query(code, width, suffix, totals, windows, rows, i, count, column, out):  # type: ignore[no-untyped-def]  # noqa: PLR0913 (arrays of a kernel)
    """Answer them one query after the other, all windows full: plain vectors up to where the ring ends."""
    ring = suffix.size // width
    k = 0
    while windows[k] > 0:
        slot, into = (i + 1 - windows[k]) & (ring - 1), rows[k] + column
        cut = min(ring - slot, count)
        for s in range(cut):
            older = load(width, suffix, slot + s)
            store(width, out, into + s, combine(code, older, load(width, totals, s)))
        for s in range(cut, count):
            older = load(width, suffix, s - cut)
            store(width, out, into + s, combine(code, older, load(width, totals, s)))
        k += 1
