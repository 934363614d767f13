"""The common part of joins that share their state: each stream's rows kept once, in slices of age.

A row carries the set of queries that it counts for. It lives as long as one of them can need it, and no new
row of another stream can be so early that it still would (Wang, chapters 7 and 19).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Generic

import numpy as np
import pyarrow as pa

from weft.expr.arrays import from_values
from weft.expr.evaluate import Evaluator
from weft.model.expression import Column
from weft.model.join import RESULT_TIME
from weft.operators.joins.clock import OrderedRows
from weft.operators.joins.program import JoinProgram
from weft.operators.joins.rows import JoinRows, SliceRows
from weft.operators.joins.signatures import Signatures
from weft.operators.joins.slices import Slices
from weft.operators.joins.union import Union, W, columns
from weft.operators.predicates.signature import signatures
from weft.planning.joins.member import Member
from weft.planning.joins.rates import Counts


class Sliced(ABC, Generic[W]):
    """The kept rows of one program's joins; ``ends`` are where the slices of each side end.

    Without them every distinct range ends one. With ``push`` off rows live as long as the longest range,
    whatever their selections.
    """

    def __init__(
        self,
        program: JoinProgram,
        union: Union[W],
        ends: Sequence[Sequence[int]] | None = None,
        push: bool = True,
    ) -> None:
        self.program, self.union, self.push = program, union, push
        self.fresh: list[W] = []  # what the last step found
        self.signatures = [Signatures(len(program.members)) for _ in program.sides]
        self.watermarks: list[int | None] = [None] * len(program.sides)
        self.counts = Counts.of(len(program.sides))
        self.sides = [Slices(e) for e in ends or self.ranges]

    @property
    def members(self) -> tuple[Member, ...]:
        """The joins that are answered."""
        return self.program.members

    @property
    def ranges(self) -> list[list[int]]:
        """Each side's distinct ranges, ascending."""
        return [sorted({m.ranges[side] for m in self.members}) for side in range(len(self.program.sides))]

    @property
    def state_rows(self) -> int:
        """Return how many rows are kept."""
        return sum(map(len, self.sides))

    def step(
        self, batches: Sequence[OrderedRows | None], watermarks: Sequence[int | None]
    ) -> dict[str, pa.Table]:
        """Take in new rows of each side and give the results that no later row can precede.

        ``watermarks`` are the least times that rows after these can have.
        """
        return self.join([self.rows(side, batch) for side, batch in enumerate(batches)], watermarks)

    @abstractmethod
    def join(self, new: Sequence[JoinRows | None], watermarks: Sequence[int | None]) -> dict[str, pa.Table]:
        """The step of rows made ready by ``rows``."""

    @abstractmethod
    def _look_up(self, side: int, rows: Evaluator) -> tuple[np.ndarray, np.ndarray]:
        """Return what new rows are looked up by, and which of them can be found at all (empty: all)."""

    @abstractmethod
    def _added(self, added: Member, like: int | None) -> None:
        """After a member was added, one like ``like`` where that is given."""

    @abstractmethod
    def _dropped(self, at: int) -> None:
        """After the member with this number was dropped."""

    def restore(
        self, rows: Iterable[tuple[int, JoinRows]], waiting: Iterable[W], watermarks: Sequence[int | None]
    ) -> None:
        """Take in rows and waiting results of the same program, and what time it was there."""
        for side, side_rows in rows:
            self.sides[side].insert(side_rows)
        for results in waiting:
            self.union.add(results)
        self._advance(watermarks)
        if (now := self.now) is not None:
            self.union.release(now)  # these had gone out

    @property
    def now(self) -> int | None:
        """The time before which all results have gone out; None while a stream has no watermark."""
        marks = [w for w in self.watermarks if w is not None]
        return min(marks) if len(marks) == len(self.watermarks) else None

    def others(self, side: int) -> int | None:
        """The least time that rows of the other sides can still have; None while one has no watermark."""
        marks = [w for n, w in enumerate(self.watermarks) if n != side and w is not None]
        return min(marks) if len(marks) == len(self.watermarks) - 1 else None

    def useful(self, side: int, rows: JoinRows) -> JoinRows:
        """The rows that a query can still need, by their exact age."""
        now = self.others(side)
        if now is None or not len(rows):
            return rows
        mask = self.needed_until(side, rows) > now
        return rows if mask.all() else rows.take(np.flatnonzero(mask))

    def needed_until(self, side: int, rows: JoinRows) -> np.ndarray:
        """The watermark of the other streams at which each row is of no more use."""
        return rows.times + self._reach(side)[rows.signatures]

    def add(self, added: Member, program: JoinProgram) -> None:
        """Answer one more join, by a program that has it last.

        Where a running join covers it, with the same selections and ranges as long, it starts as if it had
        run since that one began; elsewhere its results are of rows that come from now on.
        """
        like = next((n for n, m in enumerate(self.members) if m.covers(added)), None)
        before, self.program = self.program, program
        for side_signatures in self.signatures:
            side_signatures.add(like)
        if program.schemas != before.schemas:
            self._widen()
        self._added(added, like)

    def drop(self, name: str) -> None:
        """Answer one join less; it cannot be the last."""
        at = [m.name for m in self.members].index(name)
        members = (*self.members[:at], *self.members[at + 1 :])
        self.program = replace(self.program, members=members)
        for side_signatures in self.signatures:
            side_signatures.drop(at)
        self._dropped(at)

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

    def _advance(self, watermarks: Sequence[int | None]) -> None:
        """Take note of what time it is, and let go what is too old."""
        self.watermarks = list(watermarks)
        self._purge()

    def _purge(self) -> None:
        for side, slices in enumerate(self.sides):
            now = self.others(side)
            if now is not None:
                slices.purge(now, self._reach(side))

    def _release(self) -> dict[str, pa.Table]:
        """The results that no later row can precede, in order of time."""
        released = None if self.now is None else self.union.release(self.now)
        return dict(self._results(*released)) if released else {}

    @abstractmethod
    def _results(self, results: W, order: np.ndarray) -> Iterable[tuple[str, pa.Table]]:
        """Return each query's results of these, in this order."""

    def _outputs(self, member: Member, pairs: pa.RecordBatch, times: np.ndarray) -> pa.Table:
        """Evaluate a query's SELECT list over its joined rows."""
        schema = self.program.results[member.name]
        rows = self.program.evaluator(pairs)
        arrays = [from_values(times, schema.field(RESULT_TIME).type, None)]
        for output, dtype in zip(member.outputs, schema.types[1:]):
            if isinstance(output.expr, Column):
                arrays.append(pairs.column(output.expr.name))
            else:
                arrays.append(rows.evaluate(output.expr).cast(dtype))
        self.counts.bad += rows.bad
        return pa.Table.from_arrays(arrays, schema=schema)

    def _widen(self) -> None:
        """Give kept rows the columns that a new join reads; none of them counts for it, so they are null."""
        for slices, schema in zip(self.sides, self.program.schemas):
            slices.runs = [
                [SliceRows(replace(rows := run.living(), table=columns(rows.table, schema))) for run in runs]
                for runs in slices.runs
            ]
