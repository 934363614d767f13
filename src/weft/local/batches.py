"""The batches that a run in this process is fed with: whether they end, and what is known of those unread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from weft.io.arrow import Batch, as_chunk
from weft.io.files import Chunk, Files
from weft.io.files.chunk import marks_before
from weft.io.sources.ranges import Ranged
from weft.operators.times import least_time


def is_bounded(batches: Batch | Iterable[Batch]) -> bool:
    """Return whether all input is there: one table, several in a sequence, files, a topic as it is now.

    >>> is_bounded([pa.table({"x": [1]})]), is_bounded(iter([pa.table({"x": [1]})]))
    (True, False)
    """
    return isinstance(batches, Sequence | Files | Ranged) or _is_single(batches)


def _is_single(batches: Batch | Iterable[Batch]) -> bool:
    if isinstance(batches, pa.Table | pa.RecordBatch | Chunk) or hasattr(batches, "__arrow_c_stream__"):
        return True
    return hasattr(batches, "to_arrow") or not isinstance(batches, Iterable)


def as_chunks(batches: Batch | Iterable[Batch], time: str) -> Iterator[Chunk]:
    """One table, or each of many; where all are there, each with the least time of those after it."""
    if isinstance(batches, Files):
        return batches.chunks(batches.stream_schema().names, (), time)
    if _is_single(batches):
        batches = [batches]
    if not isinstance(batches, Sequence):
        return map(as_chunk, batches)
    chunks = list(map(as_chunk, batches))
    marks = marks_before([least_time(chunk.table, time) for chunk in chunks])
    return (replace(chunk, mark=mark) for chunk, mark in zip(chunks, marks))
