"""Names, columns and rows of results as PostgreSQL takes them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from weft.errors import JobError
from weft.io.json_values import plain, to_json
from weft.model.instants import postgres, python_values

MAX_NAME_BYTES = 63
DELIVERED = "weft_delivered"
"""The table of the last step of each stream and query."""
OWN_COLUMNS = {"weft_stream": "text", "weft_step": "bigint"}
SYSTEM_COLUMNS = frozenset(("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"))


def short_name(name: str, suffix: str = "") -> str:
    """A name that PostgreSQL does not cut.

    >>> short_name("busy", "_weft_key")
    'busy_weft_key'
    >>> len(short_name("x" * 100))
    63
    """
    if len((name + suffix).encode()) <= MAX_NAME_BYTES:
        return name + suffix
    mark = f"_{hashlib.blake2s(name.encode(), digest_size=4).hexdigest()}{suffix}"
    return name.encode()[: MAX_NAME_BYTES - len(mark)].decode(errors="ignore") + mark


def check_columns(query: str, schema: pa.Schema) -> None:
    """Refuse columns that the sink, or PostgreSQL itself, has of its own, and names that it would cut."""
    if query == DELIVERED:
        raise JobError(f"a query cannot be called '{DELIVERED}' here: the table of delivered steps is")
    for column in schema.names:
        if column in OWN_COLUMNS:
            reason = "which every table of results has for itself"
        elif column in SYSTEM_COLUMNS:
            reason = "which every table of PostgreSQL has for itself"
        elif len(column.encode()) > MAX_NAME_BYTES:
            reason = f"which has more than {MAX_NAME_BYTES} bytes"
        elif "\0" in column:
            reason = "which has a zero byte"
        else:
            continue
        raise JobError(
            f"query '{query}' has a column '{column[:80]}', {reason}; give it another name with AS"
        )


def table_digest(table: pa.Table) -> str:
    """Return a digest of a table, its columns and rows in their order.

    >>> whole, chunked = pa.table({"n": [1, 2]}), pa.table({"n": pa.chunked_array([[1], [2]])})
    >>> table_digest(whole) == table_digest(chunked)
    True
    """
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return hashlib.blake2b(out.getvalue(), digest_size=16).hexdigest()


def column_types(schema: pa.Schema) -> dict[str, str]:
    """The columns of a table, and their types in PostgreSQL.

    >>> column_types(pa.schema({"n": pa.int64(), "at": pa.timestamp("us", "UTC")}))
    {'n': 'bigint', 'at': 'timestamp with time zone'}
    """
    return {field.name: _type(field.type) for field in schema}


def _type(dtype: pa.DataType) -> str:
    if pa.types.is_dictionary(dtype):
        return _type(dtype.value_type)
    if pa.types.is_timestamp(dtype):
        return f"timestamp with{'' if dtype.tz else 'out'} time zone"
    if pa.types.is_uint64(dtype) or pa.types.is_decimal(dtype):
        return "numeric"
    if pa.types.is_integer(dtype):
        return {8: "smallint", 16: "smallint", 32: "integer", 64: "bigint"}[dtype.bit_width]
    if pa.types.is_floating(dtype):
        return "double precision" if dtype.bit_width == 64 else "real"
    if pa.types.is_nested(dtype):
        return "jsonb"
    for is_kind, name in ((pa.types.is_boolean, "boolean"), (pa.types.is_date, "date"), (_binary, "bytea")):
        if is_kind(dtype):
            return name
    return "text"


def _binary(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype))


def copied_rows(table: pa.Table) -> Iterable[tuple[Any, ...]]:
    """Rows for COPY; values within values as JSON, and text without the zero bytes that no text may have."""
    written = {"jsonb": lambda v: to_json(plain(v)), "text": lambda v: str(v).replace("\0", "")}
    columns = []
    for field, column in zip(table.schema, table.columns):
        values, write = python_values(column, postgres), written.get(_type(field.type))
        columns.append([v if v is None else write(v) for v in values] if write else values)
    return zip(*columns)
