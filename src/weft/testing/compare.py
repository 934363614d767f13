"""Answers compared with those that a test expects, in any order, and the differences in words."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterator, Sequence
from typing import Any

from weft.testing.brute_force.windows import key
from weft.testing.literals import WINDOW_BOUNDS, Row, show

MAX_RELATIVE_ERROR = 1e-9
"""How much a float may differ, relative to the larger."""

MIN_DIFFERENCE = 1e-300
"""Floats nearer than this are equal: below it doubles thin out, and no relative tolerance can hold."""


def differences(
    answers: Sequence[Row],
    expected: Sequence[Row],
    keys: Sequence[str],
    tolerance: float = MAX_RELATIVE_ERROR,
) -> Iterator[str]:
    """Yield a line for each row that is missing, unexpected or different.

    ``keys`` are the columns that say which answer a row is: its group, and its window.

    >>> list(differences([{"k": 1, "n": 2}], [{"k": 1, "n": 3}, {"k": 2, "n": 1}], ["k"]))
    ['different:  k=1: n is 2, expected 3', 'missing:    k=2, n=1']
    """
    places: dict[tuple[Any, ...], tuple[list[Row], list[Row]]] = {}
    for side, rows in ((1, expected), (0, answers)):
        for row in rows:
            places.setdefault(_place(row, keys), ([], []))[side].append(row)
    for left_answers, left_expected in places.values():
        for row in list(left_expected):
            match = next((other for other in left_answers if _same_row(other, row, tolerance)), None)
            if match is not None:
                left_answers.remove(match)
                left_expected.remove(row)
        if keys and len(left_answers) == len(left_expected) == 1:
            yield f"different:  {_different(left_answers[0], left_expected[0], keys, tolerance)}"
            continue
        yield from (f"missing:    {_show_row(row, list(row))}" for row in left_expected)
        yield from (f"unexpected: {_show_row(row, list(row))}" for row in left_answers)


def same(answer: Any, expected: Any, tolerance: float = MAX_RELATIVE_ERROR) -> bool:
    """Return whether two values are one answer: equal, or floats within the tolerance.

    Numbers are compared as numbers, whatever their types; times with a zone as instants, those without as
    times of UTC.

    >>> same(1.0 + 1e-12, 1), same(float("nan"), float("nan")), same(True, 1), same(None, 0)
    (True, True, False, False)
    """
    if isinstance(answer, bool) or isinstance(expected, bool) or answer is None or expected is None:
        return answer is expected
    if isinstance(answer, datetime.datetime) and isinstance(expected, datetime.datetime):
        return _utc(answer) == _utc(expected)
    numbers = (int, float, decimal.Decimal)
    if isinstance(answer, numbers) and isinstance(expected, numbers):
        if not isinstance(answer, float) and not isinstance(expected, float):
            return answer == expected
        left, right = float(answer), float(expected)
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return math.isclose(left, right, rel_tol=tolerance, abs_tol=MIN_DIFFERENCE)
    return type(answer) is type(expected) and bool(answer == expected)


def _utc(time: datetime.datetime) -> datetime.datetime:
    return time if time.tzinfo is None else time.astimezone(datetime.UTC).replace(tzinfo=None)


def _place(row: Row, keys: Sequence[str]) -> tuple[Any, ...]:
    return tuple(_utc(v) if isinstance(v, datetime.datetime) else key(v) for v in map(row.get, keys))


def _same_row(answer: Row, expected: Row, tolerance: float) -> bool:
    return all(same(answer.get(name), value, tolerance) for name, value in expected.items())


def _different(answer: Row, expected: Row, keys: Sequence[str], tolerance: float) -> str:
    values = [
        f"{name} is {show(answer.get(name))}, expected {show(value)}"
        for name, value in expected.items()
        if not same(answer.get(name), value, tolerance)
    ]
    return f"{_show_row(answer, keys)}: {', '.join(values)}"


def _show_row(row: Row, names: Sequence[str]) -> str:
    """Return columns of a row as text, the window as an interval."""
    if not set(WINDOW_BOUNDS) <= set(names):
        return ", ".join(f"{name}={show(row[name])}" for name in names)
    bounds = ", ".join(show(row[name]) for name in WINDOW_BOUNDS)
    columns = [f"{name}={show(row[name])}" for name in names if name not in WINDOW_BOUNDS]
    return ", ".join([f"window [{bounds})", *columns])
