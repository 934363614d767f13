"""Spark's own log below a checkpoint: what is missing or damaged is named before Spark goes by it.

metadata             the id of Spark's query
offsets/7            up to where batch 7 goes, written before it runs
commits/7            that it has run
sources/0/7          the files of batch 7, of a source of files; all before are put together in 9.compact
"""

from __future__ import annotations

import json

from pyarrow import fs

from weft.errors import CheckpointError
from weft.io.filesystem import join
from weft.store.checkpoint import Checkpoint

LOG = "spark"
OFFSETS, COMMITS, SOURCES = "offsets", "commits", "sources"


def check_log(store: Checkpoint) -> None:
    """Raise CheckpointError where Spark's log lacks, or has damaged, what a run that goes on needs.

    Without its log Spark would number batches from 0 again, and those that have been would be passed over.
    """
    offsets, commits = _numbers(store, OFFSETS), _numbers(store, COMMITS)
    for begun in (max(commits, default=-1) + 1, max(offsets, default=-1)):
        store.is_done(begun)
    needed = set() if store.last is None or store.last.batch_id < 0 else {store.last.batch_id}
    if offsets:
        needed |= {max(offsets), max(max(offsets) - 1, 0)}
        if not _names(store, "metadata"):
            raise _missing(store, "metadata")
    for number in sorted(needed - offsets):
        raise _missing(store, OFFSETS, str(number))
    if offsets:
        _check_text(store, "metadata", versions=0)
    # Spark goes on from the last two.
    for folder, numbers in ((OFFSETS, offsets), (COMMITS, commits)):
        for number in sorted(numbers)[-2:]:
            _check_text(store, folder, str(number), versions=1)
    if offsets:
        _check_sources(store, max(offsets))


def _check_text(store: Checkpoint, *names: str, versions: int) -> None:
    """Lines with a version first, then JSON; ``-`` stands for a source that had nothing yet."""
    try:
        with store.system.open_input_stream(join(store.path, LOG, *names)) as source:
            lines = source.read().decode().split("\n")
        if any(not (line.startswith("v") and line[1:].isdecimal()) for line in lines[:versions]):
            raise ValueError("it has no version")
        found = [line for line in lines[versions:] if line and line != "-"]
        if not found:
            raise ValueError("it ends too early")
        for line in found:
            json.loads(line)
    except (OSError, ValueError) as error:
        raise _refused(store, names, f"is damaged ({error})") from None


def _check_sources(store: Checkpoint, batch: int) -> None:
    """The files of each source of files: all since they were last put together."""
    for source, offset in enumerate(_offsets(store, batch)):
        last = offset.get("logOffset") if isinstance(offset, dict) else None
        if not isinstance(last, int):
            continue
        names = _names(store, SOURCES, str(source))
        together = [n for n in range(last + 1) if f"{n}.compact" in names]
        for number in range(max(together, default=-1) + 1, last + 1):
            if str(number) not in names:
                raise _missing(store, SOURCES, str(source), str(number))


def _offsets(store: Checkpoint, batch: int) -> list[object]:
    """The offset of each source at the end of a batch."""
    with store.system.open_input_stream(join(store.path, LOG, OFFSETS, str(batch))) as source:
        lines = source.read().decode().splitlines()[2:]
    return [None if line == "-" else json.loads(line) for line in lines if line]


def _missing(store: Checkpoint, *names: str) -> CheckpointError:
    return _refused(store, names, "is missing")


def _refused(store: Checkpoint, names: tuple[str, ...], reason: str) -> CheckpointError:
    return CheckpointError(
        f"'{join(store.place, LOG, *names)}' {reason}, which says what Spark has read: rows would be lost or "
        f"counted twice; restore '{LOG}' from a backup, or start again with an empty checkpoint directory"
    )


def _numbers(store: Checkpoint, folder: str) -> set[int]:
    return {int(name) for name in _names(store, folder) if name.isdigit()}


def _names(store: Checkpoint, *names: str) -> set[str]:
    """The names in a folder of Spark's log; the name of a file itself; nothing where it is not there."""
    path = join(store.path, LOG, *names)
    info = store.system.get_file_info(path)
    if info.type != fs.FileType.Directory:
        return {info.base_name} if info.type == fs.FileType.File else set()
    return {entry.base_name for entry in store.system.get_file_info(fs.FileSelector(path))}
