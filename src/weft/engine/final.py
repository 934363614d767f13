"""``final``: merge partials into the state and answer, once each, the windows the watermark has passed.

For every tree that has a window due, the cells of each predicate concerned are brought to the tree's
slices: a view. A window of a group is then a run of neighbouring cells, found for all groups at once, and
the tree's technique combines, part by part, the runs of all queries that need the part.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numba import njit

from weft.aggregates import Monoid, States
from weft.aggregates.monoid import merge
from weft.engine.counting import count_rows
from weft.engine.due import NEVER, is_due, last_ends
from weft.engine.program import Entry, Program
from weft.engine.shards import MOST_PAIRS, bounded
from weft.engine.spread import Spread, spread
from weft.engine.state import Counted, GroupingState, Piece, State
from weft.errors import AggregateError, AnswerOverflow
from weft.expr import Evaluator
from weft.final import technique
from weft.plan import Tree
from weft.query import Column, Expr
from weft.slicing import align

END = np.iinfo(np.int64).max
"""The watermark that closes every window."""


def final(
    state: State,
    pieces: Iterable[Piece],
    watermark: int | None,
    program: Program,
    spent: Counter[int] | None = None,
) -> tuple[State, dict[str, pa.Table]]:
    """Merge partials into the state, answer what is due, forget what no open window needs.

    The state given is changed and returned; results hold only the queries that have any. To ``spent``, where
    given, the nanoseconds that each tree's answers took are added.
    """
    for piece in pieces:
        state.absorb(piece)
    results: dict[str, pa.Table] = {}
    if watermark is None:
        return state, results
    counted = count_rows(state, watermark, program)
    asked: dict[tuple[int, int, int | None], list[tuple[Entry, Due]]] = {}
    for entry in program.entries:
        if entry.bucket not in (None, state.bucket):
            continue
        held = state.groupings[entry.grouping]
        due: Due | None = None
        if isinstance(held, Counted):
            due = counted.get(entry.grouping)
        elif held.rows and is_due(entry.query.window, state.answered, watermark):
            due = (_after(entry, state.answered), watermark)
        if due is not None:
            since = entry.origin.since if program.groupings[entry.grouping].ordered else None
            asked.setdefault((entry.tree, entry.grouping, since), []).append((entry, due))
    for (tree, grouping, since), asking in asked.items():
        began = time.perf_counter_ns()
        held = state.groupings[grouping]
        assert isinstance(held, GroupingState)
        predicates = sorted({entry.predicate for entry, _ in asking})
        for some in bounded(predicates, held.satisfying(), MOST_PAIRS):
            view = View(held, program.trees[tree], some, since)
            for entry, due in asking:
                if entry.predicate in some:
                    view.ask(entry, *due)
            results |= {e.query.name: t for e in view.runs if (t := _answer(program, view, e)).num_rows}
        if spent is not None:
            spent[tree] += time.perf_counter_ns() - began
    state.advance(watermark)
    return state, {q.name: results[q.name] for q in program.queries if q.name in results}


Due: TypeAlias = tuple[np.ndarray | int, np.ndarray | int]
"""After which instant windows are due, and until which, for all groups or for each."""


def _after(entry: Entry, answered: int | None) -> int:
    """The instant after which windows are to end: those not answered yet, and that the query is exact for."""
    after, since = NEVER if answered is None else answered, entry.origin.since
    return after if since == NEVER else max(after, since + entry.query.window.range - 1)


@dataclass(frozen=True, slots=True)
class Runs:
    """The due windows of one query that hold a row, by time: cell bounds, group, and window start."""

    low: np.ndarray
    high: np.ndarray
    group: np.ndarray
    start: np.ndarray


class View:
    """The cells that satisfy each of some predicates, in one tree's slices, ordered by predicate, group and
    time.

    Shards become what each query has per slice (Krishnamurthy, Wu, Franklin, SIGMOD 2006, section 5): of a
    cell, only the predicates that it satisfies hear. ``since``, where given, is from when on the queries are
    exact, and says that the order of states matters.
    """

    def __init__(
        self, grouping: GroupingState, tree: Tree, predicates: list[int], since: int | None = None
    ) -> None:
        self.grouping, self.tree = grouping, tree
        self.cells = grouping.settle()
        self.runs: dict[Entry, Runs] = {}
        self._answers: dict[tuple[int, Entry], np.ndarray] = {}
        starts = grouping.starts if since is None else grouping.apart(since)
        if tree.progressions != grouping.grouping.progressions:
            starts = align(tree.progressions, starts)
        self.predicates = predicates
        satisfied = grouping.bitmaps()[:, predicates]
        cell_starts = starts[self.cells.slice]
        # Cells can be taken as they are, by all, unless signatures or finer edges split the tree's slices.
        self._spread: Spread | None = None
        self.group, self.starts = self.cells.group, cell_starts
        if len(satisfied) > 1 or not satisfied.all() or starts is not grouping.starts:
            self._spread = spread(self.cells.signature, satisfied, self.cells.group, cell_starts)
            self.group, self.starts = self.group[self._spread.leader], cell_starts[self._spread.leader]

    def _region(self, predicate: int) -> tuple[int, int]:
        """Where a predicate's cells begin and end."""
        if self._spread is None:
            return 0, len(self.group)
        place = self.predicates.index(predicate)
        return int(self._spread.bounds[place]), int(self._spread.bounds[place + 1])

    @cached_property
    def _changes(self) -> np.ndarray:
        """Where a group's cells begin."""
        return np.flatnonzero(np.diff(self.group, prepend=-1))

    def _groups(self, predicate: int) -> np.ndarray:
        """Where each group's cells begin that satisfy the predicate, and the end."""
        first, last = self._region(predicate)
        inside = slice(*np.searchsorted(self._changes, (first + 1, last)))
        return np.concatenate([[first] if last > first else [], self._changes[inside], [last]]).astype(
            np.int64
        )

    def ask(self, entry: Entry, after: np.ndarray | int, until: np.ndarray | int) -> None:
        """Find the windows of a query that end after ``after`` and not after ``until``, which groups may have
        each their own."""
        window, bounds = entry.query.window, self._groups(entry.predicate)
        groups = self.group[bounds[:-1]]
        afters, untils = (np.broadcast_to(each, len(self.grouping.keys))[groups] for each in (after, until))
        shape = (window.range, window.slide, window.offset, afters, untils)
        nothing = np.zeros(0, dtype=np.int64)
        count = _runs(bounds, self.starts, *shape, nothing, nothing, nothing, nothing)
        low, high, group, start = (np.empty(count, dtype=np.int64) for _ in range(4))
        _runs(bounds, self.starts, *shape, low, high, group, start)
        order = np.argsort(start, kind="stable")
        self.runs[entry] = Runs(low[order], high[order], self.group[group[order]], start[order])

    def states(self, number: int, entry: Entry) -> States:
        """The states of one part over a query's runs, found for all queries of the view in one pass."""
        if (number, entry) not in self._answers:
            asking = [e for e in self.runs if any(number in a.parts for a in e.answers)]
            bounds = np.cumsum([0, *(len(self.runs[e].low) for e in asking)])
            words = technique(self.tree.technique).answer(
                *self.cell_states(number, {e.predicate for e in asking}),
                np.concatenate([self.runs[e].low for e in asking]),
                np.concatenate([self.runs[e].high for e in asking]),
            )
            for e, first, last in zip(asking, bounds[:-1], bounds[1:]):
                self._answers[number, e] = words[first:last]
        return States(self._answers[number, entry], self.cells.parts[number].dictionary)

    def times(self, entry: Entry) -> tuple[np.ndarray, np.ndarray]:
        """Where a query's runs begin and end in time: at their windows' bounds or, counted in rows, with the
        first and the last row."""
        runs = self.runs[entry]
        if not entry.query.window.rows:
            return runs.start, runs.start + entry.query.window.range
        _, oldest, newest = (states.words[:, 0] for states in self.cells.parts[:3])
        return oldest[runs.low], newest[runs.high - 1]

    def cell_states(self, number: int, predicates: Collection[int]) -> tuple[Monoid, np.ndarray]:
        """The monoid of one part, and its states in the tree's slices for these predicates."""
        part, states = self.grouping.grouping.parts[number], self.cells.parts[number].words
        if self._spread is not None:
            merged = part.monoid.identity(len(self.group))
            for each in self._spread.pairs([p in predicates for p in self.predicates]):
                merge(part.monoid, merged, *each, states)
            states = merged
        return part.ready(states)


@njit(cache=True, nogil=True)
def _first_from(starts, at, last, t):  # type: ignore[no-untyped-def]
    """The first cell from ``at`` on that starts at ``t`` or later; ``last`` where none does.

    Steps double, for a window may slide by one cell or by thousands.
    """
    step = 1
    while at < last and starts[at] < t:
        before = at
        at += step
        step *= 2
        if at >= last or starts[at] >= t:
            # It is after ``before``, and at most ``at``.
            low, high = before, min(at, last)
            while high - low > 1:
                middle = (low + high) >> 1
                if starts[middle] < t:
                    low = middle
                else:
                    high = middle
            return high
    return at


@njit(cache=True, nogil=True)
def _runs(bounds, starts, range_, slide, offset, afters, untils, low, high, group, start):  # type: ignore[no-untyped-def]
    """Count the runs, and write them where the outputs have room; windows without a cell are skipped."""
    count = 0
    for g in range(bounds.size - 1):
        first, last = bounds[g], bounds[g + 1]
        after, until = afters[g], untils[g]
        a = b = first
        # The first window that holds the group's first cell, or the first that is due.
        t = starts[first]
        w = t - range_ + 1 + (offset - (t - range_ + 1)) % slide
        if after > np.int64(-4611686018427387904) and w + range_ <= after:
            w = after - range_ + 1 + (offset - (after - range_ + 1)) % slide
        while w + range_ <= until:
            a = _first_from(starts, a, last, w)
            if a == last:
                break
            if starts[a] >= w + range_:
                # No cell in this window: go on to the first window that holds the next cell.
                t = starts[a]
                w = t - range_ + 1 + (offset - (t - range_ + 1)) % slide
                if w > t:
                    # Between two hopping windows: this cell is in none.
                    a += 1
                    if a < last:
                        t = starts[a]
                        w = t - range_ + 1 + (offset - (t - range_ + 1)) % slide
                        continue
                    break
                continue
            b = _first_from(starts, max(a, b), last, w + range_)
            if low.size:
                low[count], high[count], group[count], start[count] = a, b, first, w
            count += 1
            w += slide
    return count


def _answer(program: Program, view: View, entry: Entry) -> pa.Table:
    """One query's due windows as a table."""
    query, grouping, runs = entry.query, program.groupings[entry.grouping], view.runs[entry]
    columns = dict(zip(query.result_keys, view.grouping.keys.decode(runs.group)))
    for name, times in zip(("window_start", "window_end"), view.times(entry)):
        columns[name] = pa.array(times).cast(program.time_type)
    for answer in entry.answers:
        parts = [grouping.parts[n] for n in answer.parts]
        states = [view.states(n, entry) for n in answer.parts]
        try:
            columns[answer.alias] = _typed(answer.function.lower(parts, states), answer.type)
        except (AggregateError, AnswerOverflow) as error:
            raise type(error)(f"query '{query.name}', {answer.alias}: {error}") from None
    table = pa.table(columns)
    return _finish(program, entry, table) if query.outputs or query.having is not None else table


def _typed(array: pa.Array, type: pa.DataType) -> pa.Array:
    if array.type == type:
        return array
    if pa.types.is_null(type):
        return pa.nulls(len(array))
    if pa.types.is_date32(type):
        return array.cast(pa.int32()).cast(type)
    if pa.types.is_boolean(type) or pa.types.is_temporal(type):
        return array.cast(pa.int64()).cast(type)
    return array.cast(type, safe=False)


def _finish(program: Program, entry: Entry, table: pa.Table) -> pa.Table:
    """Result columns computed from aggregates, and HAVING."""
    query, schema = entry.query, program.result_schema(entry.query.name)
    if not table.num_rows:
        return schema.empty_table()
    table = _extended(table, {o.alias: o.expr for o in query.outputs})
    if query.having is not None:
        table = table.filter(pa.array(Evaluator(table).mask(query.having)))
    return table.select(schema.names).cast(schema)


def _extended(table: pa.Table, outputs: dict[str, Expr]) -> pa.Table:
    evaluator = Evaluator(table)
    for alias, expr in outputs.items():
        if expr != Column(alias):
            table = table.append_column(alias, evaluator.evaluate(expr))
    return table


def closing_time(program: Program, max_time: int) -> int:
    """The earliest watermark that closes every window that can hold a row up to ``max_time``."""
    until = max_time + 1 if program.counts_rows else max_time
    return max(until, int(last_ends(program.windows, np.array([max_time]))[0]))
