"""Rules of time of each stream of a run, as they were asked for."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TypeAlias

from weft.errors import JobError
from weft.model.duration import parse_optional
from weft.operators.watermark import TimeRules

Wait: TypeAlias = str | datetime.timedelta | None
Lateness: TypeAlias = Wait | Mapping[str, Wait]
"""How long rows out of order are waited for: of all streams, or of each by its name."""


def read_lateness(given: Lateness, streams: Collection[str]) -> dict[str, int | None]:
    """Return the lateness of each stream in microseconds; None where none is given.

    >>> read_lateness("2 s", ["a"]), read_lateness({"b": "1 s"}, ["a", "b"])
    ({'a': 2000000}, {'a': None, 'b': 1000000})
    """
    if not isinstance(given, Mapping):
        wait = parse_optional(given, "lateness")
        return dict.fromkeys(streams, wait)
    for name in given:
        check_stream(name, streams)
    return {name: parse_optional(given.get(name), f"lateness of {name!r}") for name in streams}


def check_stream(name: str, streams: Collection[str]) -> None:
    """Refuse a lateness of a stream that the run does not have."""
    if name not in streams:
        known = (
            f"there are {', '.join(streams)}" if any(streams) else "the one stream is given without a name"
        )
        raise JobError(f"lateness names a stream {name!r} which is not there; {known}")


def time_rules(
    lateness: Mapping[str, int | None],
    max_ahead: int | None,
    idle: int | None,
    bounded: Collection[str],
    *,
    goes_on: bool,
) -> dict[str, TimeRules]:
    """Return the rules of each stream; those ``bounded`` have an end, after which another run may go on."""
    rules = {}
    for name, wait in lateness.items():
        own = TimeRules.of(wait, max_ahead, idle, ends=name in bounded and not goes_on)
        rules[name] = replace(own, whole=name in bounded and goes_on and wait is None)
    return rules
