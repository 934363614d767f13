"""The slice store under a checkpoint: manifests that commit steps, and the slice files they name.

    weft.json                                    the stream's name
    registry/0000000002.json                     one per version of the queries
    manifests/0000000007.json                    one per step, the newest is the state
    clocks/0000000008.json                       when the step that is being made was first tried
    slices/0000000007-0001-000-<token>.parquet   partials: step, bucket, grouping, attempt

Files are immutable and named by the attempt that wrote them, so an attempt that failed, or ran twice,
leaves only files that no manifest names; they are swept away later. Any Parquet tool can read them.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Mapping
from typing import Any

from pyarrow import fs

from weft.errors import CheckpointError
from weft.io.filesystem import join, resolve, write_atomically
from weft.operators.windows.layout import WindowLayout
from weft.store.layers import SLICES
from weft.store.manifest import Manifest, OtherFormat, seal, unseal
from weft.store.versions import REGISTRY, Version, read_version, registry_file

MANIFESTS = "manifests"
CLOCKS = "clocks"
NUMBERED_FILE = re.compile(r"[0-9]{10,18}\.json")
SLICE_FILE = re.compile(r"[0-9]{10,18}-.+\.parquet")
KEPT_MANIFESTS = 10
SWEEP_EVERY = 100
DESCRIPTION = (
    "the state of a weft stream: registry/ queries, manifests/ one per step, slices/ partial aggregates, "
    "spark/ offsets"
)

log = logging.getLogger(__name__)


class SliceStore:
    """The driver's view of one checkpoint; ``last`` is the newest committed step, ``stream`` its name.

    >>> import tempfile
    >>> place = tempfile.mkdtemp()
    >>> store = SliceStore(place)
    >>> store.publish(Manifest(1, "a", "batch", 0, 1, 1, None, {}, ((),)))
    >>> SliceStore(place).last.seq
    1
    """

    def __init__(self, place: str) -> None:
        self.place = place
        self.system, self.path = resolve(place)
        self.last: Manifest | None = None
        self._before: Manifest | None = None
        self._layouts: dict[int, WindowLayout] = {}
        self.stream = self._prepare()
        numbers = self._numbers()
        for number in reversed(numbers):
            try:
                self.last = self._read(number)
                break
            except OtherFormat as error:
                raise CheckpointError(f"checkpoint '{place}' cannot be used: {error}") from error
            except CheckpointError as error:
                # Safe to go back by one: if Spark had finished that batch too, it asks for a later batch
                # next, and `expect` refuses the gap. Otherwise Spark runs the batch again.
                log.warning("manifest %s of '%s' cannot be used: %s", number, place, error)
                if number != numbers[-1]:
                    break
        if numbers and self.last is None:
            raise CheckpointError(
                f"the newest manifests of checkpoint '{place}' are damaged; restore '{MANIFESTS}' from a "
                "backup, or start again with an empty checkpoint directory"
            )
        self.damaged = bool(self.last and self.last.seq != numbers[-1])
        self.sweep()

    def version(self) -> Version | None:
        """The queries that the next step is made with, unless they change; None for a new stream."""
        upcoming = self.last.seq + 1 if self.last else 1
        for number in reversed(self._versions()):
            version = read_version(self.place, number)
            if version.seq <= upcoming:
                return version
        if self.last is None:
            return None
        raise CheckpointError(
            f"the queries of checkpoint '{self.place}' are missing; restore '{REGISTRY}' from a backup, or "
            "start again with an empty checkpoint directory"
        )

    def next_version(self) -> int:
        """The number of the next version."""
        return max(self._versions(), default=0) + 1

    def write_version(self, version: Version) -> None:
        """Write down the queries of a step that is about to be made."""
        path = registry_file(self.path, version.version)
        try:
            write_atomically(self.system, path, version.to_json(), replace=False)
        except FileExistsError as error:
            raise CheckpointError(
                f"another run has changed the queries of checkpoint '{self.place}'; "
                "only one run can use a checkpoint at a time"
            ) from error
        except OSError as error:
            raise CheckpointError(f"cannot write '{path}': {error}; the queries cannot change") from error
        self._layouts[version.version] = version.layout

    def write_clock(self, seq: int, clock: Mapping[str, Any]) -> dict[str, Any]:
        """Write down what a step that is about to be made decides time by.

        Where an attempt before has written it down, that is what counts, so that a step made again decides
        the same.
        """
        path = join(self.path, CLOCKS, f"{seq:010}.json")
        try:
            write_atomically(self.system, path, seal(clock, indent=None), replace=False)
            return dict(clock)
        except FileExistsError:
            pass
        except OSError as error:
            raise CheckpointError(f"cannot write '{path}': {error}; the step cannot be made") from error
        try:
            with self.system.open_input_file(path) as source:
                return unseal(source.read())
        except (OSError, CheckpointError) as error:
            raise CheckpointError(
                f"'{path}' cannot be read: {error}; remove it, and the step is made by the clock of now"
            ) from error

    def layout(self, version: int) -> WindowLayout:
        """Read the layout of state that was written under a version."""
        if version not in self._layouts:
            self._layouts[version] = read_version(self.place, version).layout
        return self._layouts[version]

    def is_done(self, batch_id: int) -> bool:
        """Return whether a batch of Spark's is committed; CheckpointError where one before it is not."""
        done = -1 if self.last is None else self.last.batch_id - (self.last.taken is not None)
        if batch_id > done + 1:
            raise CheckpointError(
                f"Spark is at batch {batch_id}, but checkpoint '{self.place}' has no manifest of batch "
                f"{batch_id - 1}: manifests were removed or damaged, and rows are missing from the state; "
                "restore them from a backup, or start again with an empty checkpoint directory"
            )
        return batch_id <= done

    def taken(self, batch_id: int) -> int:
        """Return the number of files taken so far of a batch that is not done."""
        return (self.last.taken or 0) if self.last and self.last.batch_id == batch_id else 0

    def publish(self, manifest: Manifest) -> None:
        """Commit a step; then files and manifests that are no longer needed are removed."""
        path = self._manifest(manifest.seq)
        try:
            # The damaged manifest that was stepped over at the start has this number.
            write_atomically(self.system, path, manifest.to_json(), replace=self.damaged)
        except FileExistsError as error:
            raise CheckpointError(
                f"another run has committed step {manifest.seq} to checkpoint '{self.place}'; "
                "only one run can use a checkpoint at a time"
            ) from error
        except OSError as error:
            raise CheckpointError(f"cannot write '{path}': {error}; the step is not committed") from error
        self.damaged = False
        dropped = self._before.files if self._before else frozenset()
        self._before, self.last = self.last, manifest
        for name in dropped - manifest.files - (self._before.files if self._before else frozenset()):
            self._delete(join(self.path, SLICES, name))
        self._delete(join(self.path, CLOCKS, f"{manifest.seq:010}.json"))
        if manifest.seq > KEPT_MANIFESTS:
            self._delete(self._manifest(manifest.seq - KEPT_MANIFESTS))
        if manifest.seq % SWEEP_EVERY == 0:
            self.sweep()

    def sweep(self) -> None:
        """Remove what no recent manifest names: slice files up to the newest step, manifests, versions."""
        if self.last is None:
            return
        recent = [n for n in self._numbers() if n > self.last.seq - 2]
        manifests = [self.last, *(m for m in map(self._try_read, recent) if m)]
        named = frozenset().union(*(m.files for m in manifests))
        for name in self._names(SLICES, SLICE_FILE):
            if int(name.split("-")[0]) <= self.last.seq and name not in named:
                self._delete(join(self.path, SLICES, name))
        for number in self._numbers():
            if number <= self.last.seq - KEPT_MANIFESTS:
                self._delete(self._manifest(number))
        for number in self._numbers(CLOCKS):
            if number <= self.last.seq:
                self._delete(join(self.path, CLOCKS, f"{number:010}.json"))
        used = frozenset().union(*(m.versions for m in manifests))
        for number in self._versions():
            if number < self.last.version and number not in used:
                self._delete(registry_file(self.path, number))
                self._layouts.pop(number, None)

    def _prepare(self) -> str:
        """Make the folders; the stream's name, given to it when it began."""
        path = join(self.path, "weft.json")
        remedy = "restore it from a backup, or start again with an empty checkpoint directory"
        try:
            for folder in (MANIFESTS, SLICES, REGISTRY, CLOCKS):
                self.system.create_dir(join(self.path, folder), recursive=True)
            if self.system.get_file_info(path).type == fs.FileType.NotFound:
                if self._numbers():
                    # Under another name, the sink would keep what a step made again is to replace.
                    raise CheckpointError(f"'{path}' is missing; {remedy}")
                named = {"about": DESCRIPTION, "stream": uuid.uuid4().hex[:12]}
                write_atomically(self.system, path, json.dumps(named, indent=1).encode(), replace=False)
            with self.system.open_input_file(path) as source:
                return str(json.loads(source.read())["stream"])
        except OSError as error:
            raise CheckpointError(
                f"cannot use '{self.place}' as checkpoint: {error}; "
                "choose a directory that this user may read and write"
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"'{path}' is damaged; {remedy}") from error

    def _numbers(self, folder: str = MANIFESTS) -> list[int]:
        return sorted(int(name.removesuffix(".json")) for name in self._names(folder, NUMBERED_FILE))

    def _versions(self) -> list[int]:
        return self._numbers(REGISTRY)

    def _names(self, folder: str, pattern: re.Pattern[str]) -> list[str]:
        """The files of a folder that are the store's own; whatever else lies there is left alone."""
        infos = self.system.get_file_info(fs.FileSelector(join(self.path, folder)))
        return [info.base_name for info in infos if pattern.fullmatch(info.base_name)]

    def _manifest(self, seq: int) -> str:
        return join(self.path, MANIFESTS, f"{seq:010}.json")

    def _read(self, seq: int) -> Manifest:
        try:
            with self.system.open_input_file(self._manifest(seq)) as source:
                return Manifest.from_json(source.read())
        except OSError as error:
            raise CheckpointError(f"cannot read '{self._manifest(seq)}': {error}") from error

    def _try_read(self, seq: int) -> Manifest | None:
        try:
            return self._read(seq)
        except CheckpointError:
            return None

    def _delete(self, path: str) -> None:
        try:
            self.system.delete_file(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("cannot remove '%s', which is no longer needed: %s", path, error)
