"""Files of answers: what one bucket has answered in one step, written before the commit, delivered after it.

The tables of all queries are in one file, each an Arrow IPC stream, one after the other. A footer in JSON
says what they are; the last four bytes are its length.

    answers/0000000007-0001-<token>.arrow        step, bucket, attempt
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from weft.errors import CheckpointError
from weft.store.log import AnswerFile
from weft.store.state_files import REMEDY, read_checked, write_checked

ANSWERS = "answers"
RESULT_ROWS, MISSED_ROWS, UNREAD_ROWS = "results", "late", "rejected"
"""Kinds of tables: results of a query, rows that came too late, rows that no query can be answered with."""

Answers: TypeAlias = Mapping[tuple[str, str], pa.Table]
"""Tables by their kind, and the name of the query or stream that they are of."""

_LENGTH = struct.Struct("<I")


def write_answers(place: str, seq: int, bucket: int, token: str, tables: Answers) -> AnswerFile | None:
    """Write the answers of one bucket in one step; None, and no file, where there is no row."""
    sink, footer, rows = pa.BufferOutputStream(), list[dict[str, Any]](), 0
    for (kind, name), table in tables.items():
        if not table.num_rows:
            continue
        offset = sink.tell()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        footer.append(
            {
                "kind": kind,
                "name": name,
                "offset": offset,
                "length": sink.tell() - offset,
                "rows": table.num_rows,
            }
        )
        rows += table.num_rows
    if not footer:
        return None
    about = json.dumps(footer).encode()
    sink.write(about + _LENGTH.pack(len(about)))
    data = sink.getvalue()
    file_name = f"{seq:010}-{bucket:04}-{token}.arrow"
    write_checked(place, ANSWERS, file_name, data, "answers")
    return AnswerFile(file_name, bucket, data.size, zlib.crc32(data), rows)


def read_answers(place: str, file: AnswerFile) -> dict[tuple[str, str], pa.Table]:
    """Return the tables of a file; CheckpointError where it is missing or damaged."""
    data = read_checked(place, ANSWERS, file.name, file.bytes, file.crc)
    try:
        end = data.size - _LENGTH.size
        (length,) = _LENGTH.unpack(data[end:])
        footer = json.loads(data[end - length : end].to_pybytes())
        return {(item["kind"], item["name"]): _table(data, item) for item in footer}
    except (struct.error, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise CheckpointError(
            f"a file of this checkpoint is damaged, '{file.name}' in '{place}': {error}; {REMEDY}"
        ) from error


def _table(data: pa.Buffer, item: Mapping[str, Any]) -> pa.Table:
    with pa.ipc.open_stream(data.slice(item["offset"], item["length"])) as reader:
        return reader.read_all()
