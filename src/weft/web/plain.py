"""Values of results as they are written in a filter."""

from __future__ import annotations

from typing import Any

from weft.plain import plain


def text(value: Any) -> str | None:
    """A value as it is written in a filter; None for null.

    >>> text(True), text(1.5), text(None)
    ('true', '1.5', None)
    """
    written = plain(value)
    if isinstance(written, bool):
        return str(written).lower()
    return None if written is None else str(written)
