"""Results as JSON, the one way for files, messages and requests: times in ISO 8601 and UTC."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa


def json_rows(table: pa.Table) -> Iterator[str]:
    """Each row as an object.

    Numbers that JSON does not know are text, as Spark writes them: ``"NaN"``, ``"Infinity"`` and so on.

    >>> at = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    >>> list(json_rows(pa.table({"at": [at], "x": [float("nan")]})))
    ['{"at":"2024-01-01T00:00:00Z","x":"NaN"}']
    """
    for row in plain_rows(table):
        yield to_json(row)


def plain_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Each row as an object, of what JSON knows."""
    for row in table.to_pylist():
        yield {name: _plain(value) for name, value in row.items()}


def to_json(value: Any) -> str:
    """A plain value as JSON, without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC)
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
