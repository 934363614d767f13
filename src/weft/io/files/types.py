"""The types of columns in files: given by name, or found in a file; and text turned into them leniently."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import JobError

NAMES = {
    "boolean": pa.bool_(),
    "bool": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}

ZONE_PATTERN = r"(Z|z|[+-]\d\d(:?\d\d)?)$"


def read_schema(schema: pa.Schema | Mapping[str, str | pa.DataType]) -> pa.Schema:
    """A schema from names and types.

    >>> read_schema({"ts": "timestamp", "price": "double"}).field("price").type
    DataType(double)
    """
    if isinstance(schema, pa.Schema):
        return schema
    return pa.schema([(name, _type(name, dtype)) for name, dtype in schema.items()])


def _type(column: str, given: str | pa.DataType) -> pa.DataType:
    if isinstance(given, pa.DataType):
        return given
    dtype = NAMES.get(given.strip().lower())
    if dtype is None:
        close = difflib.get_close_matches(given.lower(), NAMES, 1)
        hint = f"did you mean '{close[0]}'?" if close else f"choose from {', '.join(NAMES)}"
        raise JobError(f"column '{column}' has the unknown type '{given}'; {hint}")
    return dtype


def inferred_schema(schema: pa.Schema, zone: str | None = None) -> pa.Schema:
    """Return types inferred from text, as they are used: microseconds, and text where no type is better.

    A timestamp without zone is given ``zone``.
    """
    fields = []
    for field in schema:
        dtype = field.type
        if pa.types.is_timestamp(dtype):
            dtype = pa.timestamp("us", dtype.tz or zone)
        elif pa.types.is_null(dtype) or pa.types.is_time(dtype):
            dtype = pa.string()
        fields.append(pa.field(field.name, dtype))
    return pa.schema(fields)


def cast_leniently(text: pa.Array, dtype: pa.DataType) -> tuple[pa.Array, int]:
    """Text as values of a type: what cannot be read becomes null, and is counted.

    >>> array, bad = cast_leniently(pa.array(["1", "x", None]), pa.int64())
    >>> array.to_pylist(), bad
    ([1, None, None], 1)
    """
    if pa.types.is_timestamp(dtype) and dtype.tz:
        zoned = pc.fill_null(pc.match_substring_regex(text, ZONE_PATTERN), True)
        text = pc.if_else(zoned, text, pc.binary_join_element_wise(text, "Z", ""))
    return _halve(pc.utf8_trim_whitespace(text), dtype)


def _halve(text: pa.Array, dtype: pa.DataType) -> tuple[pa.Array, int]:
    """Cast all at once, or each half, down to the one value that cannot be read."""
    try:
        return text.cast(dtype), 0
    except pa.ArrowInvalid:
        if len(text) == 1:
            return pa.nulls(1, dtype), 1
    middle = len(text) // 2
    (low, bad_low), (high, bad_high) = _halve(text[:middle], dtype), _halve(text[middle:], dtype)
    return pa.concat_arrays([low, high]), bad_low + bad_high
