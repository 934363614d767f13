"""The files that a stream has taken, over all its runs, and how far it has read those that it is reading.

A listing is settled when it is begun: its files, in their order, are written down under a name that is made
of them, and never change. A position then names listings, and a place in the files of those being read:

    seen: a71c... 90fe...      listings of files that were read, merged where they become many
    open: 5b02...              listings being read, as one list of files
    file: 3, rows: 2097152     the place in that list

so that it is small however many files were taken, and a run that goes on from it reads the same files in the
same order. Listings of half the size of the next one or less stay as they are: of n files there are at most
about ``MAX_SEPARATE_LISTINGS`` + log2(n).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from weft.errors import JobError
from weft.io.files.listing import age, find_file
from weft.io.files.source import FIRST_PLACE, FilePlace
from weft.io.files.split import ListedFile
from weft.store.positions import note_name

MAX_SEPARATE_LISTINGS = 8
"""Listings of files that were read, up to which none are merged."""


class PositionLog(Protocol):
    """Immutable notes that positions name, kept as long as one of these may be gone on from."""

    def write(self, name: str, data: bytes) -> None:
        """Keep a note; one that is there already has the same data, and stays."""
        ...

    def read(self, name: str) -> bytes:
        """Return a note."""
        ...


@dataclass(frozen=True, slots=True)
class _Listing:
    """A listing that was settled: its name in the log, and its files."""

    name: str
    files: Sequence[ListedFile]


@dataclass
class FileHistory:
    """The files taken so far; ``files`` are those being read, up to the ``place``.

    Without a ``log`` it is known for this run alone, and there are no positions.
    """

    log: PositionLog | None
    files: list[ListedFile] = field(default_factory=list)
    place: FilePlace = FIRST_PLACE
    _paths: set[str] = field(default_factory=set)
    _seen: list[_Listing] = field(default_factory=list)
    _open: list[_Listing] = field(default_factory=list)

    @classmethod
    def of(cls, log: PositionLog | None, position: Any | None) -> FileHistory:
        """The history up to a position; JobError where a file of which a part was read has changed."""
        history = cls(log)
        if log is None or position is None:
            return history
        history._seen = [_read(log, name) for name in position["seen"]]
        history._open = [_read(log, name) for name in position["open"]]
        history.files = [file for listing in history._open for file in listing.files]
        history._paths = {file.path for listing in history._seen for file in listing.files}
        history._paths |= {file.path for file in history.files}
        history.place = FilePlace(position["file"], position["rows"])
        if history.place.rows:
            _check_unchanged(history.files[history.place.file], history.place.rows)
        return history

    def new_among(self, files: Sequence[ListedFile]) -> list[ListedFile]:
        """Return the files that were not taken yet and have content; one is known by its path."""
        return [file for file in files if file.size > 0 and file.path not in self._paths]

    def is_read(self) -> bool:
        """Return whether all files taken were read."""
        return self.place.file >= len(self.files)

    def take(self, files: Sequence[ListedFile]) -> None:
        """Settle a listing of new files, which are read after those taken before."""
        if self.is_read():
            self._seen += self._open
            self._open, self.files, self.place = [], [], FIRST_PLACE
            self._merge()
        self._open.append(_Listing("" if self.log is None else _write(self.log, files), files))
        self.files = [*self.files, *files]
        self._paths |= {file.path for file in files}

    def end_listing(self) -> None:
        """Move behind the last file, where the last ones had no row."""
        self.place = FilePlace(len(self.files))

    def position(self) -> dict[str, Any] | None:
        """Return the place among all files, as JSON."""
        if self.log is None:
            return None
        names = ([listing.name for listing in listings] for listings in (self._seen, self._open))
        return dict(zip(("seen", "open"), names)) | self.place._asdict()

    def _merge(self) -> None:
        """Merge the last listings where there are many, as far as none is twice as long as all after it."""
        if self.log is None:
            self._seen = []
            return
        if len(self._seen) <= MAX_SEPARATE_LISTINGS:
            return
        merged = [*self._seen.pop().files]
        while self._seen and len(self._seen[-1].files) < 2 * len(merged):
            merged = [*self._seen.pop().files, *merged]
        self._seen.append(_Listing(_write(self.log, merged), merged))


def _write(log: PositionLog, files: Sequence[ListedFile]) -> str:
    """Write a listing, and return its name."""
    data = json.dumps({"files": [[f.path, f.size, f.changed] for f in files]}).encode()
    name = note_name(data)
    log.write(name, data)
    return name


def _read(log: PositionLog, name: str) -> _Listing:
    return _Listing(name, [ListedFile(*file) for file in json.loads(log.read(name))["files"]])


def _check_unchanged(file: ListedFile, rows: int) -> None:
    now = find_file(file.path)
    if now is None or (now.size, age(now)) != (file.size, age(file)):
        raise JobError(
            f"file '{file.path}' {'is gone' if now is None else 'has changed'}, and the stream has counted "
            f"{rows} of its rows, not yet the others; put it back as it was, or begin anew with another "
            "checkpoint"
        )
