"""Messages to rows: one JSON object each, or some rows as an Arrow IPC stream; bad ones are set aside."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyarrow import json

from weft.io.files.chunk import REJECTED_SCHEMA, Chunk
from weft.io.files.read_json import record_of, table_of, typed_schema
from weft.io.files.types import inferred_schema

FORMATS = ("json", "arrow")

BAD_MESSAGE = -1
"""In place of the number of rows of a message that cannot be read."""

MAX_SHOWN_BYTES = 4096
"""Beginning of a bad message that is kept."""

FACTS = {
    "key": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
    "partition": pa.int32(),
    "offset": pa.int64(),
}
"""Facts of a message that can be columns besides its value; ``headers.NAME`` is one more."""


def find_schema(values: Sequence[bytes | None], value_format: str) -> pa.Schema:
    """Return the columns of values; none where no value can be read."""
    if value_format == "arrow":
        tables = [table for v in values if (table := _opened(v)) is not None]
        return inferred_schema(tables[0].schema) if tables else pa.schema([])
    lines = [_line(v) for v in values if v is not None and record_of(v) is not None]
    return typed_schema(lines) if lines else pa.schema([])


def decode(messages: Sequence[Any], value_format: str, schema: pa.Schema, facts: dict[str, str]) -> Chunk:
    """Decode messages to rows; ``facts`` are the columns that are not from the value, and their facts."""
    value_schema = pa.schema([f for f in schema if f.name not in facts])
    read = _read_arrow if value_format == "arrow" else _read_json
    table, bad, counts = read([m.value() for m in messages], value_schema)
    for name, fact in facts.items():
        if name in schema.names:
            values = [_fact(m, fact) for m, n in zip(messages, counts) for _ in range(n)]
            table = table.append_column(schema.field(name), pa.array(values, schema.field(name).type))
    rejected = [m for m, n in zip(messages, counts) if n == BAD_MESSAGE]
    return Chunk(table.select(schema.names), bad + len(rejected), (), _rejected(rejected, value_format))


def _read_json(values: list[bytes | None], schema: pa.Schema) -> tuple[pa.Table, int, list[int]]:
    """Rows, values that do not fit, and how many rows each message gave."""
    lines = [_line(v) for v in values if v and v.strip()]
    if lines and len(lines) == len(values):
        try:
            table = json.read_json(
                io.BytesIO(b"\n".join(lines)),
                read_options=json.ReadOptions(use_threads=False, block_size=max(map(len, lines)) + (8 << 20)),
                parse_options=json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
            )
            # No line is blank, so as many rows as lines means one row of each.
            if table.num_rows == len(lines):
                return table.select(schema.names), 0, [1] * len(lines)
        except pa.ArrowInvalid:
            pass
    records = [record_of(v) if v else None for v in values]
    table, unfit = table_of([r for r in records if r is not None], schema)
    return table, unfit, [BAD_MESSAGE if r is None else 1 for r in records]


def _read_arrow(values: list[bytes | None], schema: pa.Schema) -> tuple[pa.Table, int, list[int]]:
    """As for JSON, with any number of rows in a message."""
    tables, counts = [schema.empty_table()], []
    for value in values:
        table = _opened(value)
        try:
            fitting = None if table is None else table.select(schema.names).cast(schema)
        except (KeyError, pa.ArrowException, ValueError):
            fitting = None
        counts.append(BAD_MESSAGE if fitting is None else fitting.num_rows)
        tables += [] if fitting is None else [fitting]
    return pa.concat_tables(tables), 0, counts


def _opened(value: bytes | None) -> pa.Table | None:
    try:
        return None if value is None else pa.ipc.open_stream(value).read_all()
    except (pa.ArrowException, OSError):
        return None


def _line(value: bytes) -> bytes:
    # A line break is only ever blank space between the parts of an object: in text it is written \n.
    return value.replace(b"\n", b" ").replace(b"\r", b" ")


def _fact(message: Any, fact: str) -> Any:
    if fact == "timestamp":
        kind, milliseconds = message.timestamp()
        return None if not kind else milliseconds * 1000
    if fact == "partition":
        return message.partition()
    if fact == "offset":
        return message.offset()
    if fact == "key":
        return _text(message.key())
    name = fact.removeprefix("headers.")
    return next((_text(value) for key, value in message.headers() or () if key == name), None)


def _text(value: bytes | str | None) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _rejected(messages: Sequence[Any], value_format: str) -> pa.Table | None:
    if not messages:
        return None
    reason = "no JSON object" if value_format == "json" else "no Arrow stream with the stream's columns"
    return pa.table(
        [
            [str(m.partition()) for m in messages],
            [m.offset() for m in messages],
            [None if m.value() is None else m.value()[:MAX_SHOWN_BYTES] for m in messages],
            ["no value" if m.value() is None else reason for m in messages],
        ],
        schema=REJECTED_SCHEMA,
    )
