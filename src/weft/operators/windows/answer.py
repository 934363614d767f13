"""``final``: merge partials into the state and answer, once each, the windows the watermark has passed.

For every tree that has a window due, the cells of each predicate concerned are brought to the tree's
slices: a view. A window of a group is then a run of neighbouring cells, found for all groups at once, and
the tree's technique combines, part by part, the runs of all queries that need the part.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from weft.aggregates import Monoid, States
from weft.aggregates.monoid import merge
from weft.errors import WeftError
from weft.expr.evaluate import Evaluator
from weft.final import technique
from weft.model.expression import Column, Expr
from weft.operators.blame import Failed, attempted, own_error, using
from weft.operators.windows.counting import count_rows
from weft.operators.windows.due import last_ends
from weft.operators.windows.due_windows import Due, Region, WindowColumns, plan_due_windows
from weft.operators.windows.gridded import find_runs
from weft.operators.windows.pieces import WindowPiece
from weft.operators.windows.program import CompiledQuery, WindowProgram
from weft.operators.windows.roster import Roster
from weft.operators.windows.runs import Runs
from weft.operators.windows.shards import MAX_PAIRS_AT_ONCE, bounded
from weft.operators.windows.spread import Spread, spread
from weft.operators.windows.state import BucketCells, CountWindowCells, GroupingState
from weft.operators.windows.waiting import WaitingRows
from weft.planning.tree import Tree
from weft.slicing import align


def final(
    state: BucketCells,
    pieces: Iterable[WindowPiece],
    watermark: int | None,
    program: WindowProgram,
    spent: Counter[int] | None = None,
    failed: Failed | None = None,
) -> tuple[BucketCells, dict[str, pa.Table]]:
    """Merge partials into the state, answer what is due, forget what no open window needs.

    The state given is changed and returned; results hold only the queries that have any. To ``spent``, where
    given, the nanoseconds that each tree's answers took are added. To ``failed``, where given, queries that
    cannot be answered are added, with why: they have to leave. Where it is not, the first such error is
    raised.
    """
    for piece in pieces:
        state.absorb(piece)
    results: dict[str, pa.Table] = {}
    errors: Failed = {}
    if watermark is not None:
        _answer(state, watermark, program, spent, results, errors)
        state.advance(watermark)
    errors |= using(program, state.failed)
    if failed is None:
        for error in errors.values():
            raise error
    else:
        failed |= errors
    names = [q.name for q in program.queries if q.name in results and q.name not in errors]
    return state, {name: results[name] for name in names}


def _answer(
    state: BucketCells,
    watermark: int,
    program: WindowProgram,
    spent: Counter[int] | None,
    results: dict[str, pa.Table],
    failed: Failed,
) -> None:
    """Add the answers that are due to ``results``, and to ``failed`` what cannot be answered."""
    counted = count_rows(state, watermark, program)
    for roster in program.rosters:
        held = state.groupings[roster.grouping]
        if isinstance(held, WaitingRows):
            continue
        due: Due | None
        if isinstance(held, CountWindowCells):
            due, places = counted.get(roster.grouping), roster.of(state.bucket)
        else:
            places = roster.due(state.bucket, state.answered, watermark)
            due = (roster.after(places, state.answered), watermark) if held.rows else None
        if due is None or not len(places):
            continue
        began = time.perf_counter_ns()
        predicates = np.unique(roster.predicate[places]).tolist()
        for group in bounded(predicates, held.satisfying(), MAX_PAIRS_AT_ONCE):
            view = View(held, program.trees[roster.tree], group, roster.since)
            own = np.isin(roster.predicate[places], group)
            for entry, table in view.answer(program, roster, places[own], _of(due, own), failed):
                if table.num_rows:
                    results[entry.query.name] = table
        if spent is not None:
            spent[roster.tree] += time.perf_counter_ns() - began


def _of(due: Due, queries: np.ndarray) -> Due:
    """Return what is due of some of the queries."""
    after, until = due
    return due if isinstance(until, np.ndarray) else (after[queries], until)


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
        starts = grouping.starts if since is None else grouping.apart(since)
        if tree.progressions != grouping.grouping.progressions:
            starts = align(tree.progressions, starts)
        self.predicates = predicates
        satisfied = grouping.bitmaps()[:, predicates]
        # Starts are in order, and some may be equal by now.
        new = np.ones(len(starts), dtype=np.bool_)
        new[1:] = starts[1:] > starts[:-1]
        edges, at = starts[new], self.cells.slice
        if not new.all():
            at = (np.cumsum(new, dtype=np.int32) - 1)[at]
        # Cells can be taken as they are, by all, unless signatures or finer edges split the tree's slices.
        self._spread: Spread | None = None
        group = self.cells.group
        if len(satisfied) > 1 or not satisfied.all() or starts is not grouping.starts:
            self._spread = spread(self.cells.signature, satisfied, group, at)
            group, at = group[self._spread.leader], at[self._spread.leader]
        self._count = len(group)
        changes = np.flatnonzero(np.diff(group, prepend=-1))
        self.regions = {}
        for place, predicate in enumerate(predicates):
            first, last = (0, len(group)) if self._spread is None else self._spread.bounds[place : place + 2]
            inside = slice(*np.searchsorted(changes, (first + 1, last)))
            bounds = np.concatenate([[first] if last > first else [], changes[inside], [last]])
            self.regions[predicate] = Region(bounds.astype(np.int64), group, at, edges)

    def answer(
        self, program: WindowProgram, roster: Roster, places: np.ndarray, due: Due, failed: Failed
    ) -> Iterator[tuple[CompiledQuery, pa.Table]]:
        """The due windows of queries as tables; those that differ in windows alone are answered together.

        Where that fails, the queries that cannot be answered alone go to ``failed``, and the others are
        answered without them.
        """
        regions = [self.regions[predicate] for predicate in self.predicates]
        region = np.searchsorted(self.predicates, roster.predicate[places])
        windows = WindowColumns(roster.range[places], roster.slide[places], roster.offset[places])
        due_windows = plan_due_windows(regions, region, windows, due)
        order = np.lexsort((roster.shape[places], due_windows.count < 0))
        due_windows, places = due_windows.take(order), places[order]

        def answers(queries: np.ndarray) -> list[tuple[CompiledQuery, pa.Table]]:
            entries = [program.entries[roster.numbers[place]] for place in places[queries]]
            shapes, runs = roster.shape[places[queries]], find_runs(due_windows.take(queries))
            return list(Answers(program, self, entries, shapes, runs).tables())

        for turn in due_windows.turns(self._count):
            queries = np.arange(turn.start, turn.stop)
            try:
                yield from answers(queries)
            except MemoryError:
                raise
            except Exception:
                alone = {at: attempted(partial(answers, np.array([at]))) for at in queries.tolist()}
                if not any(alone.values()):
                    raise
                for at, error in alone.items():
                    if error is not None:
                        name = program.entries[roster.numbers[places[at]]].query.name
                        failed[name] = own_error(name, error)
                others = [at for at, error in alone.items() if error is None]
                if others:
                    yield from answers(np.array(others))

    def cell_states(self, number: int, predicates: Collection[int]) -> tuple[Monoid, np.ndarray]:
        """The monoid of one part, and its states in the tree's slices for these predicates."""
        part, states = self.grouping.grouping.parts[number], self.cells.parts[number].words
        if self._spread is not None:
            merged = part.monoid.identity(self._count)
            for pairs in self._spread.pairs([p in predicates for p in self.predicates]):
                merge(part.monoid, merged, *pairs, states)
            states = merged
        return part.ready(states)


class Answers:
    """The answers of some queries over their runs; ``alike`` has neighbours of one shape, which differ in
    windows alone."""

    def __init__(
        self,
        program: WindowProgram,
        view: View,
        entries: Sequence[CompiledQuery],
        shapes: np.ndarray,
        runs: Runs,
    ) -> None:
        self.program, self.view, self.entries, self.runs = program, view, entries, runs
        changes = (np.flatnonzero(np.diff(shapes)) + 1).tolist()
        self.alike = list(pairwise([0, *changes, len(entries)]))
        self._words: dict[int, dict[int, np.ndarray]] = {}

    def tables(self) -> Iterator[tuple[CompiledQuery, pa.Table]]:
        """Each query's windows that hold a row."""
        keys, times = self.runs.keys(self.view.grouping.keys), self._times()
        for place, (first, last) in enumerate(self.alike):
            inside, query = self.runs.part(first, last), self.entries[first].query
            if inside.start == inside.stop:
                continue
            columns = dict(zip(query.result_keys, (column[inside] for column in keys)))
            columns |= {name: column[inside] for name, column in times.items()}
            whole = pa.table(columns | self._values(place))
            bounds = pairwise((self.runs.bounds[first : last + 1] - inside.start).tolist())
            for entry, (start, stop) in zip(self.entries[first:last], bounds):
                if start < stop:
                    yield entry, _finish(self.program, entry, whole.slice(start, stop - start))

    def _values(self, place: int) -> dict[str, pa.Array]:
        """The aggregates of queries alike."""
        entry = self.entries[self.alike[place][0]]
        grouping, values = self.view.grouping.grouping, {}
        for answer in entry.answers:
            parts = [grouping.parts[n] for n in answer.parts]
            try:
                states = [self._states(n, place) for n in answer.parts]
                values[answer.alias] = _typed(answer.function.lower(parts, states), answer.type)
            except WeftError as error:
                raise own_error(entry.query.name, error, answer.alias) from error
        return values

    def _states(self, number: int, place: int) -> States:
        """The states of one part over the runs of queries alike, found for all that need it in one pass."""
        if number not in self._words:
            asking = [
                place
                for place, (first, _) in enumerate(self.alike)
                if any(number in answer.parts for answer in self.entries[first].answers)
            ]
            self._words[number] = self._as_another(number, asking) or self._combined(number, asking)
        return States(self._words[number][place], self.view.cells.parts[number].dictionary)

    def _as_another(self, number: int, asking: list[int]) -> dict[int, np.ndarray] | None:
        """Return what was found for a part with the same states: values without nulls are as many as rows."""
        parts, cells = self.view.grouping.grouping.parts, self.view.cells.parts
        monoid, words = parts[number].monoid, cells[number].words
        for other, states in self._words.items():
            alike = monoid.built_in and monoid == parts[other].monoid and list(states) == asking
            if alike and np.array_equal(words, cells[other].words):
                return states
        return None

    def _combined(self, number: int, asking: list[int]) -> dict[int, np.ndarray]:
        """Combine the states of one part over all runs of the queries that ask for it, by the technique."""
        query_ranges = [self.alike[place] for place in asking]
        needing = {e.predicate for first, last in query_ranges for e in self.entries[first:last]}
        states = self.view.cell_states(number, needing)
        words = self.runs.combine(technique(self.view.tree.technique), *states, query_ranges)
        inside = [self.runs.part(*span) for span in query_ranges]
        ends = np.cumsum([runs.stop - runs.start for runs in inside])
        return dict(zip(asking, np.split(words, ends[:-1])))

    def _times(self) -> dict[str, pa.Array]:
        """Return where runs begin and end in time: at their windows' bounds or, counted in rows, with the
        first and the last row."""
        bounds = (self.runs.start, self.runs.end)
        if isinstance(self.view.grouping, CountWindowCells):
            _, oldest, newest = (states.words[:, 0] for states in self.view.cells.parts[:3])
            low, high = self.runs.cells
            bounds = (oldest[low], newest[high - 1])
        dtype = self.program.time_type
        return {n: pa.array(b).view(dtype) for n, b in zip(("window_start", "window_end"), bounds)}


def _typed(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    if array.type == dtype:
        return array
    if pa.types.is_null(dtype):
        return pa.nulls(len(array))
    if pa.types.is_date32(dtype):
        return array.cast(pa.int32()).cast(dtype)
    if pa.types.is_boolean(dtype) or pa.types.is_temporal(dtype):
        return array.cast(pa.int64()).cast(dtype)
    return array.cast(dtype, safe=False)


def _finish(program: WindowProgram, entry: CompiledQuery, table: pa.Table) -> pa.Table:
    """Result columns computed from aggregates, and HAVING."""
    query = entry.query
    if not query.outputs and query.having is None:
        return table
    schema = program.result_schema(query.name)
    table = _extended(table, {o.alias: o.expr for o in query.outputs}, program.zone)
    if query.having is not None:
        rows = Evaluator(table, zone=program.zone)
        table = table.filter(pa.array(rows.mask(query.having)))
    return table.select(schema.names).cast(schema)


def _extended(table: pa.Table, outputs: dict[str, Expr], zone: str) -> pa.Table:
    evaluator = Evaluator(table, zone=zone)
    for alias, expr in outputs.items():
        if expr != Column(alias):
            table = table.append_column(alias, evaluator.evaluate(expr))
    return table


def closing_time(program: WindowProgram, max_time: int) -> int:
    """The earliest watermark that closes every window that can hold a row up to ``max_time``."""
    until = max_time + 1 if program.counts_rows else max_time
    return max(until, int(last_ends(program.windows, np.array([max_time]))[0]))
