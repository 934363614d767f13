"""Sources of numbered rows: a stream is planned as ranges of numbers, and any task can read a range again.

A Kafka topic is one, and so are generated rows. An offset says, for each partition, how many of its rows
come before; Spark keeps the offsets in its checkpoint, which makes a restart go on where the last run was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from weft.io.files.chunk import Chunk

Offsets = Mapping[str, int]
"""By partition, the number of the first row that is not yet taken."""

MIN_TASK_ROWS = 50_000
"""Rows below which a task of its own is not worth its start."""


@dataclass(frozen=True, slots=True)
class Range:
    """The rows of a partition from ``start`` on, before ``end``."""

    partition: str
    start: int
    end: int


class Ranged(ABC):
    """A source whose rows are read by their numbers, with the same rows every time."""

    max_rows_per_batch: int | None = None

    @abstractmethod
    def stream_schema(self) -> pa.Schema:
        """The columns."""

    @abstractmethod
    def first(self) -> dict[str, int]:
        """The offset where a new stream begins."""

    @abstractmethod
    def latest(self, start: Offsets) -> dict[str, int]:
        """The offset up to which there are rows now; ``start`` is where the stream is."""

    @abstractmethod
    def check(self, ranges: Sequence[Range]) -> None:
        """Raise JobError for rows that are no longer there."""

    @abstractmethod
    def read(self, ranges: Iterable[Range], schema: pa.Schema) -> Iterator[Chunk]:
        """The rows of ranges, in these columns; chunks say their partition where there are several, and as
        their ``place`` the number of its next row."""

    def __iter__(self) -> Iterator[Chunk]:
        """All rows that there are now."""
        start = self.first()
        latest = self.latest(start)
        while start != (end := limited(start, latest, self.max_rows_per_batch)):
            yield from self.read_in_turn(between(start, end), self.stream_schema())
            start = end

    def arrivals(self) -> Iterator[Chunk | None]:
        """The rows as they come, and None whenever all that have come were read."""
        start = self.first()
        while True:
            end = limited(start, self.latest(start), self.max_rows_per_batch)
            ranges = between(start, end)
            yield from self.read_in_turn(ranges, self.stream_schema())
            start = end
            if not ranges:
                yield None

    def read_in_turn(self, ranges: Sequence[Range], schema: pa.Schema) -> Iterator[Chunk]:
        """Yield the rows of ranges one after the other, each chunk with the partitions that are read next."""
        self.check(ranges)
        partitions = [span.partition for span in ranges]
        for chunk in self.read(ranges, schema):
            here = partitions.index(chunk.origins[-1][0]) if chunk.origins else len(partitions)
            yield replace(chunk, unread=frozenset(partitions[here:]))


def between(start: Offsets, end: Offsets) -> list[Range]:
    """The ranges that lead from one offset to another; a partition that is new begins at 0.

    >>> between({"0": 5}, {"0": 7, "1": 2})
    [Range(partition='0', start=5, end=7), Range(partition='1', start=0, end=2)]
    """
    return [Range(p, start.get(p, 0), to) for p, to in end.items() if to > start.get(p, 0)]


def limited(start: Offsets, end: Offsets, most: int | None) -> dict[str, int]:
    """An offset no more than about so many rows after ``start``, each partition by its share of what waits.

    >>> limited({"0": 0, "1": 0}, {"0": 90, "1": 10}, 10)
    {'0': 9, '1': 1}
    """
    waiting = sum(r.end - r.start for r in between(start, end))
    if most is None or waiting <= most:
        return {**start, **end}
    taken = {r.partition: r.start - (r.start - r.end) * most // waiting for r in between(start, end)}
    return {**start, **end, **taken}


def share_out(ranges: Iterable[Range], tasks: int, least: int = MIN_TASK_ROWS) -> list[list[Range]]:
    """Cut ranges into the shares of at most so many tasks, of the same size, none smaller than ``least``.

    >>> shares = share_out([Range("a", 0, 6), Range("b", 10, 12)], tasks=2, least=1)
    >>> [[(r.partition, r.start, r.end) for r in share] for share in shares]
    [[('a', 0, 4)], [('a', 4, 6), ('b', 10, 12)]]
    """
    ranges = list(ranges)
    total = sum(r.end - r.start for r in ranges)
    size = max(-(-total // max(tasks, 1)), least)
    shares: list[list[Range]] = [[]]
    room = size
    for span in ranges:
        start = span.start
        while start < span.end:
            if not room:
                shares.append([])
                room = size
            end = min(span.end, start + room)
            shares[-1].append(Range(span.partition, start, end))
            room -= end - start
            start = end
    return shares
