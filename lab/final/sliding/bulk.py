"""Bulk: its slide kernels, vectorised scans in chunks that stay in the cache.

With an exact inverse an answer is the difference of two prefixes. With a selective combine, two overlapping
windows of 2^l values make one of any length up to 2^(l+1): level l + 1 is level l combined with itself, 2^l
values earlier. Any other associative combine slides as TwoStacks does: a prefix and a suffix scan per window.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lab.final.compiling import compile_slide_kernel
from lab.final.sliding import twostacks
from weft.aggregates.monoid import Monoid
from weft.final.algebra import combine, inverse, load, store
from weft.final.technique import Kernel

CHUNK_VALUES = 1024
"""Values per chunk: with the levels of doubling, what fits the second-level cache."""


def slide_kernel(monoid: Monoid) -> Kernel:
    """Return the kernel of a monoid: prefix differences or doubling, where it allows either."""
    if monoid.invertible:
        return _prefix_kernel(monoid.code, monoid.width)
    if monoid.selective:
        return _doubling_kernel(monoid.code, monoid.width)
    return twostacks.slide_kernel(monoid)


@cache
def _prefix_kernel(code: int, width: int) -> Kernel:
    """Compile the kernel for exact inverses."""

    @compile_slide_kernel
    def slide(values, windows, rows, neutral, columns, out):  # type: ignore[no-untyped-def]
        size, history = values.size // width, windows[0]
        # prefix[end] is the total of all values so far, prefix[end - n] that of all but the newest n.
        room = 2 * history + 4 * CHUNK_VALUES
        prefix = np.empty(room * width, np.int64)
        for i in range(history + 1):
            store(width, prefix, i, load(width, neutral, 0))
        end = history
        begin = 0
        while begin < size:
            column = begin % columns
            count = min(size - begin, columns - column, CHUNK_VALUES)
            if end + count >= room:
                for i in range(history + 1):
                    store(width, prefix, i, load(width, prefix, end - history + i))
                end = history
            total = load(width, prefix, end)
            for i in range(count):
                total = combine(code, total, load(width, values, begin + i))
                store(width, prefix, end + 1 + i, total)
            for k in range(rows.size):
                older, newer, into = end + 1 - windows[k], end + 1, rows[k] + column
                for i in range(count):
                    before = load(width, prefix, older + i)
                    store(width, out, into + i, inverse(code, load(width, prefix, newer + i), before))
            end += count
            begin += count

    return slide


@cache
def _doubling_kernel(code: int, width: int) -> Kernel:
    """Compile the kernel for selective combines."""

    @compile_slide_kernel
    def slide(values, windows, rows, neutral, columns, out):  # type: ignore[no-untyped-def]
        size = values.size // width
        levels = 1
        while 1 << levels <= windows[0]:
            levels += 1
        # Level l needs the newest 2^l of its totals to go on, and has room for as many again. Its states lie
        # in totals[place[l]:place[l + 1]], and the next one goes to end[l].
        place, end = np.empty(levels + 1, np.int64), np.empty(levels, np.int64)
        place[0] = 0
        for level in range(levels):
            place[level + 1] = place[level] + (2 << level) + 4 * CHUNK_VALUES
            end[level] = place[level] + (1 << level)
        totals = np.empty(place[levels] * width, np.int64)
        for i in range(place[levels]):
            store(width, totals, i, load(width, neutral, 0))
        begin = 0
        while begin < size:
            column = begin % columns
            count = min(size - begin, columns - column, CHUNK_VALUES)
            for level in range(levels):
                if end[level] + count > place[level + 1]:
                    history, first = 1 << level, place[level]
                    for i in range(history):
                        store(width, totals, first + i, load(width, totals, end[level] - history + i))
                    end[level] = first + history
                into = end[level]
                if level == 0:
                    for i in range(count):
                        store(width, totals, into + i, load(width, values, begin + i))
                else:
                    newer = end[level - 1]
                    older = newer - (1 << (level - 1))
                    for i in range(count):
                        total = combine(code, load(width, totals, older + i), load(width, totals, newer + i))
                        store(width, totals, into + i, total)
            level = levels - 1
            for k in range(rows.size):
                while 1 << level > windows[k]:
                    level -= 1
                newer, into = end[level], rows[k] + column
                older = newer - windows[k] + (1 << level)
                for i in range(count):
                    total = combine(code, load(width, totals, older + i), load(width, totals, newer + i))
                    store(width, out, into + i, total)
            end += count
            begin += count

    return slide
