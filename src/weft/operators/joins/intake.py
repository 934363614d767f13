"""Rows on their way into joins: signed by the queries that they count for, looked up, and counted."""

from __future__ import annotations

import numpy as np

from weft.expr.evaluate import Evaluator
from weft.operators.joins.clock import OrderedRows
from weft.operators.joins.program import JoinProgram
from weft.operators.joins.rows import NO_VALUES, JoinRows
from weft.operators.joins.signatures import Signatures
from weft.operators.joins.union import columns
from weft.operators.predicates.signature import signatures
from weft.planning.joins.member import Member
from weft.planning.joins.rates import Counts


class RowIntake:
    """The way of rows into the joins of one program: made ready, their signatures numbered as they come.

    With ``push`` off rows are of use for the longest range, whatever their selections.
    """

    def __init__(self, program: JoinProgram, push: bool = True) -> None:
        self.program, self.push = program, push
        self.signatures = [Signatures(len(program.members)) for _ in program.sides]
        self.counts = Counts.of(len(program.sides))

    @property
    def members(self) -> tuple[Member, ...]:
        """The joins that are answered."""
        return self.program.members

    def rows(self, side: int, batch: OrderedRows | None) -> JoinRows | None:
        """New rows made ready: signed, looked up, and without those that can join nothing."""
        if batch is None or not batch.times.size:
            return None
        counts = self.counts
        counts.rows[side] += batch.times.size
        counts.first[side] = counts.first[side] if counts.first[side] is not None else int(batch.times[0])
        counts.last[side] = max(int(batch.times[-1]), counts.last[side] or int(batch.times[-1]))
        rows = self.program.evaluator(batch.table)
        selections = list(dict.fromkeys(m.selections[side] for m in self.members))
        classes, bits = signatures(selections, rows, batch.times.size)
        per_query = bits[:, [selections.index(m.selections[side]) for m in self.members]]
        numbers = self.signatures[side].number(per_query)
        row_signatures = numbers[classes] if classes.size else np.full(batch.times.size, numbers[0], np.int32)
        seen = np.bincount(row_signatures, minlength=len(self.signatures[side].bits))
        seen[: counts.signatures[side].size] += counts.signatures[side]
        counts.signatures[side] = seen
        values, valid = self._look_up(side, rows)
        counts.bad += rows.bad
        new_rows = JoinRows(
            batch.times, row_signatures, values, columns(batch.table, self.program.schemas[side])
        )
        useful = self._reach(side)[row_signatures] > 0
        useful = useful & valid if valid.size else useful
        if not useful.all():
            new_rows = new_rows.take(np.flatnonzero(useful))
        return new_rows if len(new_rows) else None

    def _reach(self, side: int, of: int | None = None) -> np.ndarray:
        """Return how long each signature's rows are of use; to rows of side ``of``, else their own."""
        ranges = [m.ranges[side] for m in self.members]
        reach = self.signatures[side if of is None else of].reach(ranges)
        return reach if self.push else np.full_like(reach, max(ranges))

    def _look_up(self, side: int, rows: Evaluator) -> tuple[np.ndarray, np.ndarray]:
        """Return what new rows are looked up by, and which of them can be found at all (empty: all)."""
        if len(self.program.sides) > 2:
            return self.program.levels.look_up(side, rows)
        if self.program.access.by_time:
            return NO_VALUES, np.zeros(0, np.bool_)
        return self.program.access.look_up(side, rows)
