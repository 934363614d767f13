"""A clock that a test moves."""

from __future__ import annotations

import datetime
from contextlib import ExitStack
from types import TracebackType

from weft.model.duration import parse_duration
from weft.runner.clock import clock_replaced
from weft.testing.literals import DAY, at


class FakeClock:
    """A clock that stands still until a test moves it; runs in this process go by it inside the block.

    ``max_ahead`` and ``idle_timeout`` are then judged by it. Its time is UTC, given as `rows` takes it:
    ``12:00`` is noon of 2024-01-01. A call returns the seconds since the epoch.

    >>> import weft
    >>> from weft.testing import FakeClock, rows
    >>> query = weft.sql("SELECT count(*) AS n FROM s [RANGE '1 min']")
    >>> with FakeClock("12:00") as clock:
    ...     batch = rows([{"ts": "12:30"}])
    ...     run = weft.LocalRun(query, batch.schema, time="ts", max_ahead="10 min")
    ...     _ = run.step(batch)
    ...     early = run.seen.ahead
    ...     clock.advance("25 min")
    ...     _ = run.step(batch)
    >>> early, run.seen.ahead
    (1, 1)
    """

    def __init__(self, start: str | float | datetime.datetime = DAY) -> None:
        self._now = _utc(start)
        self._blocks = ExitStack()

    @property
    def now(self) -> datetime.datetime:
        """The time that it shows."""
        return self._now

    def __call__(self) -> float:
        """Return the seconds since the epoch."""
        return self._now.timestamp()

    def advance(self, by: str | datetime.timedelta) -> None:
        """Move it on by a duration, as in ``5 min``."""
        self._now += datetime.timedelta(microseconds=parse_duration(by, "by"))

    def set(self, time: str | float | datetime.datetime) -> None:
        """Set it to another time, later or earlier."""
        self._now = _utc(time)

    def __enter__(self) -> FakeClock:
        self._blocks.enter_context(clock_replaced(self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._blocks.close()


def _utc(time: str | float | datetime.datetime) -> datetime.datetime:
    instant = at(time)
    return instant.replace(tzinfo=datetime.UTC) if instant.tzinfo is None else instant
