"""Steps over the files of a batch: so many of each stream as it may have, or as take as long as was asked.

A batch has all files that are new. It is cut into *portions*, the least that a step takes, and a checkpoint
counts the portions that are taken. Where several steps take a batch, its portions are written down before the
first, so that a run that goes on with other limits counts the same ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from weft.io.files import Files
from weft.spark.batch_files import ByStream, Listing
from weft.spark.pace import Pace

UNLIMITED_FILES = 1 << 62
"""Files of a step where it may have any number."""

Settle: TypeAlias = Callable[[int, Listing], Listing]
"""Writes down the files of a batch; ``batch_files.settle`` with a checkpoint."""


@dataclass(frozen=True, slots=True)
class FileStep:
    """Files that one step takes; ``taken`` are the portions of the batch that are taken then, None: all."""

    files: ByStream
    taken: int | None


class FileSteps:
    """Cuts batches of files of any number of streams into steps, the oldest files first."""

    def __init__(self, files: Mapping[str, Files], pace: Pace | None = None) -> None:
        self.pace = pace
        self._limits = {s: f.max_files_per_batch or UNLIMITED_FILES for s, f in files.items()}

    def of_batch(self, batch_id: int, listed: ByStream, taken: int, settle: Settle) -> Iterator[FileStep]:
        """Yield the steps of a batch after the portions ``taken``: one at least, without any file if need be.

        The next is asked for when the step is done.
        """
        portions = self._portions(listed)
        if taken or len(portions) > (1 if self.pace else self._allowed(portions)):
            portions = self._settled(settle(batch_id, portions))
        while True:
            count = self._allowed(portions[taken:])
            if self.pace is not None and count:
                count = self.pace.take([size_of(p) for p in portions[taken : taken + count]])
            files = self._together(portions[taken : taken + count])
            taken += count
            ends = taken >= len(portions)
            began = time.perf_counter()
            yield FileStep(files, None if ends else taken)
            if self.pace is not None and count:
                self.pace.learn(size_of(files), time.perf_counter() - began, full=not ends)
            if ends:
                return

    def _portions(self, listed: ByStream) -> Sequence[ByStream]:
        if self.pace is not None or len(self._limits) == 1:
            return one_file_each(listed)
        return self._rounds(listed)

    def _rounds(self, listed: ByStream) -> Sequence[ByStream]:
        """Cut files into portions of as many of each stream as a step may have."""
        count = max((-(-len(files) // self._limits[s]) for s, files in listed.items()), default=0)
        return [
            {s: files[n * self._limits[s] :][: self._limits[s]] for s, files in listed.items()}
            for n in range(count)
        ]

    def _settled(self, listing: Listing) -> Sequence[ByStream]:
        """Return the portions of a batch that were written down.

        Earlier versions wrote down files, and counted those of one stream, and the rounds of several. The
        name of a stream that is the only one with files may have been another.
        """
        if len(self._limits) == 1:
            (stream,) = self._limits
            whole = [listing] if isinstance(listing, Mapping) else listing
            listing = [{stream: files} for portion in whole for files in portion.values()]
            return [p for files in listing for p in one_file_each(files)]
        return self._rounds(listing) if isinstance(listing, Mapping) else listing

    def _allowed(self, portions: Sequence[ByStream]) -> int:
        """Return how many of these portions a step may take: one, and more while no stream has too many."""
        room = dict(self._limits)
        for count, portion in enumerate(portions):
            for stream, files in portion.items():
                room[stream] -= len(files)
            if count and min(room.values()) < 0:
                return count
        return len(portions)

    def _together(self, portions: Sequence[ByStream]) -> ByStream:
        return {
            stream: [f for portion in portions for f in portion.get(stream, ())] for stream in self._limits
        }


def one_file_each(listed: ByStream) -> Sequence[ByStream]:
    """Cut files into portions of one, so that all streams are through with the same share of their files.

    >>> from weft.io.files import ListedFile
    >>> portions = one_file_each({"a": [ListedFile(n, 1) for n in "1234"], "b": [ListedFile("5", 1)] * 2})
    >>> [(stream, files[0].path) for portion in portions for stream, files in portion.items()]
    [('a', '1'), ('a', '2'), ('b', '5'), ('a', '3'), ('a', '4'), ('b', '5')]
    """
    places = sorted((n / len(files), s, n) for s, files in listed.items() for n in range(1, len(files) + 1))
    return [{stream: listed[stream][number - 1 : number]} for _, stream, number in places]


def size_of(portion: ByStream) -> int:
    """Return the bytes of files."""
    return sum(file.size for files in portion.values() for file in files)
