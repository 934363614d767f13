"""The common part of joins that share their state: each stream's rows kept once, in slices of age.

A row carries the set of queries that it counts for. It lives as long as one of them can need it, and no new
row of another stream can be so early that it still would (Wang, chapters 7 and 19).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Generic

import numpy as np
import pyarrow as pa

from weft.expr.arrays import from_values
from weft.model.expression import Column
from weft.model.join import RESULT_TIME
from weft.operators.joins.clock import OrderedRows
from weft.operators.joins.intake import RowIntake
from weft.operators.joins.program import JoinProgram
from weft.operators.joins.rows import JoinRows
from weft.operators.joins.slices import Slices
from weft.operators.joins.union import Union, W
from weft.planning.joins.member import Member


class Sliced(RowIntake, ABC, Generic[W]):
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
        super().__init__(program, push)
        self.union = union
        self.fresh: list[W] = []  # what the last step found
        self.watermarks: list[int | None] = [None] * len(program.sides)
        self.sides = [Slices(e) for e in ends or self.ranges]

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

    def pending(self, query: str) -> pa.Table | None:
        """Return a query's results that wait, in order of time; None where none does. Changes nothing."""
        if not self.union.waiting:
            return None
        waiting, bad = self.union.concat(self.union.waiting), self.counts.bad
        results = dict(self._results(waiting, np.argsort(waiting.times, kind="stable")))
        self.counts.bad = bad
        return results.get(query)

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
