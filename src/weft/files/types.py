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

ZONED = r"(Z|z|[+-]\d\d(:?\d\d)?)$"


def read_schema(schema: pa.Schema | Mapping[str, str | pa.DataType]) -> pa.Schema:
    """A schema from names and types.

    >>> read_schema({"ts": "timestamp", "price": "double"}).field("price").type
    DataType(double)
    """
    if isinstance(schema, pa.Schema):
        return schema
    return pa.schema([(name, _type(name, type)) for name, type in schema.items()])


def _type(column: str, type: str | pa.DataType) -> pa.DataType:
    if isinstance(type, pa.DataType):
        return type
    known = NAMES.get(type.strip().lower())
    if known is None:
        close = difflib.get_close_matches(type.lower(), NAMES, 1)
        hint = f"did you mean '{close[0]}'?" if close else f"choose from {', '.join(NAMES)}"
        raise JobError(f"column '{column}' has the unknown type '{type}'; {hint}")
    return known


def found_schema(schema: pa.Schema, zone: str | None = None) -> pa.Schema:
    """Types found in text, as they are used: microseconds, and text where there is no better type.

    A timestamp without zone is given ``zone``.
    """
    fields = []
    for field in schema:
        type = field.type
        if pa.types.is_timestamp(type):
            type = pa.timestamp("us", type.tz or zone)
        elif pa.types.is_null(type) or pa.types.is_time(type):
            type = pa.string()
        fields.append(pa.field(field.name, type))
    return pa.schema(fields)


def cast_leniently(text: pa.Array, type: pa.DataType) -> tuple[pa.Array, int]:
    """Text as values of a type: what cannot be read becomes null, and is counted.

    >>> array, bad = cast_leniently(pa.array(["1", "x", None]), pa.int64())
    >>> array.to_pylist(), bad
    ([1, None, None], 1)
    """
    if pa.types.is_timestamp(type) and type.tz:
        zoned = pc.fill_null(pc.match_substring_regex(text, ZONED), True)
        text = pc.if_else(zoned, text, pc.binary_join_element_wise(text, "Z", ""))
    return _halve(pc.utf8_trim_whitespace(text), type)


def _halve(text: pa.Array, type: pa.DataType) -> tuple[pa.Array, int]:
    """Cast all at once, or each half, down to the one value that cannot be read."""
    try:
        return text.cast(type), 0
    except pa.ArrowInvalid:
        if len(text) == 1:
            return pa.nulls(1, type), 1
    middle = len(text) // 2
    (low, bad_low), (high, bad_high) = _halve(text[:middle], type), _halve(text[middle:], type)
    return pa.concat_arrays([low, high]), bad_low + bad_high
