"""CAST of one Python value, as Spark's ANSI mode has it; what Spark would refuse raises BadValue.

>>> cast("2024-02-29", "date"), cast(1e7, "string")
(datetime.date(2024, 2, 29), '1.0E7')
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from zoneinfo import ZoneInfo

LOCAL_ZONE: ContextVar[dt.tzinfo | None] = ContextVar("zone", default=None)
"""The zone of the run, where timestamps are instants; None: local times stay as they are."""

MIN, MAX = -(2**63), 2**63 - 1
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@contextmanager
def in_zone(zone: str | None) -> Iterator[None]:
    """Read local times as those of this zone, in the block."""
    token = LOCAL_ZONE.set(None if zone is None else ZoneInfo(zone))
    try:
        yield
    finally:
        LOCAL_ZONE.reset(token)


class BadValue(Exception):
    """Raised by the functions below for a value that Spark's ANSI mode would refuse."""


def type_of_value(value: Any) -> str:
    """Return the SQL type of a Python value."""
    for python, name in (
        (bool, "boolean"),
        (int, "bigint"),
        (float, "double"),
        (str, "string"),
        (dt.datetime, "timestamp"),
        (dt.date, "date"),
        (decimal.Decimal, "decimal"),
    ):
        if isinstance(value, python):
            return name
    return "null"


def cast(value: Any, wanted: str) -> Any:
    """Return SQL's CAST of a value, as Spark's ANSI mode has it."""
    result = _cast(value, wanted)
    return zoned(result) if wanted == "timestamp" and type_of_value(value) != wanted else result


def zoned(value: dt.datetime) -> dt.datetime:
    """Return a timestamp in the zone of the run; clocks that skip it make it as much later."""
    zone = LOCAL_ZONE.get()
    if zone is None:
        return value
    return (value if value.tzinfo else value.replace(tzinfo=zone)).astimezone(dt.UTC).astimezone(zone)


def _cast(value: Any, target: str) -> Any:
    source = type_of_value(value)
    if source == target:
        return value
    if source == "string":
        return FROM_TEXT[target](value.strip(" \t\n\r\x0b\x0c"))
    if target == "string":
        return to_text(value)
    if target == "boolean":
        return value != 0
    if target == "double":
        return (instant(value) - EPOCH) / dt.timedelta(seconds=1) if source == "timestamp" else float(value)
    if target == "bigint":
        if source == "timestamp":
            return (instant(value) - EPOCH) // dt.timedelta(seconds=1)
        return whole(math.trunc)(value) if source == "double" else within(int(value))
    if target == "date":
        return value.date()
    if source == "date":
        return dt.datetime.combine(value, dt.time())
    if source == "double" and not math.isfinite(value):
        raise BadValue
    return EPOCH + dt.timedelta(microseconds=within(math.trunc(value * 1_000_000)))


def to_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(" ", "microseconds")
        return text.rstrip("0").rstrip(".") if "." in text else text
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    return java_double(value) if isinstance(value, float) else str(value)


def java_double(value: float) -> str:
    """Java's Double.toString: plain from 1e-3 to 1e7, else d.dddEn."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return format(decimal.Decimal(repr(value)), "f")
    sign_, digits, exponent = decimal.Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    return f"{'-' * sign_}{text[0]}.{text[1:] or '0'}E{len(text) - 1 + int(exponent)}"


def text_to_boolean(text: str) -> bool:
    if text.lower() in ("t", "true", "y", "yes", "1"):
        return True
    if text.lower() in ("f", "false", "n", "no", "0"):
        return False
    raise BadValue


def text_to_bigint(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise BadValue
    return within(int(text))


def text_to_double(text: str) -> float:
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?", text):
        return float(text.rstrip("dDfF"))
    if re.fullmatch(r"nan|[+-]?inf(inity)?", text.lower()):
        return float(text)
    raise BadValue


DATE = r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})%s)?)?"
ZONE = r"(?: ?(Z|UTC|GMT|UT|[+-](?:\d{1,2}(?::\d{1,2})?|\d{4})))?"
TIME = r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?" + ZONE + ")?)?)?"


def text_to_date(text: str) -> dt.date:
    match = re.fullmatch(DATE % "(?:[ T].*)?", text, re.ASCII | re.DOTALL)
    try:
        return dt.date(*(int(g or 1) for g in match.groups()))  # type: ignore[union-attr]
    except (AttributeError, ValueError):
        raise BadValue from None


def text_to_timestamp(text: str) -> dt.datetime:
    match = re.fullmatch(DATE % TIME, text, re.ASCII)
    try:
        year, month, day, hour, minute, second, fraction, zone = match.groups()  # type: ignore[union-attr]
        micros = int((fraction or "")[:6].ljust(6, "0"))
        fields = (int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0))
        local = dt.datetime(*fields, int(second or 0), micros)
    except (AttributeError, ValueError):
        raise BadValue from None
    if zone is None:
        return local
    if zone[0] not in "+-":
        return local.replace(tzinfo=dt.UTC)
    if len(zone) == 5 and ":" not in zone:
        zone = f"{zone[:3]}:{zone[3:]}"
    hours, minutes = (int(part) for part in f"{zone[1:]}:0".split(":")[:2])
    offset = dt.timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)
    if minutes > 59 or abs(offset) > dt.timedelta(hours=18):
        raise BadValue
    return local.replace(tzinfo=dt.timezone(offset)).astimezone(dt.UTC)


FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "boolean": text_to_boolean,
    "bigint": text_to_bigint,
    "double": text_to_double,
    "date": text_to_date,
    "timestamp": text_to_timestamp,
}


def within(value: int) -> int:
    """Return an integer that fits bigint; BadValue for any other."""
    if not MIN <= value <= MAX:
        raise BadValue
    return value


def whole(rounding: Callable[[float], int]) -> Callable[[Any], int]:
    def apply(value: Any) -> int:
        if isinstance(value, float) and not math.isfinite(value):
            raise BadValue
        return within(rounding(value))

    return apply


def instant(value: dt.datetime) -> dt.datetime:
    return value if value.tzinfo else value.replace(tzinfo=LOCAL_ZONE.get() or dt.UTC)
