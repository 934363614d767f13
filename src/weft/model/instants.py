"""Instants in microseconds: the first and the last, and all others as text; Python's own end with 9999.

The calendar repeats after 400 years, so a time is moved by such cycles into years that Python knows.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pyarrow as pa

BEGINNING_OF_TIME = -(1 << 63)
"""Before every time: of a query that was there before the first row; a watermark that closes nothing."""

END_OF_TIME = (1 << 63) - 1
"""After every time: the mark of a chunk behind which nothing is unread; a watermark that closes all."""

CYCLE = 146_097 * 86_400_000_000
"""Microseconds of 400 years."""

EPOCH = datetime.datetime(1970, 1, 1)
PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}

Write = Callable[[int, bool, bool], str]
"""A writer of times: microseconds since the epoch, whether they have a zone, whether it is a date."""


def iso(microseconds: int, zoned: bool = True, day: bool = False) -> str:
    """A time in UTC as ISO 8601 has it, years of other than four digits with a sign and six of them.

    >>> iso(1_700_000_000_000_000), iso(253_402_300_800_000_000), iso(-62_167_219_200_000_001, zoned=False)
    ('2023-11-14T22:13:20+00:00', '+010000-01-01T00:00:00+00:00', '-000001-12-31T23:59:59.999999')
    """
    year, rest = _year_and_rest(microseconds, "T", day)
    return (
        f"{year:04}{rest}{_offset(zoned, day)}"
        if 0 <= year <= 9999
        else f"{year:+07}{rest}{_offset(zoned, day)}"
    )


def postgres(microseconds: int, zoned: bool = True, day: bool = False) -> str:
    """A time as PostgreSQL reads it, which knows no year before 4713 BC.

    >>> postgres(253_402_300_800_000_000), postgres(-62_167_219_200_000_000, day=True), postgres(-(2**62))
    ('10000-01-01 00:00:00+00:00', '0001-01-01 BC', '-infinity')
    """
    year, rest = _year_and_rest(microseconds, " ", day)
    if year <= -4712:
        return "-infinity"
    text = f"{year if year > 0 else 1 - year:04}{rest}{_offset(zoned, day)}"
    return text if year > 0 else f"{text} BC"


def instant(microseconds: int) -> datetime.datetime | str:
    """A time in UTC as Python has it, or as text in years that it does not know."""
    try:
        return EPOCH.replace(tzinfo=datetime.UTC) + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        return iso(microseconds)


def python_values(column: pa.ChunkedArray | pa.Array, write: Write = iso) -> list[Any]:
    """A column's values in Python; times in years that it does not know as text.

    >>> python_values(pa.array([0, 2**60], pa.timestamp("us")))
    [datetime.datetime(1970, 1, 1, 0, 0), '+038504-08-17T21:30:06.846976']
    """
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (ValueError, OverflowError):
        return [_python_value(scalar, write) for scalar in column]


def python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """A table's rows in Python; times in years that it does not know as text."""
    columns = [python_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row)) for row in zip(*columns)]


def _python_value(scalar: pa.Scalar, write: Write) -> Any:
    if not scalar.is_valid:
        return None
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        if isinstance(scalar, pa.DictionaryScalar):
            scalar = scalar.value
        if isinstance(scalar, pa.TimestampScalar):
            return write(scalar.value * PER_UNIT[scalar.type.unit], scalar.type.tz is not None, False)
        if isinstance(scalar, pa.Date32Scalar):
            return write(scalar.value * 86_400_000_000, False, True)
        if isinstance(scalar, pa.Date64Scalar):
            return write(scalar.value * 1_000, False, True)
        return str(scalar)


def _year_and_rest(microseconds: int, between: str, day: bool) -> tuple[int, str]:
    cycles, within = divmod(microseconds, CYCLE)
    moment = EPOCH + datetime.timedelta(microseconds=within)
    text = moment.date().isoformat() if day else moment.isoformat(between)
    return moment.year + 400 * cycles, text[4:]


def _offset(zoned: bool, day: bool) -> str:
    return "+00:00" if zoned and not day else ""
