"""Splits: the share of the files that one task reads, of about the same size for every task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

MAX_TASK_BYTES = 1 << 30
"""Bytes that one task reads at most, where files or row groups allow."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file that was found, its size in bytes, and when it was last changed, in nanoseconds."""

    path: str
    size: int
    changed: int | None = None


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A file, or some of the row groups of a Parquet file; ``weight`` in bytes.

    ``least`` has the least event time of each row group in microseconds, None where it is not known;
    ``rows`` has their rows.
    """

    path: str
    weight: int
    row_groups: tuple[int, ...] | None = None
    least: tuple[int | None, ...] = ()
    rows: tuple[int, ...] = ()

    def after(self, rows: int) -> tuple[FileSplit, int]:
        """Return the split without the row groups that lie in its first rows, and how many of these are left.

        >>> FileSplit("a", 9, (0, 1), (7, 8), (10, 20)).after(12)
        (FileSplit(path='a', weight=9, row_groups=(1,), least=(8,), rows=(20,)), 2)
        """
        groups = 0
        while groups < len(self.rows) and self.rows[groups] <= rows:
            rows -= self.rows[groups]
            groups += 1
        if not groups or self.row_groups is None:
            return self, rows
        rest = replace(
            self, row_groups=self.row_groups[groups:], least=self.least[groups:], rows=self.rows[groups:]
        )
        return rest, rows


def balance(splits: Sequence[FileSplit], tasks: int, least: int) -> list[list[FileSplit]]:
    """Hand out splits to at most so many tasks, none with less than ``least`` bytes where that can be helped.

    The largest goes first, each to the task that has the least: at most 4/3 of the best possible (Graham,
    "Bounds on multiprocessing timing anomalies", 1969).

    >>> splits = [FileSplit("a", 5), FileSplit("b", 4), FileSplit("c", 3), FileSplit("d", 2)]
    >>> shares = balance(splits, tasks=2, least=1)
    >>> [[s.path for s in share] for share in shares]
    [['a', 'd'], ['b', 'c']]
    """
    total = sum(s.weight for s in splits)
    share_count = max(min(tasks, total // max(least, 1)), -(-total // MAX_TASK_BYTES), 1)
    shares: list[list[FileSplit]] = [[] for _ in range(max(1, min(share_count, len(splits))))]
    weights = [0] * len(shares)
    order = {id(s): number for number, s in enumerate(splits)}
    for split in sorted(splits, key=lambda s: -s.weight):
        lightest = weights.index(min(weights))
        shares[lightest].append(split)
        weights[lightest] += split.weight
    return [sorted(share, key=lambda s: order[id(s)]) for share in shares]


def join_row_groups(splits: Sequence[FileSplit]) -> list[FileSplit]:
    """Merge neighbouring splits of one file, so that it is opened once.

    >>> joined = join_row_groups([FileSplit("a", 1, (0,)), FileSplit("a", 2, (1,)), FileSplit("b", 1)])
    >>> [(split.path, split.row_groups) for split in joined]
    [('a', (0, 1)), ('b', None)]
    """
    merged: list[FileSplit] = []
    for split in splits:
        last = merged[-1] if merged else None
        if last and last.path == split.path and last.row_groups is not None and split.row_groups is not None:
            merged[-1] = FileSplit(
                last.path,
                last.weight + split.weight,
                (*last.row_groups, *split.row_groups),
                (*last.least, *split.least),
                (*last.rows, *split.rows),
            )
        else:
            merged.append(split)
    return merged
