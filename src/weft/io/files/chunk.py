"""Chunks: rows as a source gives them, and small ones made into large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa

from weft.model.instants import END_OF_TIME

CHUNK_ROWS = 1 << 20
MAX_CHUNK_BYTES = 512 << 20
REJECTED_SCHEMA = pa.schema(
    {"partition": pa.string(), "number": pa.int64(), "value": pa.binary(), "reason": pa.string()}
)
"""The columns of rows that cannot be read: their place, their bytes, and the reason."""


Origins = tuple[tuple[str, int], ...]
"""Partitions, and how many rows, one after the other, are of each."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows; how many rows or values were skipped as bad on the way; files skipped whole; and, of the
    bad rows, those that the source can show, in the columns of ``REJECTED_SCHEMA``.

    ``origins`` says of how many rows, one after the other, which partition they are, where a stream has
    several; ``unread`` are partitions that have more rows, which are read next. ``mark`` is a time before
    which no row is still unread (in microseconds; END_OF_TIME: nothing is unread; None: not known). ``place``
    is where reading goes on after the last row: the number of the partition's next row, or a ``FilePlace``.
    """

    table: pa.Table
    bad: int = 0
    skipped: tuple[str, ...] = ()
    rejected: pa.Table | None = None
    origins: Origins = ()
    unread: frozenset[str] = frozenset()
    mark: int | None = None
    place: Any = None

    def cut(self, rows: int) -> Iterator[tuple[pa.Table, Origins]]:
        """Yield tables of so many rows each, with their partitions.

        >>> chunk = Chunk(pa.table({"x": [1, 2, 3]}), origins=(("0", 1), ("1", 2)))
        >>> [(table.num_rows, origins) for table, origins in chunk.cut(2)]
        [(2, (('0', 1), ('1', 1))), (1, (('1', 1),))]
        """
        ends = list(accumulate(count for _, count in self.origins))
        for start in range(0, self.table.num_rows, rows):
            table = self.table.slice(start, rows)
            stop = start + table.num_rows
            overlaps = (
                (partition, min(end, stop) - max(end - count, start))
                for (partition, count), end in zip(self.origins, ends)
            )
            yield table, tuple((partition, count) for partition, count in overlaps if count > 0)


def regroup(chunks: Iterable[Chunk], rows: int = CHUNK_ROWS) -> Iterator[Chunk]:
    """Yield the same rows in chunks of about so many rows, all in the same columns.

    >>> small = [Chunk(pa.table({"x": [i]}), bad=i) for i in range(3)]
    >>> [(c.table.num_rows, c.bad) for c in regroup(small, rows=2)]
    [(2, 1), (1, 2)]
    """
    waiting: list[Chunk] = []
    for chunk in chunks:
        if waiting and waiting[-1].table.schema != chunk.table.schema:
            yield _merge(waiting)
            waiting = []
        waiting.append(chunk)
        row_count = sum(c.table.num_rows for c in waiting)
        if row_count >= rows or sum(c.table.nbytes for c in waiting) >= MAX_CHUNK_BYTES:
            yield _merge(waiting)
            waiting = []
    if waiting:
        yield _merge(waiting)


def _merge(chunks: list[Chunk]) -> Chunk:
    if len(chunks) == 1:
        return chunks[0]
    return Chunk(
        pa.concat_tables([c.table for c in chunks]),
        sum(c.bad for c in chunks),
        tuple(name for c in chunks for name in c.skipped),
        pa.concat_tables(shown)
        if (shown := [c.rejected for c in chunks if c.rejected is not None])
        else None,
        tuple(origin for c in chunks for origin in c.origins),
        chunks[-1].unread,
        chunks[-1].mark,
        chunks[-1].place,
    )


def marks_before(least: Sequence[int | None]) -> list[int | None]:
    """Return, for each part of the input, a time before which nothing of the parts after it is.

    ``least`` has the least time of each part, END_OF_TIME where it has no row; None: not known, before or
    after.

    >>> marks_before([5, 1, 7]) == [1, 7, END_OF_TIME], marks_before([5, None, 7]) == [None, 7, END_OF_TIME]
    (True, True)
    """
    marks: list[int | None] = [END_OF_TIME]
    for time in reversed(least[1:]):
        marks.append(least_of((marks[-1], time)))
    return marks[::-1]


def least_of(marks: Iterable[int | None]) -> int | None:
    """Return the least of the marks; None where one is not known.

    >>> least_of([3, 5]), least_of([3, None]), least_of([]) == END_OF_TIME
    (3, None, True)
    """
    least = END_OF_TIME
    for mark in marks:
        if mark is None:
            return None
        least = min(least, mark)
    return least
