"""Input as chunks, without positions: what readers are compared with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from weft.io.arrow import Batch, as_chunk
from weft.io.files import Chunk, Files
from weft.io.files.chunk import marks_before
from weft.io.sources.ranges import Ranged
from weft.local.readers import is_single
from weft.operators.times import least_time


def is_bounded(batches: Batch | Iterable[Batch]) -> bool:
    """Return whether all input is there: one table, several in a sequence, files, a topic as it is now."""
    return isinstance(batches, Sequence | Files | Ranged) or is_single(batches)


def as_chunks(batches: Batch | Iterable[Batch], time: str) -> Iterator[Chunk]:
    """Yield one table, or each of many; where all are there, each with the least time of those after it."""
    if isinstance(batches, Files):
        return batches.chunks(batches.stream_schema().names, (), time)
    if is_single(batches):
        batches = [batches]
    if not isinstance(batches, Sequence):
        return map(as_chunk, batches)
    chunks = list(map(as_chunk, batches))
    marks = marks_before([least_time(chunk.table, time) for chunk in chunks])
    return (replace(chunk, mark=mark) for chunk, mark in zip(chunks, marks))
