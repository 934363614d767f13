"""``final``: merge partials into the state and answer, once each, the windows the watermark has passed.

For every tree and predicate that has a window due, the cells of that predicate are brought to the tree's
slices: a view. A window of a group is then a run of neighbouring cells, found for all groups at once, and
the tree's technique combines, part by part, the runs of all queries that need the part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numba import njit

from weft.aggregates import Monoid, States
from weft.aggregates.monoid import merge
from weft.engine.cells import run_targets
from weft.engine.counting import count_rows
from weft.engine.due import NEVER, is_due, last_ends
from weft.engine.program import Entry, Program
from weft.engine.state import Counted, GroupingState, Piece, State
from weft.errors import AggregateError, AnswerOverflow
from weft.expr import Evaluator
from weft.final import technique
from weft.query import Column, Expr
from weft.slicing import align

END = np.iinfo(np.int64).max
"""The watermark that closes every window."""


def final(
    state: State, pieces: Iterable[Piece], watermark: int | None, program: Program
) -> tuple[State, dict[str, pa.Table]]:
    """Merge partials into the state, answer what is due, forget what no open window needs.

    The state given is changed and returned; results hold only the queries that have any.
    """
    for piece in pieces:
        state.absorb(piece)
    results: dict[str, pa.Table] = {}
    if watermark is None:
        return state, results
    counted = count_rows(state, watermark, program)
    views: dict[tuple[int, int, int], View] = {}
    for entry in program.entries:
        if entry.bucket not in (None, state.bucket):
            continue
        held = state.groupings[entry.grouping]
        assert isinstance(held, GroupingState)
        due: tuple[np.ndarray | int, np.ndarray | int] | None = None
        if isinstance(held, Counted):
            due = counted.get(entry.grouping)
        elif held.rows and is_due(entry.query.window, state.answered, watermark):
            due = (_after(entry, state.answered), watermark)
        if due is None:
            continue
        where = (entry.tree, entry.grouping, entry.predicate)
        if where not in views:
            views[where] = View(program, held, entry)
        views[where].ask(entry, *due)
    for view in views.values():
        for entry in view.runs:
            table = _answer(program, view, entry)
            if table.num_rows:
                results[entry.query.name] = table
    state.advance(watermark)
    return state, {q.name: results[q.name] for q in program.queries if q.name in results}


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
    """The cells that satisfy one predicate, in one tree's slices, ordered by group and time."""

    def __init__(self, program: Program, grouping: GroupingState, entry: Entry) -> None:
        self.grouping = grouping
        self.cells = grouping.settle()
        self.tree = program.trees[entry.tree]
        starts = grouping.starts
        if self.tree.progressions != grouping.grouping.progressions:
            starts = align(self.tree.progressions, starts)
        satisfied = grouping.bitmaps()[:, entry.predicate]
        # Cells can be taken as they are unless signatures or finer edges split the tree's slices.
        split = len(satisfied) > 1 or not satisfied.all() or starts is not grouping.starts
        self._order = np.flatnonzero(satisfied[self.cells.signature]) if split else None
        self.runs: dict[Entry, Runs] = {}
        self._answers: dict[tuple[int, Entry], np.ndarray] = {}
        if self._order is None:
            self.group = self.cells.group
            self.starts = starts[self.cells.slice]
            return
        cell_starts = starts[self.cells.slice]
        self._target = np.empty(len(self._order), dtype=np.int64)
        nothing = np.zeros(0, dtype=np.int64)
        run_targets(self._order, self.cells.group, cell_starts, nothing, self._target)
        leader = self._order[np.flatnonzero(np.diff(self._target, prepend=-1))]
        self.group, self.starts = self.cells.group[leader], cell_starts[leader]

    @cached_property
    def bounds(self) -> np.ndarray:
        """Where each group's cells begin, and the end."""
        new = np.flatnonzero(np.diff(self.group, prepend=-1))
        return np.append(new, len(self.group))

    def ask(self, entry: Entry, after: np.ndarray | int, until: np.ndarray | int) -> None:
        """Find the windows of a query that end after ``after`` and not after ``until``, which groups may have
        each their own."""
        window, groups = entry.query.window, self.group[self.bounds[:-1]]
        afters, untils = (np.broadcast_to(each, len(self.grouping.keys))[groups] for each in (after, until))
        shape = (window.range, window.slide, window.offset, afters, untils)
        nothing = np.zeros(0, dtype=np.int64)
        count = _runs(self.bounds, self.starts, *shape, nothing, nothing, nothing, nothing)
        low, high, group, start = (np.empty(count, dtype=np.int64) for _ in range(4))
        _runs(self.bounds, self.starts, *shape, low, high, group, start)
        order = np.argsort(start, kind="stable")
        self.runs[entry] = Runs(low[order], high[order], self.group[group[order]], start[order])

    def states(self, number: int, entry: Entry) -> States:
        """The states of one part over a query's runs, found for all queries of the view in one pass."""
        if (number, entry) not in self._answers:
            asking = [e for e in self.runs if any(number in a.parts for a in e.answers)]
            bounds = np.cumsum([0, *(len(self.runs[e].low) for e in asking)])
            words = technique(self.tree.technique).answer(
                *self.cell_states(number),
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

    def cell_states(self, number: int) -> tuple[Monoid, np.ndarray]:
        """The monoid of one part, and its states in the tree's slices."""
        part, states = self.grouping.grouping.parts[number], self.cells.parts[number].words
        if self._order is not None:
            merged = part.monoid.identity(len(self.group))
            merge(part.monoid, merged, self._target, self._order, states)
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
    columns = dict(zip(grouping.keys, view.grouping.keys.decode(runs.group)))
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
