"""The folder of a checkpoint: which files are there, and entries of its log read from it.

    weft.json                                            the stream's name
    registry/0000000002.json                             one per version of the queries
    manifests/0000000007.json                            the log, one entry a file
    delivered.json                                       the last step that all sinks have, after a clean end
    clocks/0000000008.json                               when the step that is being made was first tried
    slices/0000000007-0001-joins-0.1-<token>.parquet     state: step, bucket, stage, part, attempt
    answers/0000000007-0001-<token>.arrow                answers: step, bucket, attempt
    positions/<digest>                                   files that were read, of sources read in process

Files are immutable and named by the attempt that wrote them, so an attempt that failed, or ran twice, leaves
only files that no entry names; they are swept away later. Any Parquet tool can read the state.
"""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyarrow import fs

from weft.errors import CheckpointError
from weft.io.filesystem import join, resolve, write_atomically
from weft.store.answers import ANSWERS
from weft.store.log import Entry
from weft.store.sealed import REMEDY, OtherFormat, seal, unseal
from weft.store.state_files import SLICES
from weft.store.version_file import REGISTRY

MANIFESTS, CLOCKS, DELIVERED, IDENTITY = "manifests", "clocks", "delivered.json", "weft.json"
POSITIONS = "positions"
FOLDERS = (MANIFESTS, SLICES, ANSWERS, REGISTRY, CLOCKS, POSITIONS)
NUMBERED_FILE = re.compile(r"[0-9]{10,18}\.json")
STATE_FILE = re.compile(r"[0-9]{10,18}-.+\.parquet")
ANSWER_FILE = re.compile(r"[0-9]{10,18}-.+\.arrow")
TEMPORARY_FILE = re.compile(r"\..+\.[0-9a-f]{8}")
TEMPORARY_SECONDS = 3600.0
"""The age of a temporary file from which on nobody is still writing it."""
DESCRIPTION = (
    "the state of a weft stream: registry/ queries, manifests/ its log, slices/ state, answers/ results on "
    "their way, spark/ offsets"
)

log = logging.getLogger(__name__)


class CheckpointFolder:
    """The files of one checkpoint; whatever else lies there is left alone."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.system, self.path = resolve(place)

    def prepare(self) -> str:
        """Make the folders that are missing; return the stream's name, given to it when it began."""
        path = self.file(IDENTITY)
        try:
            for folder in FOLDERS:
                self.system.create_dir(self.file(folder), recursive=True)
            if self.system.get_file_info(path).type == fs.FileType.NotFound:
                if self.numbers(MANIFESTS):
                    # Under another name, sinks would take a step that they have for a new one.
                    raise CheckpointError(f"'{path}' is missing; {REMEDY}")
                self.write_identity()
            return self.stream()
        except OSError as error:
            raise CheckpointError(
                f"cannot use '{self.place}' as checkpoint: {error}; "
                "choose a directory that this user may read and write"
            ) from error

    def write_identity(self) -> None:
        """Give the stream a name, unless it has one."""
        identity = {"about": DESCRIPTION, "stream": uuid.uuid4().hex[:12]}
        try:
            data = json.dumps(identity, indent=1).encode()
            write_atomically(self.system, self.file(IDENTITY), data, replace=False)
        except FileExistsError:
            pass  # another run began at the same time

    def stream(self) -> str:
        """Return the stream's name."""
        path = self.file(IDENTITY)
        try:
            with self.system.open_input_file(path) as source:
                return str(json.loads(source.read())["stream"])
        except FileNotFoundError as error:
            raise CheckpointError(f"'{path}' is missing; {REMEDY}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"'{path}' is damaged; {REMEDY}") from error

    def file(self, *names: str) -> str:
        """Return the path of a file or folder."""
        return join(self.path, *names)

    def numbered(self, folder: str, number: int) -> str:
        """Return the path of a numbered file."""
        return self.file(folder, f"{number:010}.json")

    def numbers(self, folder: str) -> list[int]:
        """Return the numbers of the files of a folder, in order."""
        return sorted(int(name.removesuffix(".json")) for name in self.names(folder, NUMBERED_FILE))

    def names(self, folder: str, pattern: re.Pattern[str]) -> list[str]:
        """Return the files of a folder that are the store's own."""
        with self.reading():
            selector = fs.FileSelector(self.file(folder), allow_not_found=True)
            infos = self.system.get_file_info(selector)
        return [info.base_name for info in infos if pattern.fullmatch(info.base_name)]

    def newest_entries(self) -> tuple[int, Entry | None]:
        """Return the number of the newest entry, 0 without any, and the newest that is whole.

        One that is damaged is stepped over. That is safe: if Spark had finished that batch too, it asks for a
        later batch next, and ``Checkpoint.is_done`` refuses the gap. Otherwise Spark runs the batch again.
        """
        numbers = self.numbers(MANIFESTS)
        for number in reversed(numbers[-2:]):
            try:
                return numbers[-1], self.entry(number)
            except OtherFormat as error:
                raise CheckpointError(f"checkpoint '{self.place}' cannot be used: {error}") from error
            except CheckpointError as error:
                log.warning("manifest %s of '%s' cannot be used: %s", number, self.place, error)
        if numbers:
            raise CheckpointError(
                f"the newest manifests of checkpoint '{self.place}' are damaged; restore '{MANIFESTS}' from "
                "a backup, or start again with an empty checkpoint directory"
            )
        return 0, None

    def entry(self, number: int) -> Entry:
        """Read an entry; CheckpointError where it is missing or damaged."""
        with self.reading(), self.system.open_input_file(self.numbered(MANIFESTS, number)) as source:
            return Entry.from_json(source.read())

    def line(self, last: Entry) -> Iterator[Entry]:
        """Yield an entry and those that it goes on from, newest first, to the first that is left."""
        entry: Entry | None = last
        while entry is not None:
            yield entry
            entry = self.whole_entry(entry.parent) if entry.parent else None

    def whole_entry(self, number: int) -> Entry | None:
        """Read an entry; None where it is missing or damaged."""
        try:
            return self.entry(number)
        except CheckpointError:
            return None

    def delivered(self, last: Entry) -> int:
        """Return the last step that all sinks have, by the newest entry and a driver that ended well with it.

        Once entries have followed, the word of that driver does not count: they say what was delivered. If
        its own entry was damaged, a step of the same number has been made again since, with other answers.
        """
        return max(last.delivered, min(self._delivered_since(last.entry), last.seq))

    def _delivered_since(self, entry: int) -> int:
        """Return the step that a driver which ended with this entry, or a later one, has named, or 0."""
        try:
            with self.system.open_input_file(self.file(DELIVERED)) as source:
                body = unseal(source.read()).body
                # The first notes named no entry, and count as they did.
                return int(body["seq"]) if int(body.get("entry", entry)) >= entry else 0
        except FileNotFoundError:
            return 0
        except (OSError, CheckpointError, ValueError, KeyError, TypeError) as error:
            # What was delivered is then delivered again, which changes nothing.
            log.warning("'%s' of '%s' cannot be used: %s", DELIVERED, self.place, error)
            return 0

    def write_delivered(self, seq: int, entry: int) -> None:
        """Write down the last step that all sinks have, and the entry that a driver ends with."""
        path = self.file(DELIVERED)
        try:
            write_atomically(self.system, path, seal({"seq": seq, "entry": entry}))
        except OSError as error:
            raise CheckpointError(
                f"cannot write '{path}': {error}; the last steps are delivered again by the next run"
            ) from error

    def delete(self, folder: str, names: Sequence[str]) -> None:
        """Remove files that are no longer needed; a warning where one cannot be."""
        for name in names:
            path = self.file(*filter(None, [folder, name]))
            try:
                self.system.delete_file(path)
            except FileNotFoundError:
                pass
            except OSError as error:
                log.warning("cannot remove '%s', which is no longer needed: %s", path, error)

    def delete_numbered(self, folder: str, numbers: Sequence[int]) -> None:
        """Remove numbered files that are no longer needed."""
        self.delete(folder, [f"{number:010}.json" for number in numbers])

    def delete_temporaries(self) -> None:
        """Remove what writers that were killed have left: files that never got their names."""
        oldest = time.time() - TEMPORARY_SECONDS
        for folder in ("", *FOLDERS, POSITIONS):
            with self.reading():
                selector = fs.FileSelector(self.file(folder) if folder else self.path, allow_not_found=True)
                infos = self.system.get_file_info(selector)
            left = [i for i in infos if TEMPORARY_FILE.fullmatch(i.base_name) and i.type == fs.FileType.File]
            self.delete(folder, [i.base_name for i in left if i.mtime_ns / 1e9 <= oldest])

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Make errors of the file system CheckpointErrors that name the checkpoint."""
        try:
            yield
        except OSError as error:
            raise CheckpointError(f"cannot read checkpoint '{self.place}': {error}") from error
