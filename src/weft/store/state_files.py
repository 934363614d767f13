"""Files of state: one table each, in Parquet, which any tool can read; written once, checked when read."""

from __future__ import annotations

import re
import zlib

import pyarrow as pa
import pyarrow.parquet as pq

from weft.errors import CheckpointError
from weft.io.filesystem import join, resolve, write_atomically
from weft.operators.contract import Kept
from weft.store.log import StateFile

SLICES = "slices"
MAX_WORD = 64
"""Characters of a name that a file's name has of it; file systems have limits."""
REMEDY = "restore the file from a backup, or start again with an empty checkpoint directory"


def file_word(name: str) -> str:
    """Return a name of a stage or a part as every file system can have it; no two are the same.

    >>> file_word("windows:trades"), file_word("0.waiting"), file_word("a_b")
    ('windows_3atrades', '0.waiting', 'a_5fb')
    """
    word = re.sub(rb"[^A-Za-z0-9.]", lambda match: b"_%02x" % match[0][0], name.encode()).decode()
    return word if len(word) <= MAX_WORD else f"{word[:MAX_WORD]}_{zlib.crc32(name.encode()):08x}"


def write_state_file(place: str, name: str, content: Kept) -> StateFile:
    """Write a table of a state."""
    sink = pa.BufferOutputStream()
    # Parquet cannot take null as a value of a dictionary; it makes dictionaries of its own.
    columns = content.table.columns
    plain = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in columns]
    pq.write_table(pa.table(plain, names=content.table.schema.names), sink)
    data = sink.getvalue()
    write_checked(place, SLICES, name, data, "state")
    return StateFile(
        name,
        content.part,
        content.table.num_rows,
        data.size,
        zlib.crc32(data),
        content.newest,
        content.needed_until,
    )


def read_state_file(place: str, file: StateFile) -> Kept:
    """Return the table of a file; CheckpointError where it is missing or damaged."""
    data = read_checked(place, SLICES, file.name, file.bytes, file.crc)
    table = pq.read_table(pa.BufferReader(data), use_threads=False).combine_chunks()
    return Kept(file.part, table.to_batches()[0], file.newest, file.needed_until)


def write_checked(place: str, folder: str, name: str, data: bytes | pa.Buffer, about: str) -> None:
    """Write a file of a checkpoint; CheckpointError says what could not be saved."""
    system, path = resolve(join(place, folder, name))
    try:
        write_atomically(system, path, data)
    except OSError as error:
        raise CheckpointError(f"cannot write '{path}': {error}; {about} could not be saved") from error


def read_checked(place: str, folder: str, name: str, size: int, crc: int) -> pa.Buffer:
    """Return the content of a file; CheckpointError where it is missing, or is not what was written."""
    system, path = resolve(join(place, folder, name))
    try:
        with system.open_input_file(path) as source:
            data = source.read_buffer()
    except FileNotFoundError as error:
        raise CheckpointError(f"a file of this checkpoint is missing, '{path}'; {REMEDY}") from error
    except OSError as error:
        raise CheckpointError(f"cannot read '{path}': {error}") from error
    if data.size != size or zlib.crc32(data) != crc:
        raise CheckpointError(f"a file of this checkpoint is damaged, '{path}'; {REMEDY}")
    return data
