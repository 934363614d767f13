"""What a story's answers must be: every window of every query recomputed from its rows, by the oracle."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stories.story import TIME, Row, Step, Story
from support import oracle
from weft.expr.types import sql_type
from weft.model.expression import Column, Expr, with_columns
from weft.model.query import Lookup, Query
from weft.model.window import Window
from weft.testing.brute_force.expressions import evaluate_row, holds

NEVER = -math.inf


@dataclass
class Life:
    """A query from the step that took it to the one before which it left; exact ``since`` some time."""

    query: Query
    first: int
    since: float = NEVER
    end: int | None = None


@dataclass
class Clock:
    """How far a stream has come."""

    lateness: int
    watermark: float = NEVER
    latest: float = NEVER
    marks: list[tuple[float, float]] = field(default_factory=list)
    """The watermark before and after each step."""

    def step(self, step: Step, queries: Sequence[Query]) -> None:
        """Take a step in which these queries run."""
        before = self.watermark
        if step.flush:
            if self.latest != NEVER:
                self.watermark = max(before, self._closing(queries))
        else:
            times = [row[TIME] for row in step.rows if row[TIME] is not None]
            self.latest = max([self.latest, *times])
            if times:
                self.watermark = max(before, max(times) - self.lateness)
        self.marks.append((before, self.watermark))

    def _closing(self, queries: Sequence[Query]) -> float:
        """The end of the last window that can hold a row so far."""
        latest = int(self.latest)
        ends = [latest + any(q.window.rows for q in queries)]
        for query in queries:
            if not query.window.rows:
                ends += [s + query.window.range for s in oracle.starts(query.window, latest)]
        return max(ends)


def late_rows(step: Step, watermark: float, queries: Sequence[Query]) -> tuple[int, int]:
    """How many rows miss a window of some query, whatever its predicate, and how many have no time."""
    late = untimed = 0
    windows = {query.window for query in queries}
    for row in step.rows:
        if row[TIME] is None:
            untimed += 1
            continue
        late += any(_misses(window, row[TIME], watermark) for window in windows)
    return late, untimed


def _misses(window: Window, instant: int, watermark: float) -> bool:
    if window.rows:
        return instant < watermark
    return any(start + window.range <= watermark for start in oracle.starts(window, instant))


def latest_since(query: Query, clock: Clock) -> float:
    """The start of the first window that must be exact for a query that joins a stream now."""
    if clock.latest == NEVER or clock.watermark == NEVER:
        return NEVER
    seen, window = int(clock.latest), query.window
    if window.rows:
        return seen + 1
    later = seen + 1 + (window.offset - seen - 1) % window.slide
    opening = int(clock.watermark) - window.range + 1
    return max(later, opening + (window.offset - opening) % window.slide)


class Answers:
    """The answers of one life, step by step."""

    def __init__(self, story: Story, life: Life, marks: Sequence[tuple[float, float]]) -> None:
        self.life, self.marks = life, marks
        self.query, self._names = _plain(life.query)
        self._context = oracle.RowContext(TIME, {})
        self.rows = list(self._kept(story, life.query))
        """Number of the step, time, and row, of all rows that the predicate keeps."""
        in_rows = life.query.window.rows
        self._by_step = self._in_rows() if in_rows else self._in_time()

    def of(self, number: int) -> list[Row]:
        """What is answered in a step."""
        return self._by_step.get(number, [])

    def _in_time(self) -> dict[int, list[Row]]:
        window, windows = self.query.window, dict[int, list[Row]]()
        for number, instant, row in self.rows:
            for start in oracle.starts(window, instant):
                # A row misses exactly those of its windows that were answered before its batch came.
                if start >= self.life.since and start + window.range > self.marks[number][0]:
                    windows.setdefault(start, []).append(row)
        found: dict[int, list[Row]] = {}
        for start, rows in sorted(windows.items()):
            end = start + window.range
            step = self._due(lambda after, end=end: end <= after)
            if step is not None:
                found.setdefault(step, []).extend(self._answer((start, end), rows))
        return found

    def _in_rows(self) -> dict[int, list[Row]]:
        window, found = self.query.window, dict[int, list[Row]]()
        groups: dict[tuple[object, ...], list[tuple[int, Row]]] = {}
        passed = []
        for place, (number, instant, row) in enumerate(self.rows):
            if instant < self.marks[number][0] or instant < self.life.since:
                continue
            step = self._due(lambda after, instant=instant: instant < after)
            passed.append((math.inf if step is None else step, instant, place, row))
        for step, _, _, row in sorted(passed, key=lambda each: each[:3]):
            group = groups.setdefault(tuple(oracle.key(row[k]) for k in self.query.group_by), [])
            group.append((step, row))  # type: ignore[arg-type]
        for members in groups.values():
            for end in range(1, len(members) + 1):
                step = members[end - 1][0]
                if (end - window.offset - window.range) % window.slide == 0 and step != math.inf:
                    held = [row for _, row in members[max(0, end - window.range) : end]]
                    bounds = (held[0][TIME], held[-1][TIME])
                    found.setdefault(step, []).extend(self._answer(bounds, held))
        return found

    def _due(self, is_due: Callable[[float], bool]) -> int | None:
        """The first step whose watermark makes something due, if that is in the life."""
        end = len(self.marks) if self.life.end is None else self.life.end
        for number in range(end):
            if is_due(self.marks[number][1]):
                return number if number >= self.life.first else None
        return None

    def _answer(self, bounds: tuple[int, int], rows: list[Row]) -> Iterator[Row]:
        return oracle.answer_window(self.query, bounds, rows, self._context)

    def _kept(self, story: Story, asked: Query) -> Iterator[tuple[int, int, Row]]:
        """The rows, with what they met in the tables of their step, and each argument computed once."""
        types = {n: sql_type(t) for n, t in story.types.items()}
        types |= {
            f"{j.alias}.{n}": sql_type(t)
            for j in asked.lookups
            for n, t in story.tables[j.table].types.items()
        }
        tables = {name: _indexed(table.rows, table.keys) for name, table in story.tables.items()}
        end = len(self.marks) if self.life.end is None else self.life.end
        for number, step in enumerate(story.steps[:end]):
            tables |= {name: _indexed(rows, story.tables[name].keys) for name, rows in step.tables.items()}
            for plain in step.rows:
                row = None if plain[TIME] is None else _met(plain, asked.lookups, tables, story)
                if row is None or not holds(asked.predicate, row, types):
                    continue
                made = {TIME: row[TIME]}
                made |= {k: row[name] for k, name in zip(asked.result_keys, asked.group_by)}
                for expr, name in self._names.items():
                    made[name] = evaluate_row(expr, row, types)
                yield number, row[TIME], made


def _plain(query: Query) -> tuple[Query, dict[Expr, str]]:
    """The query over rows that have all that it needs computed, and the names of what has to be."""
    names: dict[Expr, str] = {}
    for aggregate in query.aggregates:
        for arg in aggregate.args:
            names.setdefault(arg, f"arg {len(names)}")
    aggregates = tuple(replace(a, args=tuple(Column(names[arg]) for arg in a.args)) for a in query.aggregates)
    # Results are grouped, and filtered, by columns as they are called there.
    renamed = dict(zip(query.group_by, query.result_keys))
    having = None if query.having is None else with_columns(query.having, renamed)
    plain = replace(query, aggregates=aggregates, group_by=query.result_keys, having=having)
    return replace(plain, predicate=None, lookups=(), group_names=()), names


Index = Mapping[tuple[object, ...], Row]


def _indexed(rows: Sequence[Row], keys: Sequence[str]) -> Index:
    found = {}
    for row in rows:
        key = tuple(oracle.key(row[name]) for name in keys)
        if None not in key:
            found[key] = row
    return found


def _met(row: Row, joins: Sequence[Lookup], tables: Mapping[str, Index], story: Story) -> Row | None:
    """The row with the columns of the tables' rows that it meets; None where an inner join finds none."""
    row = dict(row)
    for join in joins:
        static = story.tables[join.table]
        by_column = {column: row[str(expr)] for expr, column in join.keys}
        key = tuple(oracle.key(by_column[name]) for name in static.keys)
        other = None if None in key else tables[join.table].get(key)
        if other is None and join.how == "inner":
            return None
        for name in static.types:
            row[f"{join.alias}.{name}"] = None if other is None else other[name]
    return row
