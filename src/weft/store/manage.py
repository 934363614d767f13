"""Checkpoints of streams that do not run: listed, copied, and taken back to an older step."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyarrow import fs

from weft.errors import CheckpointError
from weft.io.filesystem import join, write_atomically
from weft.operators.contract import Instant
from weft.store.folder import IDENTITY, MANIFESTS, POSITIONS, STATE_FILE, CheckpointFolder
from weft.store.log import ROLLBACK, START, Entry
from weft.store.positions import notes_of
from weft.store.spark_cut import SPARK, cut_log, with_checksum
from weft.store.stage_layers import least
from weft.store.state_files import SLICES
from weft.store.version_file import REGISTRY, read_version

METADATA = join(SPARK, "metadata")


@dataclass(frozen=True, slots=True)
class EntrySummary:
    """One entry of a checkpoint's log, for people.

    ``written`` is when, in microseconds since the epoch; ``rows`` are those of all streams so far, ``marks``
    the watermark of each stage. ``files`` and ``bytes`` are those of the state. ``delivered`` says whether
    sinks have its answers, None where it has none; ``left`` whether the stream has gone back before it.
    """

    entry: int
    seq: int
    kind: str
    epoch: int
    written: Instant | None
    version: int
    queries: tuple[str, ...]
    rows: int
    marks: Mapping[str, Instant | None]
    files: int
    bytes: int
    delivered: bool | None
    left: bool


@dataclass(frozen=True, slots=True)
class Rollback:
    """A stream taken back: to step ``to``; sinks may have the steps from ``first_left`` to ``last_left``."""

    to: int
    first_left: int
    last_left: int
    removed: int
    """Files of Spark's log that were removed."""


def list_entries(place: str) -> list[EntrySummary]:
    """Return the entries of a checkpoint, oldest first; those that are damaged are left out."""
    folder, _, last = _existing(place)
    line = {entry.entry for entry in folder.line(last)}
    delivered = folder.delivered(last)
    names: dict[int, tuple[str, ...]] = {0: ()}
    summaries = []
    for number in folder.numbers(MANIFESTS):
        entry = folder.whole_entry(number)
        if entry is None:
            continue
        if entry.version not in names:
            names[entry.version] = _query_names(place, entry.version)
        sizes = {f.name: f.bytes for s in entry.stages.values() for b in s.layers for y in b for f in y.files}
        with folder.reading():
            written = folder.system.get_file_info(folder.numbered(MANIFESTS, number)).mtime_ns
        summaries.append(
            EntrySummary(
                entry.entry,
                entry.seq,
                entry.kind,
                entry.epoch,
                None if written is None else written // 1000,
                entry.version,
                names[entry.version],
                sum(stream.seen.get("rows", 0) for stream in entry.streams.values()),
                {name: least(stage.marks) for name, stage in entry.stages.items()},
                len(sizes),
                sum(sizes.values()),
                entry.seq <= delivered if entry.answers else None,
                number not in line and entry.kind != START,
            )
        )
    return summaries


def copy_checkpoint(place: str, target: str, step: int | None = None) -> Entry:
    """Copy the state of a step, the last one unless said, as the checkpoint of a stream of its own.

    The copy goes on from there, under another name, so that the results of both are apart in their sinks.
    Nothing of the steps so far is delivered by it.
    """
    folder, _, last = _existing(place)
    entry = _step(folder, last, step)
    cut, copy = cut_log(folder, entry), CheckpointFolder(target)
    _check_empty(copy)
    paths = [join(SLICES, name) for name in sorted(entry.files)]
    paths += [join(REGISTRY, f"{version:010}.json") for version in sorted(entry.versions)]
    paths += [join(POSITIONS, name) for name in sorted(notes_of([entry]))]
    for path in paths:
        _copy(folder, copy, path)
    for path in cut.before:
        for existing in with_checksum(path):
            _copy(folder, copy, existing, needed=existing == path)
    if cut.before:
        # Spark runs no two queries of one id at a time.
        _write(copy, METADATA, json.dumps({"id": str(uuid.uuid4())}).encode())
    copy.prepare()
    start = replace(
        entry,
        kind=START,
        answers=(),
        entry=1,
        epoch=1,
        driver=uuid.uuid4().hex[:12],
        parent=0,
        delivered=entry.seq,
        rewind=None,
    )
    _write(copy, join(MANIFESTS, f"{1:010}.json"), start.to_json())
    return start


def roll_back(place: str, to: int) -> Rollback:
    """Take a stream back to an older step: it goes on with the state, queries and position of that step.

    At the next start, sinks that can remove what they have of later steps. A run that is going on has lost
    its turn. If this ends half way, it can be done again.
    """
    folder, newest, last = _existing(place)
    entry = _step(folder, last, to)
    if to == last.seq:
        raise CheckpointError(f"checkpoint '{place}' is at step {to} already")
    cut = cut_log(folder, entry)
    if last.rewind != to or last.kind != ROLLBACK:
        _write_rollback(folder, newest, last, entry)
    # After the entry: a stream whose Spark is ahead of its state is refused, and not the reverse.
    for path in cut.after:
        for existing in with_checksum(path):
            with folder.reading():
                if folder.system.get_file_info(folder.file(existing)).type == fs.FileType.File:
                    folder.system.delete_file(folder.file(existing))
    return Rollback(to, to + 1, last.seq, len(cut.after))


def _write_rollback(folder: CheckpointFolder, newest: int, last: Entry, entry: Entry) -> None:
    back = replace(
        entry,
        kind=ROLLBACK,
        seq=last.seq,
        answers=(),
        entry=newest + 1,
        epoch=last.epoch + 1 + newest - last.entry,
        driver=uuid.uuid4().hex[:12],
        parent=entry.entry,
        delivered=folder.delivered(last),
        rewind=entry.seq,
    )
    path = folder.numbered(MANIFESTS, back.entry)
    try:
        write_atomically(folder.system, path, back.to_json(), replace=False)
    except FileExistsError as error:
        raise CheckpointError(f"a run goes on with checkpoint '{folder.place}'; stop it first") from error
    except OSError as error:
        raise CheckpointError(f"cannot write '{path}': {error}") from error


def _existing(place: str) -> tuple[CheckpointFolder, int, Entry]:
    """Return a checkpoint that is there, the number of its newest entry, and the newest that is whole."""
    folder = CheckpointFolder(place)
    with folder.reading():
        if folder.system.get_file_info(folder.file(IDENTITY)).type != fs.FileType.File:
            raise CheckpointError(f"'{place}' is not a checkpoint: there is no '{IDENTITY}' in it")
    newest, last = folder.newest_entries()
    if last is None:
        raise CheckpointError(f"checkpoint '{place}' has no step yet")
    return folder, newest, last


def _step(folder: CheckpointFolder, last: Entry, seq: int | None) -> Entry:
    """Return a step that a stream can go on from, the newest where ``seq`` is None; CheckpointError where it
    is not there with all its files."""
    # A copy begins with the state of a step that is elsewhere.
    line = [entry for entry in folder.line(last) if entry.is_step or (entry.version and not entry.parent)]
    steps = {entry.seq: entry for entry in line}
    seq = line[0].seq if line and seq is None else seq
    if seq is None or seq not in steps:
        known = ", ".join(map(str, sorted(steps))) or "none"
        raise CheckpointError(
            f"checkpoint '{folder.place}' has no step {seq or ''} to go on from; there are: {known}"
        )
    entry = steps[seq]
    for where, missing in (
        (SLICES, entry.files - set(folder.names(SLICES, STATE_FILE))),
        (REGISTRY, {f"{v:010}.json" for v in entry.versions - set(folder.numbers(REGISTRY))}),
    ):
        if missing:
            raise CheckpointError(
                f"a stream cannot go on from step {seq} of checkpoint '{folder.place}': "
                f"'{join(where, min(missing))}' is missing"
            )
    return entry


def _query_names(place: str, version: int) -> tuple[str, ...]:
    """Return the names of a version's queries; none where it is not there any more."""
    try:
        return tuple(query.name for query in read_version(place, version).queries)
    except CheckpointError:
        return ()


def _check_empty(folder: CheckpointFolder) -> None:
    with folder.reading():
        selector = fs.FileSelector(folder.path, allow_not_found=True)
        if folder.system.get_file_info(selector):
            raise CheckpointError(f"'{folder.place}' is not empty; choose a directory that is not there yet")


def _copy(folder: CheckpointFolder, target: CheckpointFolder, path: str, needed: bool = True) -> None:
    try:
        with folder.system.open_input_file(folder.file(path)) as source:
            data = source.read_buffer()
    except FileNotFoundError as error:
        if not needed:
            return
        raise CheckpointError(f"a file of checkpoint '{folder.place}' is missing, '{path}'") from error
    except OSError as error:
        raise CheckpointError(f"cannot read '{path}' of checkpoint '{folder.place}': {error}") from error
    _write(target, path, data)


def _write(folder: CheckpointFolder, path: str, data: bytes) -> None:
    try:
        write_atomically(folder.system, folder.file(path), data, replace=False)
    except OSError as error:
        raise CheckpointError(f"cannot write '{folder.file(path)}': {error}") from error
