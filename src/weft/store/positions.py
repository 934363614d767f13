"""Notes that positions of sources name: which files a stream has read, written once, kept in the checkpoint.

positions/<digest>                                   some of the files that were taken
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from weft.errors import CheckpointError
from weft.io.filesystem import write_atomically
from weft.store.folder import POSITIONS, CheckpointFolder
from weft.store.log import Entry

NOTE_FILE = re.compile(r"[0-9a-z.]+")


def log_names(position: Any) -> list[str]:
    """Return the notes that a position names; a checkpoint keeps those of all positions that it keeps.

    >>> log_names({"seen": ["a", "b"], "open": ["c"], "file": 2, "rows": 0}), log_names({"offsets": {"0": 5}})
    (['a', 'b', 'c'], [])
    """
    return [*position.get("seen", ()), *position.get("open", ())] if isinstance(position, dict) else []


def notes_of(entries: Iterable[Entry]) -> set[str]:
    """Return the notes that the positions of some entries name."""
    return {name for entry in entries for position in entry.offsets.values() for name in log_names(position)}


class CheckpointPositions:
    """The notes of one checkpoint."""

    def __init__(self, folder: CheckpointFolder) -> None:
        self._folder = folder

    def write(self, name: str, data: bytes) -> None:
        """Keep a note; one that is there already has the same data, and stays."""
        path = self._folder.file(POSITIONS, name)
        try:
            write_atomically(self._folder.system, path, data, replace=False)
        except FileExistsError:
            pass
        except OSError as error:
            raise CheckpointError(f"cannot write '{path}': {error}; the step cannot be made") from error

    def read(self, name: str) -> bytes:
        """Return a note."""
        path = self._folder.file(POSITIONS, name)
        try:
            with self._folder.system.open_input_file(path) as source:
                return bytes(source.read())
        except OSError as error:
            raise CheckpointError(
                f"'{path}' cannot be read: {error}; it says which files were read: restore it from a backup, "
                "or start again with an empty checkpoint directory"
            ) from error

    def sweep(self, entries: Iterable[Entry]) -> None:
        """Remove the notes that no entry names; only while nothing is being read, which writes new ones."""
        names = notes_of(entries)
        self._folder.delete(
            POSITIONS, [name for name in self._folder.names(POSITIONS, NOTE_FILE) if name not in names]
        )
