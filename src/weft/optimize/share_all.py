"""share-all: one tree, one set of slices for every query."""

from __future__ import annotations

from weft.query import Query


def share_all(queries: tuple[Query, ...], rate: float) -> list[tuple[Query, ...]]:
    """All queries in one tree."""
    return [queries]
