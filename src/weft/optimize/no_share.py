"""no-share: every query has a tree, and slices, of its own."""

from __future__ import annotations

from weft.query import Query


def no_share(queries: tuple[Query, ...], rate: float) -> list[tuple[Query, ...]]:
    """One tree per query."""
    return [(q,) for q in queries]
