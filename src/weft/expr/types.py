"""SQL types and the Arrow types that carry them; the one place that decides which columns can be read."""

from __future__ import annotations

import re
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from weft.errors import QueryError

SQL_TYPES = ("boolean", "bigint", "double", "string", "timestamp", "date", "null")
"""The types of literals and casts; columns may also be ``decimal``, which only casts and IS NULL take."""

_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "null": pa.null(),
}


def sql_type(arrow: pa.DataType) -> str:
    """The SQL type of an Arrow type; a dictionary has the type of its values.

    >>> sql_type(pa.int16()), sql_type(pa.dictionary(pa.int32(), pa.string()))
    ('bigint', 'string')
    """
    t = pa.types
    if t.is_dictionary(arrow):
        return sql_type(arrow.value_type)
    for holds, name in (
        (t.is_boolean, "boolean"),
        (t.is_integer, "bigint"),
        (t.is_floating, "double"),
        (t.is_string, "string"),
        (t.is_large_string, "string"),
        (t.is_string_view, "string"),
        (t.is_timestamp, "timestamp"),
        (t.is_date, "date"),
        (t.is_decimal, "decimal"),
        (t.is_null, "null"),
    ):
        if holds(arrow):
            return name
    raise QueryError(
        f"values of type {arrow} cannot be used in an expression",
        hint="numbers, booleans, strings, timestamps and dates can; convert the column at the source",
    )


def arrow_type(name: str, tz: str | None = None) -> pa.DataType:
    """The Arrow type in which values of a SQL type are computed.

    >>> arrow_type("timestamp", "UTC")
    TimestampType(timestamp[us, tz=UTC])
    """
    return pa.timestamp("us", tz) if name == "timestamp" else _ARROW[name]


def time_zone(arrow: pa.DataType) -> str | None:
    """The time zone of a timestamp type; None for every other type."""
    if pa.types.is_dictionary(arrow):
        arrow = arrow.value_type
    return arrow.tz if pa.types.is_timestamp(arrow) else None


@cache
def zone_rules(tz: str) -> ZoneInfo | None:
    """When the clocks of a zone change; None for a fixed offset such as +02:00. QueryError if there is none.

    >>> zone_rules("Europe/Paris")
    zoneinfo.ZoneInfo(key='Europe/Paris')
    """
    if re.fullmatch(r"[+-]\d{2}:?\d{2}", tz):
        return None
    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise QueryError(
            f"unknown time zone '{tz}'",
            hint="install the system's time zone data, or convert the column to UTC",
        ) from None


def is_utc(tz: str | None) -> bool:
    """Whether local time in this zone is UTC; timestamps without a zone are read as UTC."""
    return tz is None or tz.upper() in ("UTC", "Z", "GMT", "ETC/UTC", "+00:00")
