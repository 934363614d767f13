"""Bitmaps: which queries a part of a joined row serves, by its age and by its signature (Wang, chapter 20).

Slice n of a side holds the ages that n of the side's ranges are too short for, so it serves the queries with
longer ones. The AND over all parts says whose a joined row is. Bitmaps are 64 queries to a word.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MAX_AGE = np.iinfo(np.int64).max
"""Age at which the last slice ends, which holds what serves no query."""


class Bitmaps:
    """The bitmaps of every slice of every side; ``ranges`` are those of each query, a row each.

    >>> bitmaps = Bitmaps(np.array([[3, 1], [1, 2]]))      # the first query has the longer range on side 0
    >>> [format(int(bitmaps.of(0, age)[0]), "02b") for age in (0, 1, 2, 3)]
    ['11', '01', '01', '00']
    """

    def __init__(self, ranges: np.ndarray) -> None:
        self.ranges = np.ascontiguousarray(ranges, np.int64)
        queries, sides = self.ranges.shape
        distinct = [np.unique(self.ranges[:, side]) for side in range(sides)]
        longest = max(d.size for d in distinct)
        self.ends = np.full((sides, longest + 1), MAX_AGE, np.int64)
        self.serves = np.zeros((sides, longest + 1, words_for(queries)), np.uint64)
        for side, ends in enumerate(distinct):
            self.ends[side, : ends.size] = ends
            for place, end in enumerate(ends.tolist()):
                self.serves[side, place] = pack(self.ranges[None, :, side] >= end)[0]

    def of(self, side: int, age: int) -> np.ndarray:
        """The bitmap of a part of this age."""
        place = int(np.searchsorted(self.ends[side], age, side="right"))
        bitmap: np.ndarray = self.serves[side, place]
        return bitmap


def words_for(queries: int) -> int:
    """Return how many words a bitmap of so many queries takes."""
    return max(1, -(-queries // 64))


def pack(bits: np.ndarray) -> np.ndarray:
    """Rows of booleans as words.

    >>> pack(np.array([[True, False, True]])).tolist()
    [[5]]
    """
    room = np.zeros((len(bits), 64 * words_for(bits.shape[1])), np.bool_)
    room[:, : bits.shape[1]] = bits
    return np.packbits(room, axis=1, bitorder="little").view(np.uint64)


def unpack(words: np.ndarray, queries: int) -> np.ndarray:
    """The booleans behind ``pack``."""
    raw = np.ascontiguousarray(words).view(np.uint8)
    return np.unpackbits(raw, axis=1, count=queries, bitorder="little").view(np.bool_)


def bit(words: np.ndarray, query: int) -> np.ndarray:
    """Return which of some bitmaps have a query."""
    mask: np.ndarray = (words[:, query // 64] >> np.uint64(query % 64)) & np.uint64(1) == 1
    return mask


def all_within(latest: np.ndarray, parts: np.ndarray, ranges: Sequence[int]) -> np.ndarray:
    """Return which joined rows are within these ranges: each part's age, from the latest, below its own."""
    mask: np.ndarray = (latest[:, None] - parts < np.asarray(ranges, np.int64)).all(axis=1)
    return mask
