"""Cases for the laws of the operator contract, the same for windows and joins, and a dumb runner of them.

An operator has a module ``support.contract_NAME`` with a function ``cases()``, a Hypothesis strategy of
``ContractCase``; ``tests/operators/test_contract.py`` finds it by that name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from weft.operators.contract import ArrivedRows, Kept, Marks, Piece, Stage, State, Stepped


@dataclass(frozen=True)
class CaseStep:
    """One step: what tasks read (the input stream and its rows, one entry for each task, in the order of
    their numbers), and the marks after it, by input stream; they never go back.

    Rows are prepared with the marks of the step before (None for all streams before the first).
    """

    arrivals: tuple[tuple[str, ArrivedRows], ...]
    marks: Marks


def plain_rows(part: Kept) -> list[tuple[Any, ...]]:
    """The rows of a table without its order and dictionaries, columns by name."""
    table = part.table
    names = sorted(table.schema.names)
    columns = [table.column(table.schema.get_field_index(name)).to_pylist() for name in names]
    return sorted(zip(*columns), key=repr)


@dataclass(frozen=True)
class ContractCase:
    """A stage, the steps that its buckets take, and a change of queries.

    ``changed`` is the stage of the next version, made for a state that has taken ``change_after`` steps
    (from 0 to all). Values are such that no answer depends on the order in which they are added up, floats
    are quarters for example. ``comparable`` gives the rows of a kept table in a form that is equal for equal
    states: override it where tables have numbers of their own, such as codes in order of arrival.
    """

    stage: Stage = field(repr=False)
    buckets: int
    steps: tuple[CaseStep, ...]
    change_after: int
    changed: Stage = field(repr=False)
    comparable: Callable[[Kept], list[tuple[Any, ...]]] = plain_rows


def no_marks(stage: Stage) -> Marks:
    """The marks before the first row."""
    return dict.fromkeys(stage.inputs)


Answers: TypeAlias = dict[str, list[tuple[Any, ...]]]
"""Rows by query or stream, in an order of their own."""

Change = Callable[[Stage, Sequence[Piece]], Sequence[Piece]]
"""What becomes of pieces on their way, such as ``merge``."""


class CaseRun:
    """A stage run over some buckets, step by step, as plainly as can be; from ``marks`` on, if it has run."""

    def __init__(
        self,
        stage: Stage,
        buckets: int,
        states: Sequence[State] | None = None,
        marks: Marks | None = None,
    ) -> None:
        self.stage, self.buckets = stage, buckets
        self.states = list(states or (stage.state(bucket, buckets) for bucket in range(buckets)))
        self.marks: Marks = no_marks(stage) if marks is None else marks
        self.fresh: list[list[Sequence[Kept]]] = [[] for _ in range(buckets)]
        """By bucket what each step has added."""

    def prepared(self, step: CaseStep, change: Change | None = None) -> list[list[Piece]]:
        """Pieces of a step by bucket, before any round, in the order of (part, origin)."""
        prepared = (
            self.stage.prepare(stream, rows, self.marks, self.buckets).pieces
            for stream, rows in step.arrivals
        )
        return self._delivered(prepared, change)

    def pieces(self, step: CaseStep, change: Change | None = None) -> list[list[Piece]]:
        """Pieces of a step by bucket, after all rounds, in the order of (part, origin)."""
        own = self.prepared(step, change)
        for round_number in range(self.stage.rounds):
            relayed = [state.relay(own[state.bucket], round_number).pieces for state in self.states]
            own = self._delivered(relayed, change)
        return own

    def _delivered(self, sent: Iterable[Sequence[Piece]], change: Change | None) -> list[list[Piece]]:
        changed = [pieces if change is None else change(self.stage, pieces) for pieces in sent]
        # Sorting is stable: within a part, pieces stay in the order of those who sent them.
        pieces = sorted((piece for some in changed for piece in some), key=lambda p: p.part)
        return [[p for p in pieces if p.bucket == bucket] for bucket in range(self.buckets)]

    def step(self, step: CaseStep, change: Change | None = None, keep: bool = True) -> Answers:
        """Take a step with all buckets; return the answers."""
        own = self.pieces(step, change)
        results = [state.step(own[state.bucket], step.marks, keep=keep) for state in self.states]
        return self.stepped(results, step.marks)

    def stepped(self, results: Sequence[Stepped], marks: Marks) -> Answers:
        """Take note of what the buckets have made of a step; return the answers."""
        self.marks = marks
        for state, result in zip(self.states, results):
            self.fresh[state.bucket].append(result.fresh)
        return answers_of(results)

    def steps(self, steps: Iterable[CaseStep]) -> list[Answers]:
        """Take steps; return the answers of each."""
        return [self.step(step) for step in steps]


def restored(run: CaseRun, tables: Sequence[Iterable[Kept]]) -> CaseRun:
    """A run whose states are loaded from the tables of each bucket."""
    again = CaseRun(run.stage, run.buckets, None, run.marks)
    for state, own in zip(again.states, tables):
        state.absorb(own)
        state.advance(run.marks)
    return again


def closing_step(case: ContractCase, run: CaseRun) -> CaseStep:
    """A step without rows, whose marks close all that rows of the case can be answered with."""
    latest: dict[str, int | None] = dict(no_marks(run.stage))
    for stream, rows in (arrival for step in case.steps for arrival in step.arrivals):
        if stream in latest:
            seen = run.stage.prepare(stream, rows, no_marks(run.stage), 1).seen
            times = [time for time in (latest[stream], seen.max_time) if time is not None]
            latest[stream] = max(times, default=None)
    return CaseStep((), run.stage.closing(latest, run.marks))


def answers_of(results: Iterable[Stepped]) -> Answers:
    """The answers and output rows of buckets together, in an order of their own.

    Types are compared as well, and no table may be empty.
    """
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for result in results:
        assert all(table.num_rows for table in result.answers.values()), "an answer without rows"
        tables = [(name, table) for name, table in result.answers.items()]
        tables += [(f"stream {name}", table) for name, table in result.outputs.items() if table.num_rows]
        for name, table in tables:
            rows.setdefault(name, []).extend(typed_rows(table))
    return {name: sorted(some, key=repr) for name, some in sorted(rows.items())}


def typed_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of a table, each with its types; NaN is equal to itself by its text."""
    types = str(table.schema.remove_metadata())
    columns = [map(repr, column.to_pylist()) for column in table.columns]
    return [(types, *row) for row in zip(*columns)] if columns else [(types,)] * table.num_rows


def contents(case: ContractCase, tables: Iterable[Kept]) -> Mapping[str, list[tuple[Any, ...]]]:
    """By part all rows of kept tables, in a form that can be compared."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for table in tables:
        if table.table.num_rows:
            rows.setdefault(table.part, []).extend(case.comparable(table))
    return {part: sorted(some, key=repr) for part, some in sorted(rows.items())}
