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
from weft.final.batch import doubling_slide_kernel, prefix_slide_kernel
from weft.final.card import Card
from weft.final.kernels import compile_kernel
from weft.final.recompute import Recompute
from weft.final.technique import Kernel, Technique, longest
from weft.final.twostacks import TwoStacks
from weft.final.window import SlidingWindow

CARD = Card(
    title="bulk",
    paper="this project, after van Herk 1992, Gil and Werman 1993, and Arasu and Widom, VLDB 2004",
    amortised="2 with an inverse, else 5 in a batch and 3 + sqrt n step by step",
    worst="a whole batch at once",
    all_queries="n with an inverse, else 3n in a batch",
    space="n with an inverse, else 2n and n/32 log2 n",
)

SHIFT = 5
BLOCK = 1 << SHIFT


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

    def _answer(self, low: np.ndarray, high: np.ndarray, out: np.ndarray) -> None:
        make = _prefix_kernel if self.monoid.invertible else self.answer_kernel
        order = np.zeros(0, dtype=np.int64)
        if (high - low).sum() <= len(self.words) // self.monoid.width:
            # A structure over all states would cost more than these few runs.
            make, order = Recompute.answer_kernel, np.arange(len(low))
        kernel = make(self.monoid.code, self.monoid.width)
        kernel(self.words, low, high, order, self.neutral, out)

    @staticmethod
    def answer_kernel(code: int, width: int) -> Kernel:
        """That of blocks, for any associative combine; it needs no order."""
        return _block_kernel(code, width)

    @classmethod
    def slide_kernel_for(cls, monoid: Monoid) -> Kernel:
        """Prefix differences or doubling, where the monoid allows either."""
        if monoid.invertible:
            return prefix_slide_kernel(monoid.code, monoid.width)
        if monoid.selective:
            return doubling_slide_kernel(monoid.code, monoid.width)
        return cls.slide_kernel(monoid.code, monoid.width)

    @staticmethod
    def slide_kernel(code: int, width: int) -> Kernel:
        """That of TwoStacks, a prefix and a suffix scan per window, for any associative combine."""
        return TwoStacks.slide_kernel(code, width)


@cache
def _prefix_kernel(code: int, width: int) -> Kernel:
    @compile_kernel
    def answer(states, low, high, order, neutral, out):  # type: ignore[no-untyped-def]
        size = states.size // width
        prefix = np.empty((size + 1) * width, np.int64)
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
    def answer(states, low, high, order, neutral, out):  # type: ignore[no-untyped-def]
        size = states.size // width
        blocks = (size + BLOCK - 1) >> SHIFT
        levels = 1
        while 1 << levels < blocks:
            levels += 1
        prefix, suffix = np.empty(size * width, np.int64), np.empty(size * width, np.int64)
        table = np.empty(levels * blocks * width, np.int64)
        for b in range(blocks):
            start = b << SHIFT
            stop = min(start + BLOCK, size)
            total = load(width, states, start)
            store(width, prefix, start, total)
            for i in range(start + 1, stop):
                total = combine(code, total, load(width, states, i))
                store(width, prefix, i, total)
            store(width, table, b, total)
            total = load(width, states, stop - 1)
            store(width, suffix, stop - 1, total)
            for i in range(stop - 2, start - 1, -1):
                total = combine(code, load(width, states, i), total)
                store(width, suffix, i, total)
        # No run reaches further from a middle than the longest does.
        reach = longest(low, high) >> SHIFT
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
        # The level whose middle lies between blocks x and y is the highest bit in which they differ.
        highest_bit = np.zeros(1 << levels, np.uint8)
        for x in range(2, highest_bit.size):
            highest_bit[x] = highest_bit[x >> 1] + 1
        for k in range(low.size):
            a, b = low[k], high[k] - 1
            if a > b:
                continue
            x, y = (a >> SHIFT) + 1, (b >> SHIFT) - 1
            if x > y + 1:
                total = load(width, states, a)
                for i in range(a + 1, b + 1):
                    total = combine(code, total, load(width, states, i))
            else:
                total = load(width, suffix, a)
                if x == y:
                    total = combine(code, total, load(width, table, x))
                elif x < y:
                    row = np.int64(highest_bit[x ^ y]) * blocks
                    total = combine(code, total, load(width, table, row + x))
                    total = combine(code, total, load(width, table, row + y))
                total = combine(code, total, load(width, prefix, b))
            store(width, out, k, total)

    return answer
