"""Values of results as JSON has them: numbers it cannot hold, times and bytes become text."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from weft.model.instants import python_rows


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """A table's rows.

    >>> rows(pa.table({"n": [1, None], "x": [0.5, float("nan")]}))
    [{'n': 1, 'x': 0.5}, {'n': None, 'x': 'NaN'}]
    """
    return [{name: plain(value) for name, value in row.items()} for row in python_rows(table)]


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


def to_json(value: Any) -> str:
    """A plain value as JSON, without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def json_rows(table: pa.Table) -> Iterator[str]:
    """Each row of a table as an object in JSON.

    >>> list(json_rows(pa.table({"name": ["é"], "x": [float("nan")]})))
    ['{"name":"é","x":"NaN"}']
    """
    return map(to_json, rows(table))
