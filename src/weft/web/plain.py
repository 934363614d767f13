"""Values of results as JSON has them: numbers it cannot hold, times and bytes become text."""

from __future__ import annotations

import base64
import math
from typing import Any

import pyarrow as pa


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """A table's rows.

    >>> rows(pa.table({"n": [1, None], "x": [0.5, float("nan")]}))
    [{'n': 1, 'x': 0.5}, {'n': None, 'x': 'NaN'}]
    """
    return [{name: plain(value) for name, value in row.items()} for row in table.to_pylist()]


def plain(value: Any) -> Any:
    """One value.

    >>> plain(float("-inf")), plain(b"ab"), plain([1, {"a": None}])
    ('-Infinity', 'YWI=', [1, {'a': None}])
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return (
            value
            if math.isfinite(value)
            else "NaN"
            if value != value
            else "-Infinity"
            if value < 0
            else "Infinity"
        )
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def text(value: Any) -> str | None:
    """A value as it is written in a filter; None for null.

    >>> text(True), text(1.5), text(None)
    ('true', '1.5', None)
    """
    written = plain(value)
    if isinstance(written, bool):
        return str(written).lower()
    return None if written is None else str(written)


def typed(written: str | None, type: pa.DataType) -> Any:
    """The value of a type that is written so, the inverse of ``text``; ValueError where there is none.

    >>> typed("1.5", pa.float64()), typed(None, pa.string()), typed("YWI=", pa.binary())
    (1.5, None, b'ab')
    >>> typed("2024-01-01T00:00:00+00:00", pa.timestamp("us", "UTC")).isoformat()
    '2024-01-01T00:00:00+00:00'
    """
    if written is None:
        return None
    if pa.types.is_binary(type) or pa.types.is_large_binary(type):
        return base64.b64decode(written, validate=True)
    return pa.scalar(written).cast(type).as_py()
