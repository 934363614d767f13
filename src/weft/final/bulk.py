"""Bulk: a whole batch of partials inserted, and all windows of all queries answered, at once.

Where taking back is exact (counts, integer sums) a window is the difference of two prefixes. Elsewhere the
partials are cut into blocks, each with its prefix and its suffix scan, and the blocks' totals have a disjoint
sparse table: level l holds, for every segment of 2^(l+1) blocks, the totals from each block to the segment's
middle. A window is then the suffix of its first block, two entries of one level, and the prefix of its last
block: at most three operations, for every associative combine.

    blocks    0   1   2   3   4   5   6   7
    level 2   <-----------0   0----------->
    level 1   <---0   0--->   <---0   0--->
    level 0   0   0   0   0   0   0   0   0     the totals
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import isqrt

import numpy as np

from weft.aggregates.monoid import Monoid
from weft.final.algebra import combine, inverse, load, store
from weft.final.card import Card
from weft.final.kernels import compile_kernel, inlined
from weft.final.scratch import scratch
from weft.final.technique import Kernel, Technique
from weft.final.twostacks import TwoStacksWindow
from weft.final.window import SlidingWindow

CARD = Card(
    title="bulk",
    paper="this project, after van Herk 1992, Gil and Werman 1993, and Arasu and Widom, VLDB 2004",
    amortised="2 with an inverse, else 5 in a batch and 3 + sqrt n step by step",
    worst="a whole batch at once",
    all_queries="n with an inverse, else 3n in a batch",
    space="n with an inverse, else 2n and n/32 log2 n",
)

MIN_BLOCK_SHIFT, MAX_BLOCK_SHIFT = 3, 5
"""Blocks have from 2^3 to 2^5 partials."""


class BulkWindow(SlidingWindow):
    """Step by step: prefixes where the inverse is exact, blocks of the square root of the capacity elsewhere.

    >>> from weft.aggregates.monoid import ADD, Monoid
    >>> window = BulkWindow(Monoid(ADD, 1, invertible=True), windows=[3])
    >>> for value in (6, 5, 0):
    ...     window.insert(np.array([[value]]))
    >>> window.query(2).tolist(), window.operations
    ([[5]], 4)
    """

    card = CARD

    def __init__(self, monoid: Monoid, windows: Iterable[int]) -> None:
        super().__init__(monoid, windows)
        # prefix[p] is the total of all partials before p; suffix[p] that of p's block from p on.
        self.prefix: dict[int, np.ndarray] = {0: monoid.identity(1)} if monoid.invertible else {}
        self.suffix: dict[int, np.ndarray] = {}
        self.block = isqrt(self.capacity)
        self.newest: list[np.ndarray] = []
        self.total: np.ndarray | None = None

    @property
    def memory(self) -> int:
        return len(self.prefix) + len(self.suffix) + len(self.newest)

    def _insert(self, partial: np.ndarray) -> None:
        if self.monoid.invertible:
            self.prefix[self.end + 1] = self.combine(self.prefix[self.end], partial)
            return
        self.newest.append(partial)
        self.total = self.combine(self.total, partial)
        if len(self.newest) == self.block:
            total = None
            for at in range(self.end, max(self.end - self.block, self.first - 1), -1):
                total = self.combine(self.newest.pop(), total)
                self.suffix[at] = total
            self.newest, self.total = [], None

    def _evict(self) -> None:
        (self.prefix if self.monoid.invertible else self.suffix).pop(self.first, None)

    def _query(self, n: int) -> np.ndarray:
        at, answer = self.end - n, None
        if self.monoid.invertible:
            return self.inverse(self.prefix[self.end], self.prefix[at])
        while at in self.suffix:
            answer = self.combine(answer, self.suffix[at])
            at += self.block - at % self.block
        left = self.end - at
        if left == len(self.newest):
            return self.combine(answer, self.total)
        for partial in self.newest[len(self.newest) - left :]:
            answer = self.combine(answer, partial)
        return self.combine(answer, None)


class Bulk(Technique):
    """Prefix differences where the inverse is exact, blocks elsewhere.

    >>> from weft.aggregates.monoid import MAX, Monoid
    >>> states = np.array([[6], [5], [0], [1], [3], [4], [2], [7], [0], [1]])
    >>> Bulk(Monoid(MAX, 1), states).answer(np.array([0, 1, 2]), np.array([10, 7, 3])).ravel().tolist()
    [7, 5, 0]
    """

    name = "bulk"
    card = CARD
    window = BulkWindow
    # Without kernels there is nothing to gain from a batch.
    steps = TwoStacksWindow

    def _answer(self, low: np.ndarray, high: np.ndarray, out: np.ndarray) -> None:
        # Prefixes run over all groups: a user's inverse may not be exact, and carry a NaN to another group.
        exact = self.monoid.invertible and self.monoid.built_in
        make = _prefix_kernel if exact else self.answer_kernel
        kernel = make(self.monoid.code, self.monoid.width)
        # Prefixes and suffixes, and a table of as many levels as the blocks have bits.
        size = len(self.words) + self.monoid.width
        room = scratch(2 * size + ((size >> MIN_BLOCK_SHIFT) + self.monoid.width) * size.bit_length())
        kernel(self.words, low, high, self.neutral, room, out)

    @staticmethod
    def answer_kernel(code: int, width: int) -> Kernel:
        """``(states, low, high, neutral, room, out)``: that of blocks, for any associative combine."""
        return _block_kernel(code, width)


@cache
def _prefix_kernel(code: int, width: int) -> Kernel:
    @compile_kernel
    def answer(states, low, high, neutral, room, out):  # type: ignore[no-untyped-def]
        size = states.size // width
        prefix = room
        total = load(width, neutral, 0)
        store(width, prefix, 0, total)
        for i in range(size):
            total = combine(code, total, load(width, states, i))
            store(width, prefix, i + 1, total)
        for k in range(low.size):
            before = load(width, prefix, low[k])
            store(width, out, k, inverse(code, load(width, prefix, high[k]), before))

    return answer


@cache
def _block_kernel(code: int, width: int) -> Kernel:
    @compile_kernel
    def answer(states, low, high, neutral, room, out):  # type: ignore[no-untyped-def]
        size = states.size // width
        length, most = 0, 1
        for k in range(low.size):
            length += high[k] - low[k]
            most = max(most, high[k] - low[k])
        shift = _block_shift(length / low.size, size / low.size)
        blocks = (size + (1 << shift) - 1) >> shift
        levels = 1
        while 1 << levels < blocks:
            levels += 1
        prefix, suffix, table = room, room[size * width :], room[2 * size * width :]
        pairs = size >> (shift + 1)
        ends, starts = np.zeros(pairs + 1, np.bool_), np.zeros(pairs + 1, np.bool_)
        _mark(low, high, shift, size, ends, starts)
        _scan_pairs(code, width, states, shift, ends, starts, prefix, suffix, table)
        for b in range(2 * pairs, blocks):
            last = min((b + 1) << shift, size) - 1
            _scan_block(code, width, states, b << shift, last, prefix, suffix)
            store(width, table, b, load(width, prefix, last))
        # No run reaches further from a middle than the longest does.
        _build_levels(code, width, table, blocks, levels, most >> shift)
        # The level whose middle lies between blocks x and y is the highest bit in which they differ.
        highest_bit = np.zeros(1 << levels, np.uint8)
        for x in range(2, highest_bit.size):
            highest_bit[x] = highest_bit[x >> 1] + 1
        for k in range(low.size):
            a, b = low[k], high[k] - 1
            if a > b:
                continue
            x, y = (a >> shift) + 1, (b >> shift) - 1
            if x > y + 1:
                total = _within_block(code, width, states, a, b, shift, prefix, suffix)
            else:
                total, newest = load(width, suffix, a), load(width, prefix, b)
                if x == y:
                    total = combine(code, total, load(width, table, x))
                elif x < y:
                    row = np.int64(highest_bit[x ^ y]) * blocks
                    total = combine(code, total, load(width, table, row + x))
                    newest = combine(code, load(width, table, row + y), newest)
                total = combine(code, total, newest)
            store(width, out, k, total)

    return answer


@inlined
def _block_shift(mean, partials):  # type: ignore[no-untyped-def]
    """Return the size of blocks, as a power of two, for the mean length of runs and the partials per run.

    Larger blocks have a smaller table, and more runs that lie within one block and are recomputed: the cube
    of the best size grows with both.
    """
    shift = MIN_BLOCK_SHIFT
    while shift < MAX_BLOCK_SHIFT and 8.0**shift < 8 * mean * partials and 4 << shift <= mean:
        shift += 1
    return shift


@inlined
def _mark(low, high, shift, size, ends, starts):  # type: ignore[no-untyped-def]
    """Mark the pairs of blocks that need prefixes or suffixes: a run ends or starts within a block.

    Others need totals, which prefixes or suffixes give. Of many runs, nearly all pairs need both.
    """
    if low.size > size:
        ends[:] = True
        starts[:] = True
    else:
        inside = (1 << shift) - 1
        for k in range(low.size):
            ends[high[k] >> (shift + 1)] |= high[k] & inside != 0
            starts[low[k] >> (shift + 1)] |= low[k] & inside != 0


@inlined
def _scan_pairs(code, width, states, shift, ends, starts, prefix, suffix, table):  # type: ignore[no-untyped-def]  # noqa: PLR0913 (arrays of a kernel)
    """Compute prefixes, suffixes and totals, two blocks at a time: neither waits for the other."""
    block = 1 << shift
    for p in range(ends.size - 1):
        start, middle = p << (shift + 1), (2 * p + 1) << shift
        last = middle + block - 1
        up, next_up = load(width, states, start), load(width, states, middle)
        down, next_down = load(width, states, middle - 1), load(width, states, last)
        store(width, prefix, start, up)
        store(width, prefix, middle, next_up)
        store(width, suffix, middle - 1, down)
        store(width, suffix, last, next_down)
        if not starts[p]:
            for i in range(1, block):
                up = combine(code, up, load(width, states, start + i))
                store(width, prefix, start + i, up)
                next_up = combine(code, next_up, load(width, states, middle + i))
                store(width, prefix, middle + i, next_up)
            store(width, suffix, start, up)
            store(width, suffix, middle, next_up)
        elif not ends[p]:
            for i in range(1, block):
                down = combine(code, load(width, states, middle - 1 - i), down)
                store(width, suffix, middle - 1 - i, down)
                next_down = combine(code, load(width, states, last - i), next_down)
                store(width, suffix, last - i, next_down)
            up, next_up = down, next_down
            store(width, prefix, middle - 1, up)
            store(width, prefix, last, next_up)
        else:
            for i in range(1, block):
                up = combine(code, up, load(width, states, start + i))
                store(width, prefix, start + i, up)
                next_up = combine(code, next_up, load(width, states, middle + i))
                store(width, prefix, middle + i, next_up)
                down = combine(code, load(width, states, middle - 1 - i), down)
                store(width, suffix, middle - 1 - i, down)
                next_down = combine(code, load(width, states, last - i), next_down)
                store(width, suffix, last - i, next_down)
        store(width, table, 2 * p, up)
        store(width, table, 2 * p + 1, next_up)


@inlined
def _scan_block(code, width, states, start, last, prefix, suffix):  # type: ignore[no-untyped-def]
    """Compute the prefixes and suffixes of one block, which may be the short one at the end."""
    up, down = load(width, states, start), load(width, states, last)
    store(width, prefix, start, up)
    store(width, suffix, last, down)
    for i in range(1, last - start + 1):
        up = combine(code, up, load(width, states, start + i))
        store(width, prefix, start + i, up)
        down = combine(code, load(width, states, last - i), down)
        store(width, suffix, last - i, down)


@inlined
def _build_levels(code, width, table, blocks, levels, reach):  # type: ignore[no-untyped-def]
    """Compute the levels above the totals, as far from each middle as any run reaches."""
    for level in range(1, levels):
        row = level * blocks
        middle = 1 << level
        span = min(middle, reach)
        while middle < blocks:
            total = load(width, table, middle - 1)
            store(width, table, row + middle - 1, total)
            for x in range(middle - 2, middle - span - 1, -1):
                total = combine(code, load(width, table, x), total)
                store(width, table, row + x, total)
            total = load(width, table, middle)
            store(width, table, row + middle, total)
            for x in range(middle + 1, min(middle + span, blocks)):
                total = combine(code, total, load(width, table, x))
                store(width, table, row + x, total)
            middle += 2 << level


@inlined
def _within_block(code, width, states, a, b, shift, prefix, suffix):  # type: ignore[no-untyped-def]
    """Answer a run that no whole block lies in: the end of a block, its start, or recomputed."""
    inside = (1 << shift) - 1
    if (b + 1) & inside == 0:
        return load(width, suffix, a)
    if a & inside == 0:
        return load(width, prefix, b)
    total = load(width, states, a)
    for i in range(a + 1, b + 1):
        total = combine(code, total, load(width, states, i))
    return total
