"""Limits of what a client may ask for."""

from __future__ import annotations

from dataclasses import dataclass

MAX_BODY_BYTES = 128 * 1024
MAX_SQL_CHARACTERS = 20_000
MAX_NAME_CHARACTERS = 100
MAX_WAIT_SECONDS = 60.0
MAX_RESULT_ROWS = 10_000

MAX_WAITING = 256
"""Connections that may wait for their clients at once: for a request, the rest of it, or the next one."""
MAX_WAITING_OF_ADDRESS = 128
"""Waiting connections of one address."""
WAITING_SECONDS = 5.0
"""Time for the head of a request to come, and as much for its body."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most queries at once, and the least time between two windows of one, in microseconds."""

    queries: int = 1000
    slide: int = 10_000
