"""Notes that positions of sources name: which files a stream has read, written once, kept in the checkpoint.

positions/<digest>                                   some of the files that were taken
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from weft.errors import CheckpointError
from weft.io.filesystem import write_atomically
from weft.store.checkpoint import Checkpoint
from weft.store.folder import POSITIONS
from weft.store.log import Entry

NOTE_FILE = re.compile(r"[0-9a-z.]+")
REMEDY = (
    "it says which files were read: restore it from a backup, or start again with an empty checkpoint "
    "directory"
)


def note_name(data: bytes) -> str:
    """Return the name of a note, which is made of it, so that another one never meets it.

    >>> note_name(b"{}")
    '44136fa355b3678a1146'
    """
    return sha256(data).hexdigest()[:20]


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

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint, self._folder = checkpoint, checkpoint.folder

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
        """Return a note; CheckpointError where it is missing or damaged."""
        path = self._folder.file(POSITIONS, name)
        try:
            with self._folder.system.open_input_file(path) as source:
                data = bytes(source.read())
        except OSError as error:
            raise CheckpointError(f"'{path}' cannot be read: {error}; {REMEDY}") from error
        if note_name(data) != name:
            raise CheckpointError(f"'{path}' is damaged; {REMEDY}")
        return data

    def sweep(self) -> None:
        """Remove the notes that no entry names; only while nothing is being read, which writes new ones."""
        # Listed first: a note that another driver writes from here on is not among them, and the entries that
        # name those it has written before are read after that.
        listed = self._folder.names(POSITIONS, NOTE_FILE)
        named = notes_of(self._checkpoint.kept_entries())
        if self._checkpoint.still_mine():
            self._folder.delete(POSITIONS, [name for name in listed if name not in named])
