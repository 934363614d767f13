"""Spark's own log below a checkpoint, cut after the batch of a step: what belongs to the step, and what not.

    spark/offsets/7            up to where batch 7 goes, written before it runs
    spark/commits/7            that it has run
    spark/sources/0/7          the files of offset 7 of a source; all up to the 9th are together in 9.compact
    files/0000000007.json      the files of batch 7 in order, where several steps take them

An offset of a source of files is the number of the last entry in its own log.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyarrow import fs

from weft.errors import CheckpointError
from weft.io.filesystem import join
from weft.store.folder import CheckpointFolder
from weft.store.log import Entry

SPARK, FILES = "spark", "files"
OFFSETS, COMMITS, SOURCES = "offsets", "commits", "sources"
COMPACTED = ".compact"
HEADER_LINES = 2
"""Lines of a file of offsets before those of the sources: a version, and settings."""


@dataclass(frozen=True)
class SparkCut:
    """Paths of Spark's log, and of lists of files, below the checkpoint: those that belong to a step, and
    those after it."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def cut_log(folder: CheckpointFolder, entry: Entry) -> SparkCut:
    """Return what of Spark's log belongs to a step; CheckpointError where it cannot go on from there."""
    offsets = _numbers(folder, OFFSETS)
    batch, belongs = entry.batch_id, dict[str, bool]()
    if not offsets:
        return SparkCut()
    if batch >= 0 and batch not in offsets:
        raise _refused(folder, entry, join(SPARK, OFFSETS, str(batch)), "is not there any more")
    # A batch of which a step has taken only some files has yet to be done.
    done = batch - (entry.taken is not None)
    belongs |= {join(SPARK, OFFSETS, str(number)): number <= batch for number in offsets}
    belongs |= {join(SPARK, COMMITS, str(number)): number <= done for number in _numbers(folder, COMMITS)}
    lists = folder.numbers(FILES)
    if entry.taken is not None and batch not in lists:
        raise _refused(folder, entry, join(FILES, f"{batch:010}.json"), "is not there any more")
    belongs |= {join(FILES, f"{number:010}.json"): number <= batch for number in lists}
    for source, position in enumerate(_positions(folder, batch) if batch >= 0 else ()):
        belongs |= _cut_source(folder, entry, join(SPARK, SOURCES, str(source)), position)
    return SparkCut(
        tuple(path for path, is_before in belongs.items() if is_before),
        tuple(path for path, is_before in belongs.items() if not is_before),
    )


def with_checksum(path: str) -> tuple[str, str]:
    """Return the path of a file, and of the checksum that Hadoop keeps beside it on a local disk.

    >>> with_checksum("spark/offsets/7")
    ('spark/offsets/7', 'spark/offsets/.7.crc')
    """
    folder, _, name = path.rpartition("/")
    return path, f"{folder}/.{name}.crc"


def _cut_source(folder: CheckpointFolder, entry: Entry, where: str, position: int | None) -> dict[str, bool]:
    """Return which files of a source's log are up to its position; all, where it has none of its own."""
    numbers = {
        name: int(name.removesuffix(COMPACTED))
        for name in _names(folder, where)
        if name.removesuffix(COMPACTED).isdecimal()
    }
    if position is None:
        return {join(where, name): True for name in numbers}
    before = {name: number for name, number in numbers.items() if number <= position}
    together = max((n for name, n in before.items() if name.endswith(COMPACTED)), default=-1)
    for number in range(together + 1, position + 1):
        if str(number) not in before:
            later = [name for name in numbers if name.endswith(COMPACTED) and name not in before]
            reason = f"has been put together with later ones in '{later[0]}'" if later else "is missing"
            raise _refused(folder, entry, join(where, str(number)), reason)
    return {join(where, name): name in before for name in numbers}


def _positions(folder: CheckpointFolder, batch: int) -> list[int | None]:
    """Return how far the log of each source had come with a batch, None for sources that keep none."""
    path = folder.file(SPARK, OFFSETS, str(batch))
    try:
        with folder.system.open_input_file(path) as source:
            lines = source.read().decode().splitlines()[HEADER_LINES:]
        offsets = [None if line == "-" else json.loads(line) for line in lines if line]
    except (OSError, ValueError) as error:
        raise CheckpointError(f"'{path}' cannot be read: {error}; restore it from a backup") from error
    return [offset.get("logOffset") if isinstance(offset, dict) else None for offset in offsets]


def _refused(folder: CheckpointFolder, entry: Entry, path: str, reason: str) -> CheckpointError:
    return CheckpointError(
        f"a stream cannot go on from step {entry.seq} of checkpoint '{folder.place}': '{path}', which says "
        f"what Spark had read, {reason}; choose a later step"
    )


def _numbers(folder: CheckpointFolder, name: str) -> list[int]:
    return sorted(int(name) for name in _names(folder, join(SPARK, name)) if name.isdecimal())


def _names(folder: CheckpointFolder, where: str) -> list[str]:
    with folder.reading():
        selector = fs.FileSelector(folder.file(where), allow_not_found=True)
        return sorted(info.base_name for info in folder.system.get_file_info(selector))
