"""Entries of the log that are kept, and removal of what none of them names.

The last steps are kept with all that their state is made of, so that a stream can go on from an older one,
and every step that may not have been delivered, with its answers. A file that has left the state never comes
back, so what a driver finds to be unnecessary while it has the turn stays so, whoever has it since.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weft.errors import CheckpointError
from weft.store.answers import ANSWERS
from weft.store.folder import ANSWER_FILE, CLOCKS, MANIFESTS, STATE_FILE, CheckpointFolder
from weft.store.log import ROLLBACK, START, Entry
from weft.store.sealed import REMEDY
from weft.store.state_files import SLICES
from weft.store.version_file import REGISTRY

KEPT_STEPS = 10
"""Steps that a stream can go on from."""


@dataclass
class RecentEntries:
    """The newest entries of a log, each the parent of the next: as many as are to be kept."""

    entries: list[Entry] = field(default_factory=list)
    swept: int = 0
    """The step up to which answers have been removed."""

    @classmethod
    def read(cls, folder: CheckpointFolder, last: Entry | None) -> RecentEntries:
        """Read the entries that are to be kept."""
        line: list[Entry] = []
        for entry in folder.line(last) if last is not None else ():
            line.insert(0, entry)
            if _is_enough(line):
                break
        return cls(line)

    @property
    def newest(self) -> Entry | None:
        """The newest entry as it is in the log."""
        return self.entries[-1] if self.entries else None

    @property
    def settled(self) -> int:
        """The step up to which answers are not needed, whichever of the last two entries is the last."""
        return self.entries[-2].delivered if len(self.entries) > 1 else 0

    @property
    def turned_back(self) -> int:
        """The epoch of the rollback that no step has followed yet, 0 without one."""
        for entry in reversed(self.entries):
            if entry.is_step:
                break
            if entry.kind == ROLLBACK:
                return entry.epoch
        return 0

    def append(self, entry: Entry) -> None:
        """Take in an entry that has been published."""
        self.entries.append(entry)

    def undelivered(self, folder: CheckpointFolder, delivered: int) -> list[Entry]:
        """Return the steps with answers after one, oldest first."""
        steps: list[Entry] = []
        for entry in folder.line(self.entries[-1]) if self.entries else ():
            if entry.seq <= delivered:
                break
            if entry.is_step and entry.answers:
                steps.insert(0, entry)
            oldest = entry
        else:
            if self.entries and oldest.parent and _before(oldest) > delivered:
                raise CheckpointError(
                    f"manifest {oldest.parent} of checkpoint '{folder.place}', whose step may not have been "
                    f"delivered, cannot be read; {REMEDY}"
                )
        return steps

    def trim(self, folder: CheckpointFolder) -> None:
        """Let go the oldest entries that need not be kept, and remove what only they name."""
        for entry in self.entries:
            if self.swept < entry.seq <= self.settled:
                folder.delete(ANSWERS, [file.name for file in entry.answers])
        self.swept = self.settled
        while len(self.entries) > 1 and _is_enough(self.entries[1:]):
            oldest = self.entries.pop(0)
            # In this order, so that an entry that is there has all its files.
            folder.delete_numbered(MANIFESTS, [oldest.entry])
            folder.delete(SLICES, sorted(oldest.files - self.entries[0].files))


def _is_enough(line: Sequence[Entry]) -> bool:
    """Return whether a line has all steps that are to be kept, and all that may have to be delivered."""
    steps = sum(entry.is_step for entry in line)
    return steps >= KEPT_STEPS and len(line) > 1 and _before(line[0]) <= line[-2].delivered


def _before(entry: Entry) -> int:
    """Return the last step before an entry."""
    return entry.seq - entry.is_step


def sweep(folder: CheckpointFolder, recent: RecentEntries, still_mine: Callable[[], bool]) -> None:
    """Remove what no entry names that is kept: entries, state, answers, clocks, versions of queries.

    Files of steps after the last are being written.
    """
    last = recent.newest
    if last is None:
        return
    oldest = recent.entries[0].entry
    numbers = folder.numbers(MANIFESTS)
    # Beside the line there are steps that a rollback has left, and starts that no step has followed.
    read = {number: folder.whole_entry(number) for number in numbers if number >= oldest}
    entries = [entry for entry in read.values() if entry is not None]
    if len(entries) < len(read):
        return  # nobody knows what a damaged entry names, until it is older than all that are kept
    line_numbers = {entry.entry for entry in recent.entries}
    left = [e.entry for e in entries if e.kind == START and e.entry not in line_numbers]
    state = frozenset().union(*(entry.files for entry in entries))
    answers = {file.name for entry in entries if entry.seq > recent.settled for file in entry.answers}
    versions = frozenset().union(*(entry.versions for entry in entries))
    unnamed = {
        SLICES: [name for name in folder.names(SLICES, STATE_FILE) if name not in state],
        ANSWERS: [name for name in folder.names(ANSWERS, ANSWER_FILE) if name not in answers],
    }
    clocks = [number for number in folder.numbers(CLOCKS) if number < last.seq]
    unused = [n for n in folder.numbers(REGISTRY) if n < last.version and n not in versions]
    if not still_mine():
        return
    folder.delete_numbered(MANIFESTS, [*(number for number in numbers if number < oldest), *left])
    for where, names in unnamed.items():
        folder.delete(where, [name for name in names if int(name.split("-")[0]) <= last.seq])
    folder.delete_numbered(CLOCKS, clocks)
    folder.delete_numbered(REGISTRY, unused)
    folder.delete_temporaries()
