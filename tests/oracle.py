"""The yardstick: every window of every query recomputed from its rows, in exact arithmetic.

The dumbest correct implementation, kept dumb on purpose: no slices, no sharing, no NumPy. It reads the
query model and nothing else of weft, so that a mistake of the engine cannot hide in it.
"""

from __future__ import annotations

import datetime
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import aggregate_oracle
import expr_oracle
import pyarrow as pa

from weft.errors import AnswerOverflow
from weft.query import Aggregate, Query, Window
from weft.results import Results

Row: TypeAlias = dict[str, Any]
Answers: TypeAlias = dict[str, list[Row]]

EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)


class Overflow(Exception):
    """Integer answers that do not fit 64 bits, as pairs of query and alias; and what the others answer."""

    def __init__(self, cases: set[tuple[str, str]], answers: Answers) -> None:
        self.cases = cases
        self.guilty = {query for query, _ in cases}
        self.answers = {query: rows for query, rows in answers.items() if query not in self.guilty}
        super().__init__(f"overflow in {sorted(cases)}")


@dataclass
class Streamed:
    """What a stream gave: all answers, those after each batch (the last: at the end), and the counts.

    ``late`` are rows that missed a window of a query that wanted them, ``missing`` those that missed a
    window of any query, whatever its predicate.
    """

    answers: Answers
    rounds: list[Answers] = field(default_factory=list)
    late: int = 0
    missing: int = 0
    untimed: int = 0


def answer(
    queries: Iterable[Query],
    rows: list[Row],
    time: str,
    types: Mapping[str, str] | None = None,
    zone: str | None = None,
) -> Answers:
    """The result rows of each query over all the rows, none of them late; windows in microseconds.

    ``types`` are the columns' SQL types; left out, they are read off the values, which is enough unless
    a column holds nothing but nulls. ``zone`` is that of local times, where columns have a zone.

    >>> counted = Aggregate("count_star", (), "n")
    >>> answer([Query("q", "s", Window(10, 5), (counted,))], [{"ts": 7}], "ts")["q"]
    [{'window_start': 0, 'window_end': 10, 'n': 1}, {'window_start': 5, 'window_end': 15, 'n': 1}]
    """
    with expr_oracle.in_zone(zone):
        return answer_stream(queries, [rows], time, 0, types).answers


def answer_stream(
    queries: Iterable[Query],
    batches: list[list[Row]],
    time: str,
    lateness: int,
    types: Mapping[str, str] | None = None,
) -> Streamed:
    """The result rows of each query over a stream of batches, with the watermark moving between batches.

    A row misses exactly those of its windows that were answered before its batch came. Windows counted in
    rows miss every row that came after the watermark had passed its time.
    """
    queries = list(queries)
    types = types or types_of(row for batch in batches for row in batch)
    streamed = Streamed({query.name: [] for query in queries})
    open_windows: dict[str, dict[int, list[Row]]] = {query.name: {} for query in queries}
    in_order: dict[str, list[Row]] = {query.name: [] for query in queries}
    overflows: set[tuple[str, str]] = set()
    watermark: float = -math.inf

    def close(upto: float) -> None:
        found = {}
        for query in queries:
            if query.window.rows:
                passed = [row for row in in_order[query.name] if micros(row[time]) < upto]
                every = _of_rows(
                    query, sorted(passed, key=lambda row: micros(row[time])), time, types, overflows
                )
                # A group's numbers do not change once given, but other groups' windows come between.
                found[query.name] = _without(every, streamed.answers[query.name])
                streamed.answers[query.name] += found[query.name]
                continue
            windows = open_windows[query.name]
            due = sorted(start for start in windows if start + query.window.range <= upto)
            found[query.name] = [
                r
                for s in due
                for r in _of_window(
                    query, (s, s + query.window.range), windows.pop(s), time, types, overflows
                )
            ]
            streamed.answers[query.name] += found[query.name]
        streamed.rounds.append(found)

    for batch in batches:
        highest = watermark
        for row in batch:
            instant = micros(row[time])
            if instant is None:
                streamed.untimed += 1
                continue
            highest = max(highest, instant - lateness)
            missed = []
            for query in queries:
                if query.window.rows:
                    late = instant < watermark
                    (missed if late else in_order[query.name]).append(query if late else row)
                    continue
                for start in starts(query.window, instant):
                    if start + query.window.range <= watermark:
                        missed.append(query)
                    else:
                        open_windows[query.name].setdefault(start, []).append(row)
            streamed.missing += bool(missed)
            streamed.late += any(expr_oracle.holds(query.predicate, row, types) for query in missed)
        watermark = highest
        close(watermark)
    close(math.inf)
    if overflows:
        raise Overflow(overflows, streamed.answers)
    return streamed


def types_of(rows: Iterable[Row]) -> dict[str, str]:
    """The SQL type of each column, by its first value that is not null."""
    types: dict[str, str] = {}
    for row in rows:
        for name, value in row.items():
            if types.get(name, "null") == "null":
                types[name] = expr_oracle.type_of_value(value)
    return types


def micros(value: Any) -> int | None:
    """An event time as microseconds since the epoch; integers are that already."""
    if value is None or isinstance(value, int):
        return value
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return (value - EPOCH) // MICROSECOND


def starts(window: Window, instant: int) -> Iterator[int]:
    """The starts of the windows that contain an instant.

    >>> list(starts(Window(range=12, slide=5), 11))
    [0, 5, 10]
    """
    latest = window.offset + (instant - window.offset) // window.slide * window.slide
    count = max(0, -(-(latest + window.range - instant) // window.slide))
    for k in reversed(range(count)):
        yield latest - k * window.slide


def _of_rows(
    query: Query, rows: list[Row], time: str, types: Mapping[str, str], overflows: set[tuple[str, str]]
) -> list[Row]:
    """The result rows of all windows counted in rows, over rows in order of time."""
    window, results = query.window, []
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if expr_oracle.holds(query.predicate, row, types):
            groups.setdefault(tuple(key(row[name]) for name in query.group_by), []).append(row)
    for members in groups.values():
        for end in range(1, len(members) + 1):
            if (end - window.offset - window.range) % window.slide == 0:
                held = members[max(0, end - window.range) : end]
                bounds = (micros(held[0][time]), micros(held[-1][time]))
                results += _of_window(query, bounds, held, time, types, overflows)
    return results


def _without(rows: list[Row], known: list[Row]) -> list[Row]:
    """The rows without those that were known, each as often as it was."""
    left = Counter(map(repr, known))
    fresh = []
    for row in rows:
        if left[repr(row)]:
            left[repr(row)] -= 1
        else:
            fresh.append(row)
    return fresh


def _of_window(
    query: Query,
    bounds: tuple[int, int],
    rows: list[Row],
    time: str,
    types: Mapping[str, str],
    overflows: set[tuple[str, str]],
) -> Iterator[Row]:
    """The result rows of one window: one per group that has a row left after the predicate."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if expr_oracle.holds(query.predicate, row, types):
            groups.setdefault(tuple(key(row[name]) for name in query.group_by), []).append(row)
    for group, members in groups.items():
        values: Row = dict(zip(query.group_by, (math.nan if k == NAN else k for k in group)))
        for aggregate in query.aggregates:
            values[aggregate.alias] = _aggregate(aggregate, members, time, types)
            if isinstance(values[aggregate.alias], int) and not aggregate_oracle.fits(
                values[aggregate.alias]
            ):
                overflows.add((query.name, aggregate.alias))
                values[aggregate.alias] = None
        if not expr_oracle.holds(query.having, values):
            continue
        result = {name: values[name] for name in query.group_by}
        result |= {"window_start": bounds[0], "window_end": bounds[1]}
        if query.outputs:
            result |= {o.alias: expr_oracle.evaluate_row(o.expr, values) for o in query.outputs}
        else:
            result |= {a.alias: values[a.alias] for a in query.aggregates}
        yield result


def _aggregate(aggregate: Aggregate, rows: list[Row], time: str, types: Mapping[str, str]) -> Any:
    cells = []
    for row in rows:
        instant = micros(row[time])
        assert instant is not None
        cells.append((instant, tuple(expr_oracle.evaluate_row(arg, row, types) for arg in aggregate.args)))
    return aggregate_oracle.AGGREGATES[aggregate.function](cells)


NAN = "the NaN key"


def key(value: Any) -> Any:
    """A group key that equals itself: NaN is one key, and so are 0.0 and -0.0."""
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    return value


def assert_fail_alone(queries: Sequence[Query], got: Callable[[], Results], overflow: Overflow) -> None:
    """Those fail whose answers do not fit; the others are answered, or all have failed."""
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
    found = list(differences(query, rows_of(result), expected, tolerance))
    if result is not None and result.column_names != list(query.result_columns):
        found.insert(0, f"columns {result.column_names}, expected {list(query.result_columns)}")
    if found:
        shown = "\n  ".join(found[:10])
        more = f"\n  ... and {len(found) - 10} more" if len(found) > 10 else ""
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
    """What is missing, too much or wrong, window by window and group by group."""
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
    """Rows by window and group; windows counted in rows can have equal times, and are told by their order."""
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
    """Whether two values are one answer: equal and of one type, or floats within the tolerance.

    >>> same(1.0 + 1e-12, 1.0, 1e-9), same(1, 1.0, 1e-9), same(float("nan"), float("nan"), 0)
    (True, False, True)
    """
    if type(got) is not type(expected):
        return False
    if isinstance(expected, float):
        if math.isnan(expected) or math.isnan(got):
            return math.isnan(expected) and math.isnan(got)
        return math.isclose(got, expected, rel_tol=tolerance, abs_tol=SMALLEST)
    return bool(got == expected)


SMALLEST = 1e-300
"""Below this the doubles thin out, and no relative tolerance can hold."""
