"""Rows as a test writes them: a table drawn in text, or dictionaries, with short times."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

Row: TypeAlias = dict[str, Any]
RowSource: TypeAlias = str | Iterable[Mapping[str, Any]]
"""A table drawn in text, or a dictionary for each row."""

DAY = datetime.datetime(2024, 1, 1)
"""The day of short times."""

WINDOW_BOUNDS = ("window_start", "window_end")
LONGEST_SHORT_TIME = datetime.timedelta(hours=100)

_CLOCK = re.compile(r"(-?)(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d{1,6})?))?")
_CELL = re.compile(r"'[^']*'|\S+")
_QUOTED_TEXT = re.compile(r"'[^']*'")


def rows(source: RowSource, time: str = "ts", types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
    """Return a table of rows from text that draws it, or from a dictionary for each row.

    The first line of a text has the names of the columns. Cells are separated by spaces; one that is all of
    numbers has numbers, and so on: ``true`` and ``false``, times, dates, else text. ``null`` is no value,
    and quotes, as in ``'two words'``, make text of anything. Times are short: ``00:05`` or ``12:00:05.25``
    of 2024-01-01, before it with a minus, and in the column ``time`` also seconds; others are in full.
    ``types`` are Arrow types of columns where others are wanted.

    >>> rows('''
    ...     ts     symbol  price
    ...     00:01  A       10.5
    ...     00:04  B       null
    ... ''').to_pylist()[0]
    {'ts': datetime.datetime(2024, 1, 1, 0, 1), 'symbol': 'A', 'price': 10.5}
    >>> rows([{"ts": 60, "x": 1}, {"ts": "00:02", "x": 2}]).column("ts").to_pylist()[1]
    datetime.datetime(2024, 1, 1, 0, 2)
    """
    python_rows = read_rows(source, (time,))
    names = list(dict.fromkeys(name for row in python_rows for name in row))
    if isinstance(source, str):
        names = header(source)
    columns = {}
    for name in names:
        dtype = (types or {}).get(name) or (pa.timestamp("us") if name == time and not python_rows else None)
        columns[name] = pa.array([row.get(name) for row in python_rows], dtype)
    return pa.table(columns)


def at(time: str | float | datetime.datetime) -> datetime.datetime:
    """Return a time of 2024-01-01, given in short or in seconds since midnight; or any other, given in full.

    >>> at("00:05"), at(90)
    (datetime.datetime(2024, 1, 1, 0, 5), datetime.datetime(2024, 1, 1, 0, 1, 30))
    >>> at("2024-02-29 10:00")
    datetime.datetime(2024, 2, 29, 10, 0)
    """
    if isinstance(time, datetime.datetime):
        return time
    if isinstance(time, int | float):
        return DAY + datetime.timedelta(seconds=time)
    clock = _CLOCK.fullmatch(time)
    if clock is None:
        return datetime.datetime.fromisoformat(time)
    sign, hours, minutes, seconds = clock.groups()
    since = datetime.timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds or 0))
    return DAY - since if sign else DAY + since


def show(value: Any) -> str:
    """Return a value as `rows` reads it in text: the inverse of reading a cell.

    >>> show(at("00:05")), show(at("-00:00:30")), show("two words"), show(None)
    ('00:05', '-00:00:30', "'two words'", 'null')
    """
    if value is None:
        return "null"
    if isinstance(value, datetime.datetime):
        return _show_time(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if _CELL.fullmatch(value) and _column([value]) == [value] else f"'{value}'"
    return str(value) if isinstance(value, datetime.date) else repr(value)


def read_rows(source: RowSource, times: Collection[str] = ()) -> list[Row]:
    """Return rows as Python values; ``times``, and the bounds of windows, may be seconds and short text."""
    times = {*times, *WINDOW_BOUNDS}
    if not isinstance(source, str):
        return [
            {name: _time(value) if name in times else value for name, value in row.items()} for row in source
        ]
    names, cells = header(source), _cells(source)[1:]
    for line in cells:
        if len(line) != len(names):
            raise ValueError(
                f"{len(line)} values for {len(names)} columns ({' '.join(names)}): {' '.join(line)}"
            )
    columns = [
        [_time(_number(cell)) for cell in column] if name in times else _column(column)
        for name, column in zip(names, zip(*cells))
    ]
    return [dict(zip(names, values)) for values in zip(*columns)]


def header(text: str) -> list[str]:
    """Return the names of the columns of a table drawn in text."""
    lines = _cells(text)
    if not lines:
        raise ValueError("there is no row; begin with a line of column names")
    return lines[0]


def _cells(text: str) -> list[list[str]]:
    return [_CELL.findall(line) for line in text.splitlines() if line.strip()]


def _time(value: Any) -> Any:
    """Return the instant that a value of a time column stands for."""
    if value is None or value == "null":
        return None
    return at(value) if isinstance(value, str | int | float) else value


def _number(cell: str) -> str | float:
    try:
        return float(cell)
    except ValueError:
        return cell


def _column(cells: Collection[str]) -> list[Any]:
    """Return the values of a column in the first type that takes them all."""
    readers: tuple[Callable[[str], Any], ...] = (
        _boolean,
        int,
        _double,
        _instant,
        datetime.date.fromisoformat,
    )
    for read in readers:
        try:
            return [None if cell == "null" else read(cell) for cell in cells]
        except ValueError:
            continue
    return [None if cell == "null" else _text(cell) for cell in cells]


def _boolean(cell: str) -> bool:
    if cell not in ("true", "false"):
        raise ValueError(cell)
    return cell == "true"


def _double(cell: str) -> float:
    value = float(cell)
    if not math.isfinite(value) and cell not in ("nan", "inf", "-inf"):
        raise ValueError(cell)
    return value


def _instant(cell: str) -> datetime.datetime:
    if len(cell) == len("2024-01-01"):
        raise ValueError(cell)
    return at(cell)


def _text(cell: str) -> str:
    return cell[1:-1] if _QUOTED_TEXT.fullmatch(cell) else cell


def _show_time(value: datetime.datetime) -> str:
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    since = value - DAY
    if abs(since) >= LONGEST_SHORT_TIME:
        return str(value).replace(" ", "T")
    microseconds = abs(since) // datetime.timedelta(microseconds=1)
    minutes, rest = divmod(microseconds, 60_000_000)
    seconds = f"{rest / 1e6:09.6f}".rstrip("0").removesuffix(".").ljust(2, "0") if rest else ""
    text = f"{minutes // 60:02}:{minutes % 60:02}" + (f":{seconds}" if rest else "")
    return f"-{text}" if since < datetime.timedelta() else text
