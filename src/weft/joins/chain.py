"""State-Slice: many window joins of two streams as one chain of sliced joins.

Wang, chapters 5 and 7. Each stream's rows are kept once, in slices of age; the queries' ranges are where
slices may end. New rows probe the slices of the other stream and each other; a pair goes to every query
whose ranges and selections it satisfies. Results wait until no earlier one can come: the union of the
slices, ordered by the watermark as its punctuation.

The paper moves one row at a time. Here a step takes a batch, so a row may be older than its slice by the
time that the batch spans; the exact age of each pair decides whom it serves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from weft.engine.signature import signatures
from weft.expr import Evaluator
from weft.expr.arrays import from_values
from weft.joins.clock import Timed
from weft.joins.match import BLOCK, Windows, candidates
from weft.joins.member import Member
from weft.joins.program import JoinProgram
from weft.joins.rows import NONE, Kept, Rows
from weft.joins.signs import Signs
from weft.joins.slices import Slices
from weft.joins.union import Pairs, Union, columns
from weft.query import RESULT_TIME, Column


@dataclass
class Counts:
    """What a chain has done so far.

    Rows taken per side, also by signature, and their first and last times; pairs near enough in time, pairs
    looked at, pairs found; values that failed.
    """

    rows: list[int] = field(default_factory=lambda: [0, 0])
    signs: list[np.ndarray] = field(default_factory=lambda: [NONE, NONE])
    first: list[int | None] = field(default_factory=lambda: [None, None])
    last: list[int | None] = field(default_factory=lambda: [None, None])
    near: int = 0
    tried: int = 0
    found: int = 0
    bad: int = 0


class Block(NamedTuple):
    """Candidate pairs: rows of both sides, which of them, how much later side 0 is, and the pairs' places."""

    parts: tuple[Rows, Rows]
    rows: tuple[np.ndarray, np.ndarray]
    later: np.ndarray
    place: np.ndarray

    def times(self, side: int) -> np.ndarray:
        """The times of one side's rows."""
        return self.parts[side].times[self.rows[side]]

    def take(self, pairs: np.ndarray) -> Block:
        """Some of the pairs."""
        rows = (self.rows[0][pairs], self.rows[1][pairs])
        return Block(self.parts, rows, self.later[pairs], self.place[pairs])


class Chain:
    """The joins of one program over two streams, fed with ``step``.

    ``ends`` are where the slices of each side end; without them every distinct range ends one (Mem-Opt).
    With ``push`` off rows live as long as the longest range, whatever their selections (selection pull-up).
    """

    def __init__(
        self, program: JoinProgram, ends: Sequence[Sequence[int]] | None = None, push: bool = True
    ) -> None:
        self.program, self.push = program, push
        self.signs = [Signs(len(program.members)) for _ in program.sides]
        self.union = Union()
        self.fresh: list[Pairs] = []  # what the last step found
        self._gathered: list[Block] = []
        self.watermarks: list[int | None] = [None, None]
        self.counts = Counts()
        self._set_windows()
        self.sides = [Slices(e) for e in ends or self.ranges]

    @property
    def members(self) -> tuple[Member, ...]:
        """The joins that the chain answers."""
        return self.program.members

    @property
    def ranges(self) -> list[list[int]]:
        """Each side's distinct ranges, ascending."""
        return [sorted({m.ranges[side] for m in self.members}) for side in range(2)]

    @property
    def state_rows(self) -> int:
        """How many rows are kept."""
        return sum(map(len, self.sides))

    def step(self, batches: Sequence[Timed | None], watermarks: Sequence[int | None]) -> dict[str, pa.Table]:
        """Take in new rows of each side and give the results that no later row can precede.

        ``watermarks`` are the least times that rows after these can have.
        """
        return self.join([self.rows(side, batch) for side, batch in enumerate(batches)], watermarks)

    def join(
        self,
        new: Sequence[Rows | None],
        watermarks: Sequence[int | None],
        stored: Sequence[Rows | None] | None = None,
    ) -> dict[str, pa.Table]:
        """The step of rows made ready by ``rows``.

        Of those, only ``stored`` are kept here, if given: the others probe, and are kept by other chains. A
        pair of two new rows is found where the row of side 1 is kept.
        """
        stored = new if stored is None else stored
        self.fresh = []
        for side, rows in enumerate(new):
            if rows is None:
                continue
            # How far back in the other side's ages each new row has business.
            depth = self._reach(1 - side, of=side)[rows.signs]
            for start, runs in self.sides[1 - side]:
                for kept in runs:
                    self._join(side, rows, depth > start, kept, start)
            if side == 0 and stored[1] is not None:
                self._join(0, rows, depth > 0, Kept(stored[1]), 0)
        self._test()
        for slices, kept_rows in zip(self.sides, stored):
            if kept_rows is not None:
                slices.insert(kept_rows)
        self.watermarks = list(watermarks)
        self._purge()
        return self._release()

    def restore(
        self, rows: Iterable[tuple[int, Rows]], pairs: Iterable[Pairs], watermarks: Sequence[int | None]
    ) -> None:
        """Take in rows and waiting pairs of a chain of the same program, and what time it was there."""
        for side, some in rows:
            self.sides[side].insert(some)
        for waiting in pairs:
            self.union.add(waiting)
        self.watermarks = list(watermarks)
        self._purge()
        if (now := self.now) is not None:
            self.union.release(now)  # these had gone out

    @property
    def now(self) -> int | None:
        """The time before which all results have gone out; None while a stream has no watermark."""
        known = [w for w in self.watermarks if w is not None]
        return min(known) if len(known) == 2 else None

    def useful(self, side: int, rows: Rows) -> Rows:
        """The rows that a query can still need, by their exact age."""
        now = self.watermarks[1 - side]
        if now is None or not len(rows):
            return rows
        mask = self.needed_until(side, rows) > now
        return rows if mask.all() else rows.take(np.flatnonzero(mask))

    def needed_until(self, side: int, rows: Rows) -> np.ndarray:
        """The watermark of the other stream at which each row is of no more use."""
        return rows.times + self._reach(side)[rows.signs]

    def reshape(self, ends: Sequence[Sequence[int]]) -> None:
        """Let the slices of each side end elsewhere, by splitting and merging them; no result changes."""
        for side, new in enumerate(ends):
            longest = max(m.ranges[side] for m in self.members)
            if list(new) != sorted(set(new)) or not new or new[0] <= 0 or new[-1] != longest:
                raise ValueError(f"slices end at ascending ages, the last at {longest}, not at {list(new)}")
            self.sides[side].reshape(new, self._reach(side))
        self._purge()

    def add(self, added: Member, program: JoinProgram) -> None:
        """Answer one more join, by a program that has it last.

        Where a running join covers it, with the same selections and ranges as long, it starts as if it had
        run since that one began; elsewhere its results are of rows that come from now on.
        """
        like = next((n for n, m in enumerate(self.members) if m.covers(added)), None)
        before, self.program = self.program, program
        for signs in self.signs:
            signs.add(like)
        if program.schemas != before.schemas:
            self._widen()
        self._migrated()

    def drop(self, name: str) -> None:
        """Answer one join less; it cannot be the last."""
        at = [m.name for m in self.members].index(name)
        left = (*self.members[:at], *self.members[at + 1 :])
        self.program = replace(self.program, members=left)
        for signs in self.signs:
            signs.drop(at)
        self._migrated()

    def _migrated(self) -> None:
        """After a change of the members: a slice end per range that is new, none beyond the longest."""
        known = [set(w.ranges.tolist()) for w in self.windows]
        self._set_windows()
        for side, slices in enumerate(self.sides):
            wanted = set(self.ranges[side])
            ends = (set(slices.ends) & wanted) | (wanted - known[side]) | {max(wanted)}
            slices.reshape(sorted(ends), self._reach(side))
        self.union.replace_windows(self.windows)
        self._purge()

    def _set_windows(self) -> None:
        first, second = (np.array(r, np.int64) for r in self.ranges)
        self.windows = [Windows(first, 0), Windows(second, first.size)]
        places = first.size + second.size
        serves = np.zeros((len(self.members), places), np.bool_)
        for number, member in enumerate(self.members):
            for side, window in enumerate(self.windows):
                served = int(np.searchsorted(window.ranges, member.ranges[side])) + 1
                serves[number, window.base : window.base + served] = True
        self.serves = serves

    def _reach(self, side: int, of: int | None = None) -> np.ndarray:
        """How long each signature's rows are of use; to rows of side ``of``, by default their own ages."""
        ranges = [m.ranges[side] for m in self.members]
        reach = self.signs[side if of is None else of].reach(ranges)
        return reach if self.push else np.full_like(reach, max(ranges))

    def _purge(self) -> None:
        for side, slices in enumerate(self.sides):
            now = self.watermarks[1 - side]
            if now is not None:
                slices.purge(now, self._reach(side))

    def rows(self, side: int, batch: Timed | None) -> Rows | None:
        """New rows made ready: signed, looked up, and without those that can join nothing."""
        if batch is None or not batch.times.size:
            return None
        counts = self.counts
        counts.rows[side] += batch.times.size
        counts.first[side] = counts.first[side] if counts.first[side] is not None else int(batch.times[0])
        counts.last[side] = max(int(batch.times[-1]), counts.last[side] or int(batch.times[-1]))
        rows = Evaluator(batch.table, strict=self.program.strict)
        selections = list(dict.fromkeys(m.selections[side] for m in self.members))
        numbers, bits = signatures(selections, rows, batch.times.size)
        per_query = bits[:, [selections.index(m.selections[side]) for m in self.members]]
        signs = self.signs[side].number(per_query)
        mine = signs[numbers] if numbers.size else np.full(batch.times.size, signs[0], np.int32)
        seen = np.bincount(mine, minlength=len(self.signs[side].bits))
        seen[: counts.signs[side].size] += counts.signs[side]
        counts.signs[side] = seen
        values, valid = NONE, np.zeros(0, np.bool_)
        if not self.program.access.by_time:
            values, valid = self.program.access.look_up(side, rows)
        counts.bad += rows.bad
        kept = Rows(batch.times, mine, values, columns(batch.table, self.program.schemas[side]))
        keep = self._reach(side)[mine] > 0
        keep = keep & valid if valid.size else keep
        if not keep.all():
            kept = kept.take(np.flatnonzero(keep))
        return kept if len(kept) else None

    def _join(self, side: int, new: Rows, wanted: np.ndarray, kept: Kept, start: int) -> None:
        """Gather the candidate pairs of wanted new rows and kept rows of the other side."""
        other = 1 - side
        self.counts.near += int(wanted.sum()) * len(kept)
        found = candidates(
            new, wanted, kept, self.program.access, self.windows[side], self.windows[other], start
        )
        for block in found:
            if side == 0:
                one = Block((new, kept.rows), (block.new, block.kept), block.later, block.place)
            else:
                one = Block((kept.rows, new), (block.kept, block.new), -block.later, block.place)
            self._gathered.append(one)
            if sum(b.later.size for b in self._gathered) >= BLOCK:
                self._test()

    def _test(self) -> None:
        """Test what was gathered, of many slices at once, and let the pairs that join wait for their turn."""
        blocks, self._gathered = self._gathered, []
        self.counts.tried += sum(b.later.size for b in blocks)
        if blocks and self.program.residual is not None:
            rows = Evaluator(self._joined(blocks, self.program.tested), strict=self.program.strict)
            good = np.flatnonzero(rows.mask(self.program.residual))
            self.counts.bad += rows.bad
            ends = np.cumsum([b.later.size for b in blocks])
            cuts = np.searchsorted(good, ends)
            chosen = (good[low:high] for low, high in zip([0, *cuts], cuts))
            blocks = [b.take(g - e + b.later.size) for b, g, e in zip(blocks, chosen, ends) if g.size]
        if not blocks:
            return
        times = [np.maximum(b.times(0), b.times(1)) for b in blocks]
        signs = [np.concatenate([b.parts[side].signs[b.rows[side]] for b in blocks]) for side in range(2)]
        pairs = Pairs(
            np.concatenate(times),
            np.concatenate([b.place for b in blocks]),
            (signs[0], signs[1]),
            np.concatenate([b.later for b in blocks]),
            self._joined(blocks, self.program.selected),
        )
        self.counts.found += pairs.times.size
        self.fresh.append(pairs)
        self.union.add(pairs)

    def _joined(self, blocks: Sequence[Block], wanted: frozenset[str]) -> pa.RecordBatch:
        """Some columns of the joined rows."""
        arrays, fields = [], []
        indices = [[pa.array(rows) for rows in b.rows] for b in blocks]
        for side, (name, schema) in enumerate(zip(self.program.sides, self.program.schemas)):
            for number, kept in enumerate(schema):
                if f"{name}.{kept.name}" in wanted:
                    parts = [
                        b.parts[side].table.column(number).take(i[side]) for b, i in zip(blocks, indices)
                    ]
                    arrays.append(pa.concat_arrays(parts) if len(parts) > 1 else parts[0])
                    fields.append(kept.with_name(f"{name}.{kept.name}"))
        if not arrays:  # a batch without columns would forget how many rows it has
            arrays, fields = [pa.nulls(sum(b.later.size for b in blocks))], [pa.field("_", pa.null())]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _release(self) -> dict[str, pa.Table]:
        """The results that no later row can precede, in order of time."""
        released = None if self.now is None else self.union.release(self.now)
        return dict(self._results(*released)) if released else {}

    def _results(self, pairs: Pairs, order: np.ndarray) -> Iterator[tuple[str, pa.Table]]:
        """Each query's pairs: those within its ranges, of rows that count for it on both sides."""
        for number, member in enumerate(self.members):
            mask = self.serves[number][pairs.places]
            for side in range(2):
                counts = self.signs[side].bits[:, number]
                if not counts.all():
                    mask &= counts[pairs.signs[side]]
            mine = order if mask.all() else order[mask[order]]
            if mine.size:
                yield member.name, self._outputs(member, pairs.table.take(pa.array(mine)), pairs.times[mine])

    def _outputs(self, member: Member, pairs: pa.RecordBatch, times: np.ndarray) -> pa.Table:
        schema = self.program.results[member.name]
        rows = Evaluator(pairs, strict=self.program.strict)
        made = [from_values(times, schema.field(RESULT_TIME).type, None)]
        for output, type in zip(member.outputs, schema.types[1:]):
            if isinstance(output.expr, Column):
                made.append(pairs.column(output.expr.name))
            else:
                made.append(rows.evaluate(output.expr).cast(type))
        self.counts.bad += rows.bad
        return pa.Table.from_arrays(made, schema=schema)

    def _widen(self) -> None:
        """Give kept rows the columns that a new join reads; none of them counts for it, so they are null."""
        for slices, schema in zip(self.sides, self.program.schemas):
            slices.runs = [
                [Kept(replace(rows := kept.living(), table=columns(rows.table, schema))) for kept in runs]
                for runs in slices.runs
            ]
