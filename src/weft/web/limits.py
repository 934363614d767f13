"""How much a client may ask for."""

from __future__ import annotations

from dataclasses import dataclass

BODY = 128 * 1024
SQL = 20_000
NAME = 100
WAIT = 60.0
LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Limits:
    """The most queries at once, and the least time between two windows of one, in microseconds."""

    queries: int = 1000
    slide: int = 10_000
