"""Spark's own log under a checkpoint: which batches it has planned and finished, looked at before it is used.

    spark/metadata       the query's identity
    spark/offsets/7      what batch 7 reads
    spark/commits/7      batch 7 is done

Spark reads it while the stream starts, and says of a file that is damaged neither which it is nor what to do.
"""

from __future__ import annotations

import json

from pyarrow import fs

from weft.engine.store import SliceStore
from weft.errors import CheckpointError
from weft.filesystem import join

FOLDER = "spark"
REMEDY = "restore '{}' of the checkpoint from a backup, or start again with an empty checkpoint directory"


def check_log(store: SliceStore) -> None:
    """Refuse a checkpoint whose log Spark could not go on with, by the name of the file."""
    place = join(store.path, FOLDER)
    if store.system.get_file_info(place).type == fs.FileType.NotFound and store.last is None:
        return
    batches = _numbered(store, join(place, "offsets"))
    if store.last is not None and (not batches or batches[-1] < store.last.batch_id):
        raise _refused(
            join(place, "offsets", str(store.last.batch_id)), "is missing, though its batch was worked on"
        )
    if batches:
        _check_json(store, join(place, "metadata"), first=0)
    for folder in ("offsets", "commits"):
        # Spark goes on from the last two.
        for number in _numbered(store, join(place, folder))[-2:]:
            _check_json(store, join(place, folder, str(number)), first=1)


def _check_json(store: SliceStore, path: str, first: int) -> None:
    """A version on the first lines, then JSON; ``-`` stands for a source that had nothing yet."""
    try:
        with store.system.open_input_file(path) as source:
            lines = source.read().decode().split("\n")
        if any(not (line.startswith("v") and line[1:].isdecimal()) for line in lines[:first]):
            raise ValueError("it has no version")
        found = [line for line in lines[first:] if line and line != "-"]
        if not found:
            raise ValueError("it ends too early")
        for line in found:
            json.loads(line)
    except FileNotFoundError:
        raise _refused(path, "is missing") from None
    except (OSError, ValueError) as error:
        raise _refused(path, f"is damaged ({error})") from None


def _numbered(store: SliceStore, folder: str) -> list[int]:
    infos = store.system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return sorted(int(info.base_name) for info in infos if info.base_name.isdecimal())


def _refused(path: str, what: str) -> CheckpointError:
    return CheckpointError(f"Spark's log '{path}' {what}; {REMEDY.format(FOLDER)}")
