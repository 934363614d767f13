"""Waiting for what another thread does."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(happened: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)
