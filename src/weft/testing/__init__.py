"""Tools for testing queries: rows as a test writes them, the oracle, a clock, generated data.

>>> from weft.testing import trades
>>> next(trades(3)).num_rows
3
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.io.sources.generate import sensors, ticker_names, trades, write_parquet
from weft.testing.clock import FakeClock
from weft.testing.literals import at, rows

if TYPE_CHECKING:
    from weft.testing.check import check_query
    from weft.testing.recompute import oracle

_RUNNING = {"check_query": "weft.testing.check", "oracle": "weft.testing.recompute"}


def __getattr__(name: str) -> Any:
    """Import what runs queries only when it is asked for: commands that make rows do not need it."""
    if name in _RUNNING:
        return getattr(import_module(_RUNNING[name]), name)
    raise AttributeError(f"module 'weft.testing' has no attribute {name!r}")


__all__ = [
    "FakeClock",
    "at",
    "check_query",
    "oracle",
    "rows",
    "sensors",
    "ticker_names",
    "trades",
    "write_parquet",
]
