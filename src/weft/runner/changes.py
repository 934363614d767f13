"""A change of what a stream answers, as it is reported to who asked for it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Change:
    """A change that a batch has taken: the query's name, and the version of the queries that it made.

    Of a query that was added, windows that start at ``exact_from`` or later are answered (None: all);
    ``history`` says whether rows from before that are in them. Windows counted in rows count from then.
    Of a join, results from ``exact_from`` on are all there; before, those of the rows that came after it.
    """

    name: str
    version: int
    exact_from: datetime.datetime | None = None
    history: bool = False


def moment(time: int, tz: str | None) -> datetime.datetime:
    """A time in microseconds as Python has it, in UTC where there is a zone.

    >>> moment(8_000_000, None)
    datetime.datetime(1970, 1, 1, 0, 0, 8)
    """
    try:
        instant = EPOCH + datetime.timedelta(microseconds=time)
    except OverflowError:
        instant = datetime.datetime.max if time > 0 else datetime.datetime.min
    return instant if tz is None else instant.replace(tzinfo=datetime.UTC)
