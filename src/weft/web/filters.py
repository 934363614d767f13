"""Values of results as they are written in a filter."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa

from weft.io.json_values import plain


def text(value: Any) -> str | None:
    """Write a value for a filter; None for null.

    >>> text(True), text(1.5), text(None)
    ('true', '1.5', None)
    """
    written = plain(value)
    if isinstance(written, bool):
        return str(written).lower()
    return None if written is None else str(written)


def typed(written: str | None, dtype: pa.DataType) -> Any:
    """Read a value of a type from a filter, the inverse of ``text``; ValueError where there is none.

    >>> typed("1.5", pa.float64()), typed(None, pa.string()), typed("YWI=", pa.binary())
    (1.5, None, b'ab')
    >>> typed("2024-01-01T00:00:00+00:00", pa.timestamp("us", "UTC")).isoformat()
    '2024-01-01T00:00:00+00:00'
    """
    if written is None:
        return None
    if pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        return base64.b64decode(written, validate=True)
    return pa.scalar(written).cast(dtype).as_py()
