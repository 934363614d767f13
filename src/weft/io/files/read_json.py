"""JSON lines: lines that are no object are skipped, values of another type become null; both are counted.

A file is read by pyarrow with the wanted types; from the first line that does not fit on, line by line. One
that is written otherwise, as an array or with objects over several lines, is refused.
"""

from __future__ import annotations

import io
import json as text_json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
from pyarrow import json

from weft.errors import JobError
from weft.io.files.chunk import Chunk
from weft.io.files.split import FileSplit
from weft.io.files.text import BOM, open_text
from weft.io.files.types import cast_leniently, inferred_schema

BLOCK_BYTES = 8 << 20
LINES_PER_CHUNK = 1 << 16
OTHER_LAYOUTS = {
    "one JSON array": rb"\[\s*(\{.*)?",
    "written with objects over several lines": rb"\{\s*",
}
"""The first lines of files that are JSON, but not JSON lines."""


def find_schema(path: str) -> pa.Schema:
    """Return the columns of a file, types inferred from its first lines; times without a zone are in UTC."""
    open_lines(path).close()
    good = [text for text, record in islice(_lines(path), 10_000) if record is not None]
    if not good:
        return pa.schema([])
    return typed_schema(good)


def read(split: FileSplit, schema: pa.Schema) -> Iterator[Chunk]:
    """Yield the rows of a file, in the columns and types of the schema."""
    done = 0
    try:
        for chunk in _typed(split.path, schema):
            done += chunk.table.num_rows
            yield chunk
    except pa.ArrowInvalid:
        # Some line does not fit. Rows that were given are not given again.
        yield from _line_by_line(split.path, schema, done)


def _typed(path: str, schema: pa.Schema) -> Iterator[Chunk]:
    with open_lines(path) as source:
        reader = json.open_json(
            source,
            read_options=json.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
            parse_options=json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        for batch in reader:
            yield Chunk(pa.Table.from_batches([batch]).select(schema.names))


def _line_by_line(path: str, schema: pa.Schema, done: int) -> Iterator[Chunk]:
    lines = _lines(path)
    while batch := list(islice(lines, LINES_PER_CHUNK)):
        records = [record for _, record in batch if record is not None]
        bad = len(batch) - len(records)
        skip = min(done, len(records))
        done -= skip
        table, unfit = table_of(records[skip:], schema)
        yield Chunk(table, bad + unfit)


def open_lines(path: str) -> pa.NativeFile:
    """Open a file; JobError where its beginning shows that it is no JSON lines."""
    text = open_text(path)
    start = text.head.removeprefix(BOM).lstrip().split(b"\n")[0]
    layout = next((name for name, sign in OTHER_LAYOUTS.items() if re.fullmatch(sign, start)), None)
    if layout is not None:
        text.stream.close()
        raise JobError(f"it is {layout}; write one object per line, as jq -c does")
    return text.stream


def typed_schema(lines: Sequence[bytes]) -> pa.Schema:
    """The columns of lines of JSON, each an object; times without a zone are in UTC."""
    table = json.read_json(io.BytesIO(b"\n".join(lines)))
    fields = []
    for field, column in zip(table.schema, table.columns):
        dtype = field.type
        if pa.types.is_string(dtype) and column.null_count < len(column):
            # pyarrow takes times with fractions of a second for text.
            times, bad = cast_leniently(column.combine_chunks(), pa.timestamp("us", "UTC"))
            dtype = times.type if not bad else dtype
        fields.append((field.name, dtype))
    return inferred_schema(pa.schema(fields), zone="UTC")


def table_of(records: Sequence[dict[str, Any]], schema: pa.Schema) -> tuple[pa.Table, int]:
    """Objects as rows: values of another type become null, and are counted.

    >>> table, bad = table_of([{"n": 1}, {"n": "x"}], pa.schema({"n": pa.int64()}))
    >>> table.column("n").to_pylist(), bad
    ([1, None], 1)
    """
    columns, bad = [], 0
    for field in schema:
        values = [r.get(field.name) for r in records]
        if pa.types.is_nested(field.type):
            array, unfit = _nested(values, field.type)
        else:
            array, unfit = pa.array(map(_text, values), pa.string()), 0
            if not pa.types.is_string(field.type):
                array, unfit = cast_leniently(array, field.type)
        columns.append(array)
        bad += unfit
    return pa.table(columns, schema=schema), bad


def _nested(values: Sequence[Any], dtype: pa.DataType) -> tuple[pa.Array, int]:
    """Objects and lists as values of a type, all at once or each half, down to the one that does not fit."""
    if not values:
        return pa.nulls(0, dtype), 0
    lines = "\n".join(text_json.dumps({"value": value}) for value in values).encode()
    try:
        table = json.read_json(
            io.BytesIO(lines),
            read_options=json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            parse_options=json.ParseOptions(
                explicit_schema=pa.schema({"value": dtype}), unexpected_field_behavior="ignore"
            ),
        )
        return table.column("value").combine_chunks(), 0
    except pa.ArrowInvalid:
        if len(values) == 1:
            return pa.nulls(1, dtype), 1
    middle = len(values) // 2
    (low, bad_low), (high, bad_high) = _nested(values[:middle], dtype), _nested(values[middle:], dtype)
    return pa.concat_arrays([low, high]), bad_low + bad_high


def _lines(path: str) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Each line that is not blank, and the object on it, or None."""
    with open_lines(path) as source:
        for line in io.BufferedReader(source, BLOCK_BYTES):
            if line.strip():
                yield line.strip(), record_of(line)


def record_of(line: bytes) -> dict[str, Any] | None:
    """The object that a line is, or None."""
    try:
        record = text_json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else text_json.dumps(value)
