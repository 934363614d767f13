"""A grid: the cells of groups that are in most slices, laid out by slice, to answer all groups at once.

A slice is a row with a state for each group, the neutral one where a group has no cell. A window takes the
same few rows for every group: its answers are those rows combined, read and written in the order of memory.
Where taking back is exact they are the difference of two rows of prefixes. Elsewhere rows are cut into
blocks as in ``bulk``, each with its prefixes and suffixes, and a disjoint sparse table over their totals.

    windows over groups a b c           rows of a grid
    a  |--cell--cell--cell-->           slice 0   a b c
    b  |--cell--------cell-->           slice 1   a - c
    c  |--cell--cell-------->           slice 2   a b -
"""

from __future__ import annotations

from functools import cache

import numpy as np

from weft.aggregates.monoid import Monoid
from weft.final.algebra import combine, inverse, load, store
from weft.final.kernels import compile_kernel, inlined
from weft.final.scratch import scratch
from weft.final.technique import Kernel

MIN_BLOCK_SHIFT = 3
"""Blocks have at least 2^3 slices; windows within one are recomputed."""


def answer_grid(
    monoid: Monoid,
    states: np.ndarray,
    bounds: np.ndarray,
    at: np.ndarray,
    slices: int,
    windows: tuple[np.ndarray, np.ndarray, np.ndarray],
    out: np.ndarray,
) -> None:
    """Answer windows for all groups, each from a first slice to before a last one, into rows of ``out``.

    ``bounds`` says where the cells of each group begin among the states, and the end; ``at`` has the slice of
    each cell. No window is without a slice. A group without a cell in a window gets the neutral state.

    >>> from weft.aggregates.monoid import ADD
    >>> monoid, out = Monoid(ADD, 1, invertible=True), np.zeros((4, 1), np.int64)
    >>> states, bounds, at = np.array([[5], [6], [7]]), np.array([0, 2, 3]), np.array([0, 1, 1])
    >>> windows = np.array([0, 1]), np.array([2, 2]), np.array([0, 2])
    >>> answer_grid(monoid, states, bounds, at, 2, windows, out)
    >>> out.ravel().tolist()
    [11, 7, 6, 7]
    """
    groups, width = len(bounds) - 1, monoid.width
    if monoid.invertible:
        kernel, shift, rows = _prefix_kernel(monoid.code, width), 0, slices + 1
    else:
        # The shortest window is at least a block, where it can be.
        shift = max(MIN_BLOCK_SHIFT, int(np.min(windows[1] - windows[0])).bit_length() - 1)
        blocks = (slices >> shift) + 1
        # The states, their prefixes and suffixes, and a table of as many levels as the blocks have bits.
        kernel, rows = _block_kernel(monoid.code, width), 3 * slices + blocks * (blocks.bit_length() + 1)
    room, neutral = scratch(rows * groups * width), monoid.identity(1).reshape(-1)
    words = np.ascontiguousarray(states).reshape(-1)
    kernel(words, bounds, at, slices, shift, *windows, neutral, room, out.reshape(-1))


@cache
def _prefix_kernel(code: int, width: int) -> Kernel:
    @compile_kernel
    def answer(states, bounds, at, slices, shift, begins, ends, rows, neutral, room, out):  # type: ignore[no-untyped-def]  # noqa: PLR0913 (arrays of a kernel)
        groups = bounds.size - 1
        for g in range(groups):
            total, s = load(width, neutral, 0), 0
            for cell in range(bounds[g], bounds[g + 1]):
                while s <= at[cell]:
                    store(width, room, s * groups + g, total)
                    s += 1
                total = combine(code, total, load(width, states, cell))
            while s <= slices:
                store(width, room, s * groups + g, total)
                s += 1
        for w in range(begins.size):
            a, b, row = begins[w] * groups, ends[w] * groups, rows[w]
            for g in range(groups):
                store(width, out, row + g, inverse(code, load(width, room, b + g), load(width, room, a + g)))

    return answer


@cache
def _block_kernel(code: int, width: int) -> Kernel:
    @compile_kernel
    def answer(states, bounds, at, slices, shift, begins, ends, rows, neutral, room, out):  # type: ignore[no-untyped-def]  # noqa: PLR0913 (arrays of a kernel)
        groups = bounds.size - 1
        size, inside = slices * groups * width, (1 << shift) - 1
        prefix, suffix, table = room[size:], room[2 * size :], room[3 * size :]
        _lay_out(code, width, states, bounds, at, slices, neutral, room)
        _scan(code, width, room, prefix, suffix, slices, groups, inside)
        blocks = (slices + inside) >> shift
        _tabulate(code, width, prefix, table, slices, groups, shift, blocks)
        for w in range(begins.size):
            first, last, row = begins[w], ends[w] - 1, rows[w]
            a, b = first * groups, last * groups
            x, y = (first >> shift) + 1, (last >> shift) - 1
            if x == y + 1:
                for g in range(groups):
                    older, newer = load(width, suffix, a + g), load(width, prefix, b + g)
                    store(width, out, row + g, combine(code, older, newer))
            elif x == y:
                middle = x * groups
                for g in range(groups):
                    older = combine(code, load(width, suffix, a + g), load(width, table, middle + g))
                    store(width, out, row + g, combine(code, older, load(width, prefix, b + g)))
            elif x < y:
                level = 0
                while (x ^ y) >> (level + 1):
                    level += 1
                left, right = (level * blocks + x) * groups, (level * blocks + y) * groups
                for g in range(groups):
                    older = combine(code, load(width, suffix, a + g), load(width, table, left + g))
                    newer = combine(code, load(width, table, right + g), load(width, prefix, b + g))
                    store(width, out, row + g, combine(code, older, newer))
            elif first & inside == 0:
                for g in range(groups):
                    store(width, out, row + g, load(width, prefix, b + g))
            else:
                for g in range(groups):
                    store(width, out, row + g, load(width, room, a + g))
                for s in range(first + 1, last + 1):
                    _fold(code, width, out, row, room, s * groups, groups, out, row)

    return answer


@inlined
def _fold(code, width, older, i, newer, j, groups, out, k):  # type: ignore[no-untyped-def]  # noqa: PLR0913 (arrays of a kernel)
    """Combine a row of states with a newer one."""
    for g in range(groups):
        total = combine(code, load(width, older, i + g), load(width, newer, j + g))
        store(width, out, k + g, total)


@inlined
def _lay_out(code, width, states, bounds, at, slices, neutral, grid):  # type: ignore[no-untyped-def]
    """Put every group's cells in the rows of their slices, and the neutral state where it has none.

    A group may have several cells in a slice.
    """
    groups = bounds.size - 1
    empty = load(width, neutral, 0)
    for g in range(groups):
        s = 0
        for cell in range(bounds[g], bounds[g + 1]):
            while s < at[cell]:
                store(width, grid, s * groups + g, empty)
                s += 1
            state = load(width, states, cell)
            if s > at[cell]:
                s -= 1
                state = combine(code, load(width, grid, s * groups + g), state)
            store(width, grid, s * groups + g, state)
            s += 1
        while s < slices:
            store(width, grid, s * groups + g, empty)
            s += 1


@inlined
def _scan(code, width, grid, prefix, suffix, slices, groups, inside):  # type: ignore[no-untyped-def]
    """Compute the prefixes and suffixes of every block of rows."""
    for s in range(slices):
        row = s * groups
        if s & inside == 0:
            for g in range(groups):
                store(width, prefix, row + g, load(width, grid, row + g))
        else:
            _fold(code, width, prefix, row - groups, grid, row, groups, prefix, row)
    for s in range(slices - 1, -1, -1):
        row = s * groups
        if s & inside == inside or s == slices - 1:
            for g in range(groups):
                store(width, suffix, row + g, load(width, grid, row + g))
        else:
            _fold(code, width, grid, row, suffix, row + groups, groups, suffix, row)


@inlined
def _tabulate(code, width, prefix, table, slices, groups, shift, blocks):  # type: ignore[no-untyped-def]
    """Compute the totals of blocks, and at level l those from each block to the middle of 2^(l+1) of them."""
    for b in range(blocks):
        last = min((b + 1) << shift, slices) - 1
        for g in range(groups):
            store(width, table, b * groups + g, load(width, prefix, last * groups + g))
    level = 1
    while 1 << level < blocks:
        top, middle = level * blocks, 1 << level
        while middle < blocks:
            for g in range(groups):
                store(
                    width,
                    table,
                    (top + middle - 1) * groups + g,
                    load(width, table, (middle - 1) * groups + g),
                )
                store(width, table, (top + middle) * groups + g, load(width, table, middle * groups + g))
            for x in range(middle - 2, middle - (1 << level) - 1, -1):
                at = (top + x) * groups
                _fold(code, width, table, x * groups, table, at + groups, groups, table, at)
            for x in range(middle + 1, min(middle + (1 << level), blocks)):
                at = (top + x) * groups
                _fold(code, width, table, at - groups, table, x * groups, groups, table, at)
            middle += 2 << level
        level += 1
