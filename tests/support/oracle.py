"""The yardstick of all tests, ``weft.testing.brute_force``, and the assertions that compare with it."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from weft.errors import AnswerOverflow
from weft.local.results import Results
from weft.model.query import Query
from weft.testing.brute_force.windows import (
    EPOCH,
    MICROSECOND,
    Answers,
    Overflow,
    Row,
    RowContext,
    Streamed,
    answer,
    answer_stream,
    answer_window,
    key,
    micros,
    starts,
    types_of,
)

__all__ = [
    "Answers",
    "Overflow",
    "Row",
    "RowContext",
    "Streamed",
    "answer",
    "answer_stream",
    "answer_window",
    "assert_fail_alone",
    "assert_same",
    "differences",
    "key",
    "micros",
    "rows_of",
    "same",
    "starts",
    "types_of",
]


def assert_fail_alone(queries: Sequence[Query], got: Callable[[], Results], overflow: Overflow) -> None:
    """Assert that only queries fail whose answers do not fit, or that all have failed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            results = got()
    except AnswerOverflow as error:
        failed = dict.fromkeys((q.name for q in queries), error)
    else:
        failed = results.failed
        for query in queries:
            if query.name not in failed:
                assert_same(query, results[query.name], overflow.answers[query.name])
    assert set(failed) == overflow.guilty
    for error in failed.values():
        assert any(f"query '{query}', {alias}: " in str(error) for query, alias in overflow.cases)


def assert_same(query: Query, result: pa.Table | None, expected: list[Row], tolerance: float = 1e-9) -> None:
    """Fail with a readable difference unless the result has exactly the expected rows, in any order.

    Floats may differ by ``tolerance``, relative; everything else is equal and of the same type.
    """
    texts = list(differences(query, rows_of(result), expected, tolerance))
    if result is not None and result.column_names != list(query.result_columns):
        texts.insert(0, f"columns {result.column_names}, expected {list(query.result_columns)}")
    if texts:
        shown = "\n  ".join(texts[:10])
        more = f"\n  ... and {len(texts) - 10} more" if len(texts) > 10 else ""
        raise AssertionError(f"query '{query.name}' {query}:\n  {shown}{more}")


def rows_of(table: pa.Table | None) -> list[Row]:
    """A result as rows, its windows in microseconds; no table is no row."""
    if table is None:
        return []
    for name in ("window_start", "window_end"):
        column = table[name]
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        table = table.set_column(table.column_names.index(name), name, column)
    return table.to_pylist()


def differences(
    query: Query, got_rows: list[Row], expected_rows: list[Row], tolerance: float
) -> Iterator[str]:
    """Yield what is missing, too much or wrong, window by window and group by group."""
    got, expected = (_by_place(query, rows) for rows in (got_rows, expected_rows))
    for rows, indexed in ((got_rows, got), (expected_rows, expected)):
        if len(rows) != len(indexed):
            yield f"{len(rows)} rows for {len(indexed)} windows and groups: some are answered twice"
    for place in sorted(expected.keys() | got.keys(), key=repr):
        where = _describe(query, place)
        if place not in got:
            yield f"{where}: missing; expected {expected[place]}"
        elif place not in expected:
            yield f"{where}: not expected; got {got[place]}"
        else:
            for name, value in expected[place].items():
                if name not in got[place] or not same(got[place][name], value, tolerance):
                    yield f"{where}: {name} is {got[place].get(name, 'absent')!r}, expected {value!r}"


def _by_place(query: Query, rows: list[Row]) -> dict[tuple[Any, ...], Row]:
    """Return rows by window, group and order: windows counted in rows can have equal times."""
    names = ("window_start", "window_end", *query.group_by)
    seen: Counter[tuple[Any, ...]] = Counter()
    placed = {}
    for row in rows:
        place = tuple(key(row[name]) for name in names)
        seen[place] += query.window.rows
        placed[(*place, seen[place])] = row
    return placed


def _describe(query: Query, place: tuple[Any, ...]) -> str:
    start, end, *group, _ = place
    groups = ", ".join(f"{name}={value!r}" for name, value in zip(query.group_by, group))
    instants = ", ".join(_instant(t) for t in (start, end))
    return f"window [{instants})" + (f", group {groups}" if groups else "")


def _instant(instant: int) -> str:
    try:
        return str(EPOCH + instant * MICROSECOND)
    except OverflowError:
        return f"{instant} µs"


def same(got: Any, expected: Any, tolerance: float) -> bool:
    """Return whether two values are one answer: equal and of one type, or floats within the tolerance.

    >>> same(1.0 + 1e-12, 1.0, 1e-9), same(1, 1.0, 1e-9), same(float("nan"), float("nan"), 0)
    (True, False, True)
    """
    if type(got) is not type(expected):
        return False
    if isinstance(expected, float):
        if math.isnan(expected) or math.isnan(got):
            return math.isnan(expected) and math.isnan(got)
        return math.isclose(got, expected, rel_tol=tolerance, abs_tol=ABSOLUTE_TOLERANCE)
    return bool(got == expected)


ABSOLUTE_TOLERANCE = 1e-300
"""Below this the doubles thin out, and no relative tolerance can hold."""
