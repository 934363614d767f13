"""Readers: the input of a run in this process, each chunk with the position from which reading goes on.

A run commits the position of the chunks that it has taken together with their state, and one that goes on
from a position gets every row after it, once, in the same order.

| source | position |
|---|---|
| tables, iterators | the number of batches taken in this run; to go on, it is given the same ones again |
| files | the listings taken, and a place in the last of them (``file_history``) |
| numbered rows | the offsets, and those up to which the range that was begun is read |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from weft.errors import JobError
from weft.io.arrow import Batch, as_chunk
from weft.io.files import Chunk, Files
from weft.io.files.chunk import marks_before
from weft.io.files.listing import list_files
from weft.io.files.source import Columns
from weft.io.sources.ranges import Offsets, Ranged, between, limited
from weft.local.file_history import FileHistory, PositionLog
from weft.operators.times import least_time


class Read(NamedTuple):
    """A chunk and the position after it, as JSON; None where none is kept."""

    chunk: Chunk
    position: Any


class InputReader(Protocol):
    """One input of a run.

    ``bounded`` says that all of it is there: it ends, and chunks may say what is unread.
    """

    schema: pa.Schema
    bounded: bool

    def reads(self, columns: Columns, position: Any | None) -> Iterator[Read | None]:
        """Yield the chunks after a position (None: from the beginning), and None whenever none has come.

        ``columns`` is asked for the names whenever a file or range is opened; tables pass as they are.
        """
        ...

    def position_for_next_run(self, position: Any) -> Any:
        """Return the position where a run that begins after this one has come to its end goes on.

        A run commits it with its last step, that of the end of all its inputs, instead of ``position``, the
        last that it was given: new tables are counted from 0 again, while files and offsets go on.
        """
        ...


def reader_of(
    source: Batch | Iterable[Batch] | Files | Ranged,
    time: str,
    *,
    live: bool = False,
    log: PositionLog | None = None,
) -> InputReader:
    """Return the reader of a table, of several, of an iterator, of files or of numbered rows.

    ``live`` inputs go on after what is there now. Files have positions where there is a ``log`` for them.

    >>> reader = reader_of([pa.table({"x": [1, 2]}), pa.table({"x": [3]})], "ts")
    >>> [(read.chunk.table["x"].to_pylist(), read.position) for read in reader.reads(lambda: ((), ()), 1)]
    [([3], 2)]
    """
    if isinstance(source, Files):
        return FilesReader(source, time, live, log)
    if isinstance(source, Ranged):
        return RangedReader(source, live)
    if is_single(source):
        source = [source]
    return TablesReader(source, time) if isinstance(source, Sequence) else IteratorReader(source, live)


def is_single(source: Any) -> bool:
    """Return whether this is one table, of any library."""
    if isinstance(source, pa.Table | pa.RecordBatch | Chunk) or hasattr(source, "__arrow_c_stream__"):
        return True
    return hasattr(source, "to_arrow") or not isinstance(source, Iterable)


class TablesReader:
    """Tables in memory, which know the least time of those unread."""

    bounded = True

    def __init__(self, batches: Sequence[Batch], time: str) -> None:
        chunks = list(map(as_chunk, batches))
        marks = marks_before([least_time(chunk.table, time) for chunk in chunks])
        self._chunks = [replace(chunk, mark=mark) for chunk, mark in zip(chunks, marks)]
        self.schema = _first(iter(self._chunks)).table.schema

    def reads(self, columns: Columns, position: int | None) -> Iterator[Read]:
        """Yield the tables after the first ``position``."""
        taken = position or 0
        if taken > len(self._chunks):
            raise _too_few(taken, len(self._chunks))
        yield from map(Read, self._chunks[taken:], range(taken + 1, len(self._chunks) + 1))

    def position_for_next_run(self, position: int) -> int:
        """Return 0: the tables of the next run are new."""
        return 0


class IteratorReader:
    """Batches of an iterator, whose end is not known. Where it is ``live``, None says that none has come."""

    bounded = False

    def __init__(self, batches: Iterable[Batch], live: bool) -> None:
        self._left = (None if live and batch is None else as_chunk(batch) for batch in batches)
        self._begun = _first(chunk for chunk in self._left if chunk is not None)
        self.schema = self._begun.table.schema

    def reads(self, columns: Columns, position: int | None) -> Iterator[Read | None]:
        """Yield the batches after the first ``position``; it can be asked once."""
        taken, number = position or 0, 1
        chunk: Chunk | None = self._begun
        del self._begun  # so that it is let go once it was worked on
        while True:
            if chunk is None:
                yield None
            elif number > taken:
                yield Read(chunk, number)
            try:
                chunk = next(self._left)
            except StopIteration:
                break
            number += chunk is not None
        if number < taken:
            raise _too_few(taken, number)

    def position_for_next_run(self, position: int) -> int:
        """Return 0: the batches of the next run are new."""
        return 0


def _first(chunks: Iterator[Chunk]) -> Chunk:
    chunk = next(chunks, None)
    if chunk is None:
        raise JobError(
            "there is no batch to run over; give at least one, which may have no rows but its columns"
        )
    return chunk


def _too_few(taken: int, given: int) -> JobError:
    return JobError(
        f"the run that was interrupted had taken {taken} batches, and this one is given {given}; give it the "
        "same batches again, so that it can go on after those, or begin anew with another checkpoint"
    )


class FilesReader:
    """Files; a run that ends takes those that are there when it begins, a live one looks for more."""

    def __init__(self, files: Files, time: str, live: bool, log: PositionLog | None) -> None:
        self.schema, self.bounded = files.stream_schema(), not live
        self._files, self._log = files, log
        self._time = None if live else time

    def reads(self, columns: Columns, position: Any | None) -> Iterator[Read | None]:
        """Yield the rows of listings that were begun, then of new files."""
        history = FileHistory.of(self._log, position)
        resumed = position is not None
        while True:
            # Where the run ends, new files are taken at once: the marks of the others must know them.
            if self.bounded or history.is_read():
                self._take_new(history, resumed)
            if history.is_read() and not self.bounded:
                yield None
                continue
            for chunk in self._files.read_listing(history.files, columns, self._time, history.place):
                history.place = chunk.place
                yield Read(chunk, history.position())
            history.end_listing()
            if self.bounded:
                return

    def position_for_next_run(self, position: Any) -> Any:
        """Return the position as it is."""
        return position

    def _take_new(self, history: FileHistory, resumed: bool) -> None:
        listed = self._files.find() if self.bounded and not resumed else list_files(self._files.places)
        most = None if self.bounded else self._files.max_files_per_batch
        if new := history.new_among(listed)[:most]:
            history.take(new)


class RangedReader:
    """Numbered rows, such as those of a topic: up to the last there is when it begins, or live."""

    def __init__(self, source: Ranged, live: bool) -> None:
        self.schema, self.bounded = source.stream_schema(), not live
        self._source = source

    def reads(self, columns: Columns, position: Any | None) -> Iterator[Read | None]:
        """Yield the rows after the offsets: the range that was begun, then those that follow."""
        source = self._source
        start = source.first() if position is None else position["offsets"]
        end = start if position is None else {**start, **position["until"]}
        latest = source.latest(start) if self.bounded else None
        while True:
            if start == end:
                end = limited(start, latest or source.latest(start), source.max_rows_per_batch)
            if start != end:
                yield from self._read_between(start, end, columns)
                start = end
            elif self.bounded:
                return
            else:
                yield None

    def _read_between(self, start: Offsets, end: Offsets, columns: Columns) -> Iterator[Read]:
        """Yield the rows between offsets, one partition after the other."""
        ranges = sorted(between(start, end), key=lambda span: (len(span.partition), span.partition))
        if not ranges:
            return  # A partition has come, and is empty.
        schema = pa.schema([self.schema.field(name) for name in columns()[0]])
        offsets, reading = {**start}, iter(ranges)
        span = next(reading)
        for chunk in self._source.read_in_turn(ranges, schema):
            while chunk.origins and span.partition != chunk.origins[-1][0]:
                offsets[span.partition] = span.end
                span = next(reading)
            offsets[span.partition] = chunk.place
            until = {span.partition: span.end for span in between(offsets, end)}
            yield Read(chunk, {"offsets": {**offsets}, "until": until})

    def position_for_next_run(self, position: Any) -> Any:
        """Return the position as it is."""
        return position
