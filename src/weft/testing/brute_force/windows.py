"""Window queries by brute force: over all rows, or over batches with a watermark that moves between them."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from weft.model.query import Aggregate, Query
from weft.model.window import Window
from weft.testing.brute_force.aggregates import AGGREGATES, OfCells, fits
from weft.testing.brute_force.casts import in_zone, type_of_value
from weft.testing.brute_force.expressions import evaluate_row, holds

Row: TypeAlias = dict[str, Any]
Answers: TypeAlias = dict[str, list[Row]]
"""The result rows of each query, by its name."""

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
    """The outcome of a stream: all answers, those after each batch (the last: at the end), and the counts.

    ``late`` are rows that missed a window of a query that wanted them, ``missing`` those that missed a
    window of any query, whatever its predicate.
    """

    answers: Answers
    rounds: list[Answers] = field(default_factory=list)
    late: int = 0
    missing: int = 0
    untimed: int = 0


@dataclass
class RowContext:
    """The rows' time column and SQL types, the aggregates by name, and the answers that did not fit.

    ``overflows`` has pairs of query and alias, added as windows are answered.
    """

    time: str
    types: Mapping[str, str]
    aggregates: Mapping[str, OfCells] = field(default_factory=lambda: AGGREGATES)
    overflows: set[tuple[str, str]] = field(default_factory=set)


def answer(
    queries: Iterable[Query],
    rows: list[Row],
    time: str,
    types: Mapping[str, str] | None = None,
    zone: str | None = None,
    aggregates: Mapping[str, OfCells] | None = None,
) -> Answers:
    """Return the result rows of each query over all the rows, none of them late; windows in microseconds.

    ``types`` are the columns' SQL types; left out, they are read off the values, which is enough unless
    a column holds nothing but nulls. ``zone`` is that of local times, where columns have a zone.
    ``aggregates`` are others than SQL's own.

    >>> counted = Aggregate("count_star", (), "n")
    >>> answer([Query("q", "s", Window(10, 5), (counted,))], [{"ts": 7}], "ts")["q"]
    [{'window_start': 0, 'window_end': 10, 'n': 1}, {'window_start': 5, 'window_end': 15, 'n': 1}]
    """
    with in_zone(zone):
        return answer_stream(queries, [rows], time, 0, types, aggregates).answers


def answer_stream(
    queries: Iterable[Query],
    batches: list[list[Row]],
    time: str,
    lateness: int,
    types: Mapping[str, str] | None = None,
    aggregates: Mapping[str, OfCells] | None = None,
) -> Streamed:
    """Return the result rows of each query over a stream, with the watermark moving between batches.

    A row misses exactly those of its windows that were answered before its batch came. Windows counted in
    rows miss every row that came after the watermark had passed its time.
    """
    queries = list(queries)
    types = types or types_of(row for batch in batches for row in batch)
    context = RowContext(time, types, {**AGGREGATES, **(aggregates or {})})
    streamed = Streamed({query.name: [] for query in queries})
    open_windows: dict[str, dict[int, list[Row]]] = {query.name: {} for query in queries}
    in_order: dict[str, list[tuple[int, Row]]] = {query.name: [] for query in queries}
    watermark: float = -math.inf

    def close(upto: float) -> None:
        answers = {}
        for query in queries:
            if query.window.rows:
                passed = [(instant, row) for instant, row in in_order[query.name] if instant < upto]
                rows = [row for _, row in sorted(passed, key=lambda pair: pair[0])]
                # A group's numbers do not change once given, but other groups' windows come between.
                answers[query.name] = _without(
                    _counted_windows(query, rows, context), streamed.answers[query.name]
                )
            else:
                windows = open_windows[query.name]
                due = sorted(start for start in windows if start + query.window.range <= upto)
                answers[query.name] = [
                    result
                    for start in due
                    for result in answer_window(
                        query, (start, start + query.window.range), windows.pop(start), context
                    )
                ]
            streamed.answers[query.name] += answers[query.name]
        streamed.rounds.append(answers)

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
                    if instant < watermark:
                        missed.append(query)
                    else:
                        in_order[query.name].append((instant, row))
                    continue
                for start in starts(query.window, instant):
                    if start + query.window.range <= watermark:
                        missed.append(query)
                    else:
                        open_windows[query.name].setdefault(start, []).append(row)
            streamed.missing += bool(missed)
            streamed.late += any(holds(query.predicate, row, types) for query in missed)
        watermark = highest
        close(watermark)
    close(math.inf)
    if context.overflows:
        raise Overflow(context.overflows, streamed.answers)
    return streamed


def answer_window(
    query: Query, bounds: tuple[int, int], rows: list[Row], context: RowContext
) -> Iterator[Row]:
    """Yield the result rows of one window: one per group that has a row left after the predicate."""
    for group, members in _groups(query, rows, context).items():
        keys = [math.nan if value == NAN else value for value in group]
        values: Row = {**dict(zip(query.group_by, keys)), **dict(zip(query.result_keys, keys))}
        for aggregate in query.aggregates:
            value = _aggregate(aggregate, members, context)
            if isinstance(value, int) and not fits(value):
                context.overflows.add((query.name, aggregate.alias))
                value = None
            values[aggregate.alias] = value
        if not holds(query.having, values):
            continue
        result = {name: values[name] for name in query.result_keys}
        result |= {"window_start": bounds[0], "window_end": bounds[1]}
        if query.outputs:
            result |= {output.alias: evaluate_row(output.expr, values) for output in query.outputs}
        else:
            result |= {aggregate.alias: values[aggregate.alias] for aggregate in query.aggregates}
        yield result


def types_of(rows: Iterable[Row]) -> dict[str, str]:
    """Return the SQL type of each column, by its first value that is not null."""
    types: dict[str, str] = {}
    for row in rows:
        for name, value in row.items():
            if types.get(name, "null") == "null":
                types[name] = type_of_value(value)
    return types


def micros(value: Any) -> int | None:
    """Return an event time as microseconds since the epoch; integers are that already."""
    if value is None or isinstance(value, int):
        return value
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return int((value - EPOCH) // MICROSECOND)


def starts(window: Window, instant: int) -> Iterator[int]:
    """Yield the starts of the windows that contain an instant.

    >>> list(starts(Window(range=12, slide=5), 11))
    [0, 5, 10]
    """
    latest = window.offset + (instant - window.offset) // window.slide * window.slide
    count = max(0, -(-(latest + window.range - instant) // window.slide))
    for k in reversed(range(count)):
        yield latest - k * window.slide


def _counted_windows(query: Query, rows: list[Row], context: RowContext) -> list[Row]:
    """Return the result rows of all windows counted in rows, over rows in order of time."""
    window = query.window
    results: list[Row] = []
    for members in _groups(query, rows, context).values():
        for end in range(1, len(members) + 1):
            if (end - window.offset - window.range) % window.slide == 0:
                inside = members[max(0, end - window.range) : end]
                bounds = [micros(row[context.time]) or 0 for row in (inside[0], inside[-1])]
                results += answer_window(query, (bounds[0], bounds[1]), inside, context)
    return results


def _without(rows: list[Row], given: list[Row]) -> list[Row]:
    """Return the rows without those that were given before, each as often as it was."""
    left = Counter(map(repr, given))
    fresh = []
    for row in rows:
        if left[repr(row)]:
            left[repr(row)] -= 1
        else:
            fresh.append(row)
    return fresh


def _groups(query: Query, rows: list[Row], context: RowContext) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows that the predicate keeps, by their group keys."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if holds(query.predicate, row, context.types):
            groups.setdefault(tuple(key(row[name]) for name in query.group_by), []).append(row)
    return groups


def _aggregate(aggregate: Aggregate, rows: list[Row], context: RowContext) -> Any:
    cells = []
    for row in rows:
        instant = micros(row[context.time])
        assert instant is not None
        cells.append((instant, tuple(evaluate_row(arg, row, context.types) for arg in aggregate.args)))
    return context.aggregates[aggregate.function](cells)


NAN = "the NaN key"


def key(value: Any) -> Any:
    """Return a group key that equals itself: NaN is one key, and so are 0.0 and -0.0."""
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    return value
