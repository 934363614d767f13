"""SQL types and the Arrow types that carry them; the one place that decides which columns can be read."""

from __future__ import annotations

import difflib
import re
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import pyarrow as pa

from weft.errors import JobError, QueryError

UTC = "UTC"

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
    """Return the SQL type of an Arrow type; a dictionary has the type of its values.

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
    """Return the Arrow type in which values of a SQL type are computed.

    >>> arrow_type("timestamp", "UTC")
    TimestampType(timestamp[us, tz=UTC])
    """
    return pa.timestamp("us", tz) if name == "timestamp" else _ARROW[name]


def time_zone(arrow: pa.DataType) -> str | None:
    """Return the time zone of a timestamp type; None for every other type."""
    if pa.types.is_dictionary(arrow):
        arrow = arrow.value_type
    return arrow.tz if pa.types.is_timestamp(arrow) else None


@cache
def zone_rules(tz: str) -> ZoneInfo | None:
    """Return when the clocks of a zone change; None for a fixed offset such as +02:00. QueryError if unknown.

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
            hint="install the system's time zone data, or take another zone",
        ) from None


def is_utc(tz: str | None) -> bool:
    """Return whether local time in this zone is UTC, or there is no zone, so that times stay as they are."""
    return tz is None or tz.upper() in _UTC


_UTC = frozenset(("UTC", "UCT", "Z", "ZULU", "GMT", "GMT0", "ETC/UTC", "ETC/UCT", "ETC/GMT", "+00:00"))
_FIXED_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")


@cache
def read_zone(zone: str) -> str:
    """Return the zone that a run's local times are in, by one name; JobError where it is unknown.

    >>> read_zone("Europe/Berlin"), read_zone("Etc/UTC"), read_zone("GMT+5")
    ('Europe/Berlin', 'UTC', '+05:00')
    """
    name, fixed = zone, _FIXED_OFFSET.fullmatch(zone)
    if fixed and int(fixed[2]) <= 18 and int(fixed[3] or 0) < 60:
        name = f"{fixed[1]}{int(fixed[2]):02}:{fixed[3] or '00'}".replace("-00:00", "+00:00")
    elif fixed or not _is_known(zone):
        close = difflib.get_close_matches(zone, available_timezones(), 1)
        remedy = f"did you mean '{close[0]}'?" if close else "write it as in 'Europe/Berlin' or '+05:30'"
        raise JobError(f"unknown time zone '{zone}'; {remedy}")
    return UTC if is_utc(name) else name


def _is_known(zone: str) -> bool:
    try:
        zone_rules(zone)
    except QueryError:
        return is_utc(zone)
    return True
