"""Joins of M streams: rows, windows, conditions, and the order in which each stream's rows are joined.

Rows of all streams join if every condition holds and each row's age, measured from the latest of them, is
less than its own stream's window (Wang, section 11.1). A condition is over two streams, or over all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from weft.errors import QueryError

Test = Callable[[Any, Any], bool]


class Row(NamedTuple):
    """One row of a stream; ``number`` is its place in the order in which rows are taken."""

    number: int
    stream: int
    time: float
    value: Any


def rows_of(given: Iterable[tuple[int, float, Any]]) -> list[Row]:
    """Rows from (stream, time, value), in order of time.

    >>> rows_of([(0, 1.0, "a"), (1, 2.0, "b")])[1]
    Row(number=1, stream=1, time=2.0, value='b')
    """
    rows = [Row(number, *one) for number, one in enumerate(given)]
    wrong = [row for row in rows if not math.isfinite(row.time)]
    wrong += [row for before, row in pairwise(rows) if row.time < before.time]
    if wrong:
        raise QueryError(
            f"row {wrong[0].number} has time {wrong[0].time}", hint="rows are taken in order of time"
        )
    return rows


@dataclass(frozen=True)
class MultiJoin:
    """A join of as many streams as there are windows.

    ``pairs`` maps two streams, the lower number first, to a condition over their values; streams without one
    join freely. ``whole`` is a condition over the values of all streams. ``orders[s]`` names the other
    streams in the order in which rows of stream s probe them; ascending, if left out.

    >>> join = MultiJoin((10, 10, 5), {(0, 1): int.__lt__})
    >>> join.orders
    ((1, 2), (0, 2), (0, 1))
    >>> join.matcher((Row(0, 1, 0.0, 7),), stream=0)(3)
    True
    """

    windows: tuple[float, ...]
    pairs: Mapping[tuple[int, int], Test] = field(default_factory=dict)
    whole: Callable[[Sequence[Any]], bool] | None = None
    orders: tuple[tuple[int, ...], ...] = ()
    _tests: dict[tuple[int, int], Test] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        streams = range(len(self.windows))
        if len(streams) < 2 or not all(window > 0 for window in self.windows):
            raise QueryError(
                f"windows {self.windows} of a join", hint="give two streams or more, each with a window"
            )
        if not self.orders:
            ascending = tuple(tuple(other for other in streams if other != s) for s in streams)
            object.__setattr__(self, "orders", ascending)
        if [sorted((s, *order)) for s, order in enumerate(self.orders)] != [list(streams)] * len(streams):
            raise QueryError(
                f"join orders {self.orders}", hint="give one for each stream, of every other stream once"
            )
        tests = {}
        for (low, high), test in self.pairs.items():
            if not 0 <= low < high < len(streams):
                raise QueryError(
                    f"a condition over streams {low} and {high}", hint="name two streams, the lower first"
                )
            tests[low, high], tests[high, low] = test, _turned(test)
        object.__setattr__(self, "_tests", tests)

    def matcher(self, parts: tuple[Row, ...], stream: int) -> Callable[[Any], bool]:
        """Return a test whether a value of one more stream joins with joined rows, whatever their ages."""
        pairs = ((self._tests.get((part.stream, stream)), part.value) for part in parts)
        tests = [(test, value) for test, value in pairs if test is not None]
        whole = self.whole if len(parts) + 1 == len(self.windows) else None
        if whole is None and len(tests) == 1:
            ((test, other),) = tests
            return partial(test, other)
        values = {part.stream: part.value for part in parts}

        def matches(value: Any) -> bool:
            if not all(one(own_value, value) for one, own_value in tests):
                return False
            return whole is None or whole([{**values, stream: value}[s] for s in range(len(self.windows))])

        return matches

    def ordered(self, orders: Sequence[Sequence[int]]) -> MultiJoin:
        """The same join with other join orders."""
        return replace(self, orders=tuple(map(tuple, orders)))


def _turned(test: Test) -> Test:
    return lambda first, second: test(second, first)
