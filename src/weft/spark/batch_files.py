"""Files of one of Spark's batches, in order; written down where several steps take them.

A step that is made again, and those after it, take the same files then, whatever has become of the files in
the meantime: one that was changed or removed keeps its place in the order.

    files/0000000012.json     the files of batch 12, the last that was taken in several steps
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pyarrow import fs
from pyspark.sql import DataFrame, Row, SparkSession

from weft.errors import CheckpointError, JobError
from weft.io.files import Files, ListedFile
from weft.io.files.kind import ANY_AGE
from weft.io.files.listing import each_once
from weft.io.filesystem import join, write_atomically
from weft.spark.failure import surfaced

FILES = "files"
NAMES = ("path", "length", "modificationTime")
NAMES_ONLY = "path string, modificationTime timestamp, length bigint, content binary"

ByStream: TypeAlias = Mapping[str, Sequence[ListedFile]]
Listing: TypeAlias = ByStream | Sequence[ByStream]
"""The files of a batch, or its portions, one after the other."""


def names_of(files: Files, spark: SparkSession) -> DataFrame:
    """Return a stream of the names, lengths and times of files.

    Spark's ``binaryFile`` source, asked for these only, never opens a file.
    """
    if len(files.places) != 1:
        raise JobError("a stream of files needs one path; give a folder or a glob, not a list")
    reader = spark.readStream.format("binaryFile").schema(NAMES_ONLY).option("recursiveFileLookup", "true")
    with surfaced():
        return reader.option("maxFileAge", ANY_AGE).load(files.places[0]).select(*NAMES)


def in_order(files: Files, rows: Iterable[Row]) -> Sequence[ListedFile]:
    """Return files that Spark has listed, each once, by time and name: Spark orders them by time alone."""
    listed = sorted((row.modificationTime, row.path, row.length) for row in rows)
    return each_once([ListedFile(path, size) for _, path, size in listed], files.places[0])


def settle(store: Any, batch_id: int, listing: Listing) -> Listing:
    """Write down the files of a batch; what was written down before holds, in the form that it has.

    ``store`` is a checkpoint: its ``path`` in its file ``system``, and how much of a batch is ``taken``.
    """
    folder = join(store.path, FILES)
    path = join(folder, f"{batch_id:010}.json")
    try:
        names = {i.path for i in store.system.get_file_info(fs.FileSelector(folder, allow_not_found=True))}
        if path not in names:
            if store.taken(batch_id) and names:
                raise FileNotFoundError("it is missing")
            for name in names:
                store.system.delete_file(name)
            write_atomically(store.system, path, json.dumps(_as_json(listing)).encode())
            return listing
        with store.system.open_input_stream(path) as source:
            return _from_json(json.loads(source.read()))
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise CheckpointError(
            f"'{path}', which has the files of batch {batch_id}, cannot be used: {error}; restore it from a "
            "backup, or start again with an empty checkpoint directory"
        ) from error


def _as_json(listing: Listing) -> Any:
    if isinstance(listing, Mapping):
        return {stream: [[f.path, f.size] for f in files] for stream, files in listing.items()}
    return [_as_json(portion) for portion in listing]


def _from_json(content: Any) -> Listing:
    if isinstance(content, list):
        return [_by_stream(portion) for portion in content]
    return _by_stream(content)


def _by_stream(content: Any) -> ByStream:
    return {stream: [ListedFile(*file) for file in files] for stream, files in content.items()}
