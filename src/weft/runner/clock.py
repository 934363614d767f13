"""Time of runs: the clock that they go by, and the one place that moves watermarks.

A stream has a clock of its own: how far it has come by its rows. A stage has a mark for each of its inputs:
for rows of a source the stream's, never behind what a flush of this stage has answered, and for rows of an
earlier stage what that one can still give.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field

from weft.model.instants import END_OF_TIME
from weft.operators.contract import Instant, Marks, Stage
from weft.operators.times import Seen
from weft.operators.watermark import IN_ORDER, StepClock, TimeRules, without_silent

WHOLE_STREAM = "*"
"""Stands for the stream itself among its partitions, where it is asked when it was last heard of."""

_replacements: list[Callable[[], float]] = []


def wall_clock() -> float:
    """Return the time in seconds since the epoch."""
    return _replacements[-1]() if _replacements else time.time()


def steady_clock() -> float:
    """Return seconds since any beginning, which only go forward: to measure how long something took."""
    return _replacements[-1]() if _replacements else time.monotonic()


@contextmanager
def clock_replaced(clock: Callable[[], float]) -> Iterator[None]:
    """Let all runs of this process go by another clock, in the block.

    >>> with clock_replaced(lambda: 60.0):
    ...     wall_clock()
    60.0
    """
    _replacements.append(clock)
    try:
        yield
    finally:
        _replacements.remove(clock)


@dataclass(frozen=True, slots=True)
class StreamTime:
    """The time of a stream: counts of its rows, its own watermark, and the clock when each partition,
    and the stream as a whole, was last heard of."""

    seen: Seen = field(default_factory=Seen)
    mark: Instant | None = None
    heard: Mapping[str, int] = field(default_factory=dict)

    @property
    def silent_since(self) -> int | None:
        """Return the clock when anything last came of it; None before the first step."""
        return max(self.heard.values(), default=None)


@dataclass(frozen=True, slots=True)
class Unread:
    """Rows of a stream that are known to come next: partitions that have more, and a time before which no
    row is unread (END_OF_TIME: nothing is; None: not known)."""

    partitions: Set[str] = frozenset()
    since: Instant | None = None


@dataclass(frozen=True)
class StepTime:
    """The time that a step goes by: fixed before it runs, so that a step made again decides the same.

    ``rules`` are those of each stream, ``streams`` how far each had come, ``marks`` those of each stage
    before the step; ``until``, where given, those after it, whatever the rows say. A joined stream from which
    nothing has come for ``idle`` microseconds holds the others back no more.
    """

    rules: Mapping[str, TimeRules]
    now: int = 0
    streams: Mapping[str, StreamTime] = field(default_factory=dict)
    marks: Mapping[str, Marks] = field(default_factory=dict)
    until: Mapping[str, Marks] | None = None
    idle: int | None = None

    @property
    def needs_clock(self) -> bool:
        """Return whether what the step decides depends on when it is made."""
        return self.idle is not None or any(rules.needs_clock for rules in self.rules.values())

    def limit(self, stream: str) -> Instant | None:
        """Return the time after which rows of a stream are ahead of the clock; None: no row is."""
        return self._clock(stream).limit

    def marks_of(self, stage: Stage) -> dict[str, Instant | None]:
        """Return the marks of a stage before the step; a new one begins with those of its streams."""
        before = self.marks.get(stage.name, {})
        return {name: before.get(name, self._time(name).mark) for name in stage.inputs}

    def streams_after(
        self, seen: Mapping[str, Seen], unread: Mapping[str, Unread] | None = None
    ) -> dict[str, StreamTime]:
        """Return how far the streams have come once these rows are in."""
        after = {}
        for name in {**self.streams, **dict.fromkeys(self.rules)}:
            before, new, rest = self._time(name), seen.get(name, Seen()), (unread or {}).get(name, Unread())
            clock = self._clock(name)
            mark = clock.watermark_after(new.latest, rest.partitions, rest.since)
            heard = clock.heard_after(new.latest)
            if new.rows or WHOLE_STREAM not in heard:
                heard[WHOLE_STREAM] = self.now
            after[name] = StreamTime(before.seen + new, mark, heard)
        return after

    def marks_after(
        self, stages: Iterable[Stage], streams: Mapping[str, StreamTime]
    ) -> dict[str, dict[str, Instant | None]]:
        """Return the marks of stages, which stand in order, once the streams have come so far."""
        after: dict[str, dict[str, Instant | None]] = {}
        given: dict[str, Instant | None] = {name: stream.mark for name, stream in streams.items()}
        for stage in stages:
            before = self.marks_of(stage)
            if self.until is not None:
                now = dict(self.until.get(stage.name, before))
            else:
                now = {name: later_mark(before[name], given.get(name)) for name in stage.inputs}
                if len(now) > 1:
                    heard = {name: streams[name].silent_since or self.now for name in now if name in streams}
                    now = without_silent(now, heard, self.now, self.idle)
            after[stage.name] = now
            given |= stage.marks_out(now)
        return after

    def closing(
        self, stages: Collection[Stage], with_ahead: bool = False
    ) -> dict[str, dict[str, Instant | None]] | None:
        """Return the marks that answer all that waits, by stage; None where nothing does.

        ``with_ahead`` counts rows ahead of the clock, too: for a run after which none goes on.
        """
        latest = {name: latest_time(stream.seen, with_ahead) for name, stream in self.streams.items()}
        until: dict[str, dict[str, Instant | None]] = {}
        for stage in stages:
            marks = dict(
                stage.closing({name: latest.get(name) for name in stage.inputs}, self.marks_of(stage))
            )
            until[stage.name] = marks
            # Rows that a stage gives are before its own marks.
            latest |= {n: None if mark is None else mark - 1 for n, mark in stage.marks_out(marks).items()}
        return None if all(until[stage.name] == self.marks_of(stage) for stage in stages) else until

    def _time(self, stream: str) -> StreamTime:
        return self.streams.get(stream, StreamTime())

    def _clock(self, stream: str) -> StepClock:
        before = self._time(stream)
        rules = self.rules.get(stream, IN_ORDER)
        return StepClock(rules, self.now, before.mark, before.seen.latest, before.heard)


def ending(stages: Iterable[Stage]) -> dict[str, dict[str, Instant | None]]:
    """Return the marks of stages at the end of everything."""
    return {stage.name: dict.fromkeys(stage.inputs, END_OF_TIME) for stage in stages}


def latest_time(seen: Seen, with_ahead: bool = False) -> Instant | None:
    """Return the latest event time, of rows that are believed or also of those ahead; None before any."""
    times = [seen.max_time, seen.ahead_time if with_ahead else None]
    return max((at for at in times if at is not None), default=None)


def later_mark(one: Instant | None, other: Instant | None) -> Instant | None:
    """Return the later of two marks.

    >>> later_mark(3, None), later_mark(None, None)
    (3, None)
    """
    return max((mark for mark in (one, other) if mark is not None), default=None)


def least_mark(marks: Iterable[Instant | None]) -> Instant | None:
    """Return the mark that all have passed; None where one has none, or there is none.

    >>> least_mark([3, 5]), least_mark([3, None])
    (3, None)
    """
    known = list(marks)
    passed = [mark for mark in known if mark is not None]
    return min(passed) if passed and len(passed) == len(known) else None
