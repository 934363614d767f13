"""The sliced state of one stream: slice i holds the rows whose age is in ``[ends[i-1], ends[i])``.

Age is counted from the least time that a row of the other stream can still have, so a row leaves its slice
only when no such row can need it there (lazy purging, Wang, section 15.2.2). Splitting and merging are
those of figures 7.4 and 7.5; there are no queues to empty, since a step runs all slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from weft.operators.joins.rows import JoinRows, SliceRows, add, concat


class Slices:
    """One stream's rows in slices of age.

    ``reach`` says for each signature until which age its rows are of use.
    """

    def __init__(self, ends: Sequence[int]) -> None:
        self.ends = list(ends)
        self.runs: list[list[SliceRows]] = [[] for _ in self.ends]

    def __len__(self) -> int:
        return sum(self.sizes)

    @property
    def sizes(self) -> list[int]:
        """Return how many rows each slice holds."""
        return [sum(map(len, runs)) for runs in self.runs]

    def __iter__(self) -> Iterator[tuple[int, list[SliceRows]]]:
        """The slices that hold rows: where each starts, and its rows."""
        for start, runs in zip([0, *self.ends], self.runs):
            if runs:
                yield start, runs

    def insert(self, rows: JoinRows) -> None:
        """Rows begin in the first slice."""
        add(self.runs[0], rows)

    def purge(self, now: int, reach: np.ndarray) -> None:
        """Move rows that are too old for their slice to the next, and drop those of no use there."""
        for number, end in enumerate(self.ends):
            moved, stay = [], list[SliceRows]()
            for run in self.runs[number]:
                cut = int(np.searchsorted(run.rows.times, now - end, side="right"))
                if cut <= run.start:
                    stay.append(run)
                    continue
                moved.append(run.rows.part(run.start, cut))
                if cut < len(run.rows):
                    rest = SliceRows(run.rows, cut)
                    # A run most of whose rows have left is copied, so that they leave the memory too.
                    stay.append(rest if 2 * cut < len(run.rows) else SliceRows(copied(rest.living())))
            self.runs[number] = stay
            if moved and number + 1 < len(self.ends):
                add(self.runs[number + 1], useful(concat(moved), end, reach))

    def split(self, end: int) -> None:
        """Let a slice end earlier; what it then holds too long moves on with the next purge (figure 7.4)."""
        at = int(np.searchsorted(self.ends, end))
        self.ends.insert(at, end)
        self.runs.insert(min(at + 1, len(self.runs)), [])

    def merge(self, end: int) -> None:
        """Join the slice that ends here and the next one (figure 7.5); the last slice is dropped."""
        at = self.ends.index(end)
        self.ends.pop(at)
        if at == len(self.ends):
            self.runs.pop()
        else:
            self.runs[at] = self.runs.pop(at + 1) + self.runs[at]

    def reshape(self, ends: Sequence[int], reach: np.ndarray) -> None:
        """Split and merge until the slices end at ``ends``, and drop rows that are of no more use."""
        for end in ends:
            if end not in self.ends:
                self.split(end)
        for end in sorted(set(self.ends) - set(ends), reverse=True):
            self.merge(end)
        for number, start in enumerate([0, *self.ends[:-1]]):
            left = [useful(run.living(), start, reach) for run in self.runs[number]]
            self.runs[number] = [SliceRows(rows) for rows in left if len(rows)]


def useful(rows: JoinRows, age: int, reach: np.ndarray) -> JoinRows:
    """The rows that some query can still need at this age."""
    mask = reach[rows.signatures] > age
    return rows if mask.all() else rows.take(np.flatnonzero(mask))


def copied(rows: JoinRows) -> JoinRows:
    """The rows without the memory of those that were beside them."""
    return rows.take(np.arange(len(rows)))
