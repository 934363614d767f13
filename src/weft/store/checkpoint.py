"""The checkpoint of a stream, as the driver that makes its steps sees it: one driver at a time.

A driver claims its turn with an entry of its own in the log, and each step that it commits takes the next
number. Whoever finds that number taken has been replaced: it may neither commit nor deliver nor delete.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyarrow import fs

from weft.errors import CheckpointError
from weft.io.filesystem import write_atomically
from weft.operators.contract import Note
from weft.store.folder import CLOCKS, MANIFESTS, CheckpointFolder
from weft.store.log import START, Entry
from weft.store.sealed import seal, unseal
from weft.store.sweeping import RecentEntries, sweep
from weft.store.version_file import REGISTRY, QueryVersion, read_layout, read_version, registry_file

MAX_CLAIMS = 100
"""Attempts to claim a turn while other drivers do."""
SWEEP_EVERY = 100
"""Steps after which files are looked for that no entry names."""


class LostTurn(CheckpointError):
    """Another driver has taken over the checkpoint."""


class Checkpoint:
    """The driver's view of one checkpoint.

    ``last`` is the newest entry, None for a new stream; ``stream`` is the stream's name.

    >>> import tempfile
    >>> place = tempfile.mkdtemp()
    >>> checkpoint = Checkpoint(place)
    >>> checkpoint.claim().seq
    0
    >>> checkpoint.publish(Entry(1, "a", "batch", batch_id=0, version=1, buckets=1)).entry
    2
    >>> Checkpoint(place).last.seq
    1
    """

    def __init__(self, place: str) -> None:
        self.place = place
        self.folder = CheckpointFolder(place)
        self.driver = uuid.uuid4().hex[:12]
        self.stream = self.folder.prepare()
        self.last: Entry | None = None
        self._is_mine = False
        self._layouts: dict[tuple[int, str], Note] = {}
        self._open()

    @property
    def system(self) -> fs.FileSystem:
        """The file system that it is in."""
        return self.folder.system

    @property
    def path(self) -> str:
        """The path of it there."""
        return self.folder.path

    def _open(self) -> None:
        self._newest, self.last = self.folder.newest_entries()
        self._recent = RecentEntries.read(self.folder, self.last)
        self.delivered = 0 if self.last is None else self.folder.delivered(self.last)

    def claim(self) -> Entry:
        """Take the turn: publish a ``start`` with the state that is there, and remove what nobody needs.

        Drivers that have had the turn have lost it then. A new stream begins with a start of seq 0, without
        version and buckets.
        """
        for _ in range(MAX_CLAIMS):
            start = self._start()
            try:
                self._put(start)
            except FileExistsError:
                self._open()  # another entry came in between
                continue
            self._is_mine, self._newest, self.last = True, start.entry, start
            self._recent = RecentEntries.read(self.folder, start)
            self.sweep()
            return start
        raise CheckpointError(
            f"checkpoint '{self.place}' is being written by other runs; only one run can use a checkpoint at "
            "a time"
        )

    def _start(self) -> Entry:
        last = self.last or Entry(0, "", START)
        return replace(
            last,
            kind=START,
            answers=(),
            entry=self._newest + 1,
            # Past a damaged entry, whose epoch nobody knows.
            epoch=last.epoch + 1 + self._newest - last.entry,
            driver=self.driver,
            # Starts that no step has followed leave the line.
            parent=last.parent if last.kind == START else last.entry,
            delivered=self.delivered,
        )

    def publish(self, entry: Entry) -> Entry:
        """Commit a step; then files and entries that are no longer needed are removed.

        The number of the entry, its epoch, driver, parent, and what has been delivered are filled in.
        LostTurn where another driver has taken over.
        """
        last = self.last
        if not self._is_mine or last is None:
            raise self._lost()
        if entry.seq != last.seq + 1 or not entry.is_step:
            raise ValueError(f"step {entry.seq} does not follow step {last.seq}")
        entry = replace(
            entry,
            entry=last.entry + 1,
            epoch=last.epoch,
            driver=self.driver,
            parent=last.entry,
            delivered=self.delivered,
            rewind=None,
        )
        try:
            self._put(entry)
        except FileExistsError as error:
            self._is_mine = False
            raise self._lost() from error
        self.last, self._newest = entry, entry.entry
        self._recent.append(entry)
        self._recent.trim(self.folder)
        # If this manifest is damaged later, the step before is the last, and the clock of this one is needed.
        self.folder.delete_numbered(CLOCKS, [entry.seq - 1])
        if entry.seq % SWEEP_EVERY == 0:
            self.sweep()
        return entry

    def _put(self, entry: Entry) -> None:
        """Write an entry; FileExistsError where its number is taken, or numbers after it are."""
        path, data = self.folder.numbered(MANIFESTS, entry.entry), entry.to_json()
        try:
            write_atomically(self.folder.system, path, data, replace=False)
        except FileExistsError:
            if not self._is_content(path, data):
                raise
        except OSError as error:
            raise CheckpointError(
                f"cannot write '{path}': {error}; whether the step is committed, the next run finds out"
            ) from error
        # Its number may have been free because it was swept, long after others have gone on.
        if self._numbers_after(entry.entry) or not self._is_written(path, data):
            raise FileExistsError(path)

    def _is_written(self, path: str, data: bytes) -> bool:
        """Return whether a file is as it was written.

        Object stores are written to through pyarrow, which knows no conditional put: a driver that writes
        between another's check and its write goes unnoticed by that one. So what is there afterwards counts,
        then and before each delivery.
        """
        return isinstance(self.folder.system, fs.LocalFileSystem) or self._is_content(path, data)

    def _is_content(self, path: str, data: bytes) -> bool:
        with self.folder.reading(), self.folder.system.open_input_file(path) as source:
            return bool(source.read() == data)

    def _numbers_after(self, number: int) -> bool:
        return self.folder.numbers(MANIFESTS)[-1:] > [number]

    def _lost(self) -> LostTurn:
        return LostTurn(
            f"another run has taken over checkpoint '{self.place}'; this one has committed and delivered "
            "nothing since, and ends: only one run can use a checkpoint at a time"
        )

    def still_mine(self) -> bool:
        """Return whether this driver has the turn: no entry is newer than its own."""
        if self._is_mine and self.last is not None:
            path = self.folder.numbered(MANIFESTS, self.last.entry)
            own = self._recent.newest
            self._is_mine = not self._numbers_after(self.last.entry) and (
                own is None or self._is_written(path, own.to_json())
            )
        return self._is_mine

    def check_turn(self) -> None:
        """Raise LostTurn where another driver has taken over: before anything is delivered or deleted."""
        if not self.still_mine():
            raise self._lost()

    def undelivered(self) -> list[Entry]:
        """Return the steps with answers that sinks may not have, oldest first."""
        return self._recent.undelivered(self.folder, self.delivered)

    def kept_entries(self) -> list[Entry]:
        """Return all entries that are there and whole: the last steps, and those that a rollback has left."""
        numbers = self.folder.numbers(MANIFESTS)
        return [entry for number in numbers if (entry := self.folder.whole_entry(number)) is not None]

    def mark_delivered(self, seq: int) -> None:
        """Note that all sinks have the steps up to this one; written down with the next entry."""
        self.delivered = max(self.delivered, seq)

    def close(self) -> None:
        """End well: write down what has been delivered, unless another driver has taken over."""
        if self.last is not None and self.delivered > self.last.delivered and self.still_mine():
            self.folder.write_delivered(self.delivered, self.last.entry)
        self._is_mine = False

    def is_done(self, batch_id: int) -> bool:
        """Return whether a batch of Spark's is committed; CheckpointError where one before it is not."""
        done = -1 if self.last is None else self.last.batch_id - (self.last.taken is not None)
        if batch_id > done + 1:
            raise CheckpointError(
                f"Spark is at batch {batch_id}, but checkpoint '{self.place}' has no manifest of batch "
                f"{batch_id - 1}: manifests were removed or damaged, and rows are missing from the state; "
                "restore the checkpoint from a backup, or start again with an empty checkpoint directory"
            )
        return batch_id <= done

    def taken(self, batch_id: int) -> int:
        """Return the number of files taken so far of a batch that is not done."""
        return (self.last.taken or 0) if self.last and self.last.batch_id == batch_id else 0

    def write_clock(self, seq: int, clock: Mapping[str, Any]) -> dict[str, Any]:
        """Write down what a step that is about to be made decides time by.

        Where an attempt before has written it down, that is what counts, so that a step made again decides
        the same.
        """
        path = self.folder.numbered(CLOCKS, seq)
        try:
            write_atomically(self.folder.system, path, seal(clock, indent=None), replace=False)
            return dict(clock)
        except FileExistsError:
            pass
        except OSError as error:
            raise CheckpointError(f"cannot write '{path}': {error}; the step cannot be made") from error
        try:
            with self.folder.system.open_input_file(path) as source:
                return unseal(source.read()).body
        except (OSError, CheckpointError) as error:
            raise CheckpointError(
                f"'{path}' cannot be read: {error}; remove it, and the step is made by the clock of now"
            ) from error

    def version(self) -> QueryVersion | None:
        """Return the queries that the next step is made with, unless they change; None for a new stream.

        After a rollback they are those of the step that the stream has gone back to.
        """
        last = self.last or Entry(0, "", START)
        for number in reversed([n for n in self.folder.numbers(REGISTRY) if n > last.version]):
            version = read_version(self.place, number)
            if version.seq == last.seq + 1 and version.epoch >= self._recent.turned_back:
                return version
        if not last.version:
            return None
        if last.version not in self.folder.numbers(REGISTRY):
            raise CheckpointError(
                f"the queries of checkpoint '{self.place}' are missing; restore '{REGISTRY}' from a backup, "
                "or start again with an empty checkpoint directory"
            )
        return read_version(self.place, last.version)

    def next_version(self) -> int:
        """Return the number of the next version; none is given twice."""
        last = self.last.version if self.last else 0
        return max([last, *self.folder.numbers(REGISTRY)]) + 1

    def write_version(self, version: QueryVersion) -> None:
        """Write down the queries of a step that is about to be made."""
        if self.last is not None:
            self.check_turn()
        path = registry_file(self.folder.path, version.version)
        version = replace(version, epoch=self.last.epoch if self.last else 0)
        try:
            write_atomically(self.folder.system, path, version.to_json(), replace=False)
        except FileExistsError as error:
            raise CheckpointError(
                f"another run has changed the queries of checkpoint '{self.place}'; "
                "only one run can use a checkpoint at a time"
            ) from error
        except OSError as error:
            raise CheckpointError(f"cannot write '{path}': {error}; the queries cannot change") from error
        self._layouts.update(
            {(version.version, name): stage.layout for name, stage in version.stages.items()}
        )

    def layout(self, version: int, stage: str) -> Note:
        """Return the layout of the state that a stage wrote under a version."""
        if (version, stage) not in self._layouts:
            self._layouts[version, stage] = read_layout(self.place, version, stage)
        return self._layouts[version, stage]

    def sweep(self) -> None:
        """Remove what no recent entry names, unless another driver has taken over."""
        sweep(self.folder, self._recent, self.still_mine)
