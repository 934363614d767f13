"""The watermark: the least event time that a row still to come can have, and what may move it.

Rows move it: it is the latest time read, less the lateness, and where a stream comes in partitions, the least
of theirs. Three things do not: a row further ahead of the clock than ``max_ahead``, which is taken for an
error of whoever sent it; a partition from which nothing has come for a while; and, where no lateness is given
for input that ends, any row at all: then only what is known of the rows not read yet moves it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from weft.model.instants import END_OF_TIME

MAX_AHEAD = 3_600_000_000
"""Microseconds that a row of a live source may be ahead of the clock, where nothing else is asked for."""

PARTITION_IDLE = 60_000_000
"""Microseconds after which a silent partition of a live source holds nothing back, likewise."""

SOLE_PARTITION = ""
"""The partition of a stream that comes in one."""


@dataclass(frozen=True, slots=True)
class TimeRules:
    """Rules by which a stream's time runs, in microseconds.

    ``lateness`` is how far behind the latest row others may come; None, for input that ends, lets no row be
    late. ``max_ahead`` is how far ahead of the clock a row may be and still move the watermark. A partition
    (of a topic), or one of several joined streams, that has been silent for ``idle`` holds nothing back. What
    a run is given that ends, and another may go on after, is taken ``whole``: none of its rows is late for
    another of them.
    """

    lateness: int | None = 0
    max_ahead: int | None = None
    idle: int | None = None
    whole: bool = False

    @classmethod
    def of(cls, lateness: int | None, max_ahead: int | None, idle: int | None, *, ends: bool) -> TimeRules:
        """The rules where these were asked for (None: not), for input that ``ends`` or for a live one.

        >>> TimeRules.of(None, None, None, ends=True)
        TimeRules(lateness=None, max_ahead=None, idle=None, whole=False)
        >>> TimeRules.of(None, None, None, ends=False)
        TimeRules(lateness=0, max_ahead=3600000000, idle=60000000, whole=False)
        """
        if ends:
            return cls(lateness, max_ahead, idle)
        return cls(
            lateness or 0,
            MAX_AHEAD if max_ahead is None else max_ahead,
            PARTITION_IDLE if idle is None else idle,
        )

    @property
    def needs_clock(self) -> bool:
        """Return whether what a step decides depends on when it is made."""
        return self.max_ahead is not None or self.idle is not None


UNREAD_REMARK = "windows wait for the end of the input: rows not read yet may be of any time"
"""The remark of a step where no lateness is given and nothing is known of the rows to come."""

IN_ORDER = TimeRules()
"""Every row behind the latest is late, and none is ahead."""


@dataclass(frozen=True, slots=True)
class StepClock:
    """The time that a step goes by: fixed before it runs, so that a step made again decides the same.

    ``now`` is the clock, ``watermark`` the one before the step; ``latest`` has the latest time read of each
    partition, and ``heard`` the clock of the step that last brought a row of it.

    >>> clock = StepClock(TimeRules(lateness=10, idle=100), now=1000, watermark=5)
    >>> clock.watermark_after({"": 30})
    20
    """

    rules: TimeRules = IN_ORDER
    now: int = 0
    watermark: int | None = None
    latest: Mapping[str, int] = field(default_factory=dict)
    heard: Mapping[str, int] = field(default_factory=dict)

    @property
    def limit(self) -> int | None:
        """The time after which a row is ahead of the clock; None: no row is."""
        return None if self.rules.max_ahead is None else self.now + self.rules.max_ahead

    def heard_after(self, latest: Mapping[str, int]) -> dict[str, int]:
        """Return the clock when each partition was last heard of, once these rows are in."""
        return {**self.heard, **dict.fromkeys(latest, self.now)}

    def watermark_after(
        self, latest: Mapping[str, int], unread: Set[str] = frozenset(), unread_from: int | None = None
    ) -> int | None:
        """The watermark once rows are in, whose ``latest`` times are these; never before the last.

        ``unread`` are partitions that are known to have more rows: they hold it back, however long they
        have been silent, and altogether until their first row is read. ``unread_from`` is a time before
        which no row is unread (END_OF_TIME: none is unread at all), which counts where no lateness is given.

        >>> clock = StepClock(TimeRules(lateness=0, idle=100), now=1000, latest={"0": 7}, heard={"0": 990})
        >>> clock.watermark_after({"1": 50}), clock.watermark_after({"1": 50}, unread={"0", "1", "2"})
        (7, None)
        """
        after = unread_from if self.rules.lateness is None else self._reached(latest, unread)
        if self.rules.whole and unread_from != END_OF_TIME:
            after = None if after is None or unread_from is None else min(after, unread_from)
        return max(
            (mark for mark in (self.watermark, after) if mark not in (None, END_OF_TIME)), default=None
        )

    def _reached(self, latest: Mapping[str, int], unread: Set[str]) -> int | None:
        reached = later(self.latest, latest)
        if not reached or self.rules.lateness is None or not unread <= reached.keys():
            return None
        silent = self.silent(self.heard_after(latest)) - unread
        holding = [time for partition, time in reached.items() if partition not in silent]
        return (min(holding) if holding else max(reached.values())) - self.rules.lateness

    def silent(self, heard: Mapping[str, int]) -> set[str]:
        """The partitions from which nothing has come for so long that they hold nothing back."""
        if self.rules.idle is None:
            return set()
        return {partition for partition, at in heard.items() if self.now - at >= self.rules.idle}


def without_silent(
    marks: Mapping[str, int | None], heard: Mapping[str, int], now: int, idle: int | None
) -> dict[str, int | None]:
    """The watermarks of joined streams, where one that has been silent for ``idle`` goes with the others.

    >>> without_silent({"a": 49, "b": None}, {"a": 990, "b": 100}, now=1000, idle=100)
    {'a': 49, 'b': 49}
    """
    silent = {stream for stream in marks if idle is not None and now - heard.get(stream, now) >= idle}
    live = [mark for stream, mark in marks.items() if stream not in silent]
    live_marks = [mark for mark in live if mark is not None]
    if not live_marks or len(live_marks) < len(live):
        return dict(marks)
    least = min(live_marks)
    return {s: max(least, least if m is None else m) if s in silent else m for s, m in marks.items()}


def flush_remark(watermark: int | None) -> str:
    """Return the remark on a flush after which more rows may come; empty at the end of everything.

    >>> flush_remark(1_700_000_000_000_000)
    'all open windows were answered: rows before 2023-11-14 22:13:20 UTC that come later are late'
    """
    if watermark is None or watermark == END_OF_TIME:
        return ""
    until = np.datetime_as_string(np.datetime64(watermark, "us"), unit="s").replace("T", " ")
    return f"all open windows were answered: rows before {until} UTC that come later are late"


def later(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """The later of two times for each partition.

    >>> later({"0": 5, "1": 1}, {"0": 3, "2": 4})
    {'0': 5, '1': 1, '2': 4}
    """
    return {**before, **{p: max(time, before.get(p, time)) for p, time in now.items()}}


def latest_times(
    times: np.ndarray, usable: np.ndarray, origins: Sequence[tuple[str, int]], limit: int | None
) -> dict[str, int]:
    """The latest time of each partition, of rows that have one (``usable``; empty: all) within the limit.

    ``origins`` says of how many rows, one after the other, which partition they are.

    >>> latest_times(np.array([5, 9, 3, 99]), np.zeros(0, bool), [("0", 2), ("1", 2)], limit=50)
    {'0': 9, '1': 3}
    """
    latest: dict[str, int] = {}
    start = 0
    for partition, rows in origins or ((SOLE_PARTITION, len(times)),):
        own_times = times[start : start + rows]
        if usable.size:
            own_times = own_times[usable[start : start + rows]]
        if limit is not None and own_times.size and own_times.max() > limit:
            own_times = own_times[own_times <= limit]
        if own_times.size:
            latest = later(latest, {partition: int(own_times.max())})
        start += rows
    return latest
