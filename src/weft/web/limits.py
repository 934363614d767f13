"""How much a client may ask for."""

from __future__ import annotations

from dataclasses import dataclass

BODY = 128 * 1024
SQL = 20_000
NAME = 100
WAIT = 60.0
LIMIT = 10_000

WAITING = 256
"""Connections that may wait for their clients at once: for a request, the rest of it, or the next one."""
WAITING_OF_ADDRESS = 128
"""Those of one address."""
WAITING_SECONDS = 5.0
"""Seconds for the head of a request to come, and as many for its body."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most queries at once, and the least time between two windows of one, in microseconds."""

    queries: int = 1000
    slide: int = 10_000
