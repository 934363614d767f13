"""Signatures of a stream's rows in a chain: for which of the chain's queries a row counts.

A row counts for a query if it satisfies its selection on this stream, and came after the query did. The
largest range among its queries is how long it can be of use: its lineage (the tuple lineage of Madden et al.,
SIGMOD 2002, in Wang, section 7.4).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class Signatures:
    """The signatures of one side, numbered as they come; one row of booleans each, one column per query."""

    def __init__(self, queries: int) -> None:
        self.bits = np.zeros((0, queries), np.bool_)
        self._numbers: dict[bytes, int] = {}

    def number(self, bits: np.ndarray) -> np.ndarray:
        """The number of each row of booleans.

        >>> signatures = Signatures(2)
        >>> signatures.number(np.array([[True, False], [True, True], [True, False]])).tolist()
        [0, 1, 0]
        """
        numbers = np.empty(len(bits), np.int32)
        for place, row in enumerate(bits):
            key = row.tobytes()
            if key not in self._numbers:
                self._numbers[key] = len(self.bits)
                self.bits = np.vstack([self.bits, row])
            numbers[place] = self._numbers[key]
        return numbers

    def reach(self, ranges: Sequence[int]) -> np.ndarray:
        """For each signature the largest of its queries' ranges; 0 where it has no query."""
        if not len(self.bits):
            return np.zeros(0, np.int64)
        return np.where(self.bits, np.asarray(ranges, np.int64), 0).max(axis=1, initial=0)
