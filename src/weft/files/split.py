"""Splits: the share of the files that one task reads, of about the same size for every task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LARGEST = 1 << 30
"""Bytes that one task reads at most, where files or row groups allow."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file that was found, its size in bytes, and when it was last changed, in nanoseconds."""

    path: str
    size: int
    changed: int | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """A file, or some of the row groups of a Parquet file; ``weight`` in bytes.

    ``least`` has the least event time of each row group in microseconds, None where it is not known.
    """

    path: str
    weight: int
    row_groups: tuple[int, ...] | None = None
    least: tuple[int | None, ...] = ()


def balance(splits: Sequence[Split], tasks: int, least: int) -> list[list[Split]]:
    """Hand out splits to at most so many tasks, none with less than ``least`` bytes where that can be helped.

    The largest goes first, each to the task that has the least: at most 4/3 of the best possible (Graham,
    "Bounds on multiprocessing timing anomalies", 1969).

    >>> shares = balance([Split("a", 5), Split("b", 4), Split("c", 3), Split("d", 2)], tasks=2, least=1)
    >>> [[s.path for s in share] for share in shares]
    [['a', 'd'], ['b', 'c']]
    """
    total = sum(s.weight for s in splits)
    wanted = max(min(tasks, total // max(least, 1)), -(-total // LARGEST), 1)
    shares: list[list[Split]] = [[] for _ in range(max(1, min(wanted, len(splits))))]
    weights = [0] * len(shares)
    order = {id(s): number for number, s in enumerate(splits)}
    for split in sorted(splits, key=lambda s: -s.weight):
        lightest = weights.index(min(weights))
        shares[lightest].append(split)
        weights[lightest] += split.weight
    return [sorted(share, key=lambda s: order[id(s)]) for share in shares]


def join_row_groups(splits: Sequence[Split]) -> list[Split]:
    """Neighbouring splits of one file as one, so that it is opened once.

    >>> joined = join_row_groups([Split("a", 1, (0,)), Split("a", 2, (1,)), Split("b", 1)])
    >>> [(split.path, split.row_groups) for split in joined]
    [('a', (0, 1)), ('b', None)]
    """
    joined: list[Split] = []
    for split in splits:
        last = joined[-1] if joined else None
        if last and last.path == split.path and last.row_groups is not None and split.row_groups is not None:
            joined[-1] = Split(
                last.path,
                last.weight + split.weight,
                (*last.row_groups, *split.row_groups),
                (*last.least, *split.least),
            )
        else:
            joined.append(split)
    return joined
