"""State-Slice: many window joins of two streams as one chain of sliced joins.

Wang, chapters 5 and 7. Each stream's rows are kept once, in slices of age; the queries' ranges are where
slices may end. New rows probe the slices of the other stream and each other; a pair goes to every query
whose ranges and selections it satisfies. Results wait until no earlier one can come: the union of the
slices, ordered by the watermark as its punctuation.

The paper moves one row at a time. Here a step takes a batch, so a row may be older than its slice by the
time that the batch spans; the exact age of each pair decides whom it serves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from weft.operators.joins.match import CANDIDATES_PER_BLOCK, candidates
from weft.operators.joins.program import JoinProgram
from weft.operators.joins.rows import JoinRows, SideRanges, SliceRows
from weft.operators.joins.sliced import Sliced
from weft.operators.joins.union import Pairs, Union, concat_pairs


class Block(NamedTuple):
    """Candidate pairs: rows of both sides, which of them, how much later side 0 is, and the pairs' places."""

    parts: tuple[JoinRows, JoinRows]
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


class Chain(Sliced[Pairs]):
    """The joins of one program over two streams, fed with ``step``.

    ``ends`` are where the slices of each side end; without them every distinct range ends one (Mem-Opt).
    With ``push`` off rows live as long as the longest range, whatever their selections (selection pull-up).
    """

    def __init__(
        self, program: JoinProgram, ends: Sequence[Sequence[int]] | None = None, push: bool = True
    ) -> None:
        super().__init__(program, Union(concat_pairs), ends, push)
        self._gathered: list[Block] = []
        self._set_windows()

    def join(
        self,
        new: Sequence[JoinRows | None],
        watermarks: Sequence[int | None],
        stored: Sequence[JoinRows | None] | None = None,
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
            depth = self._reach(1 - side, of=side)[rows.signatures]
            for start, runs in self.sides[1 - side]:
                for run in runs:
                    self._join(side, rows, depth > start, run, start)
            if side == 0 and stored[1] is not None:
                self._join(0, rows, depth > 0, SliceRows(stored[1]), 0)
        self._test()
        for slices, new_rows in zip(self.sides, stored):
            if new_rows is not None:
                slices.insert(new_rows)
        self._advance(watermarks)
        return self._release()

    def reshape(self, ends: Sequence[Sequence[int]]) -> None:
        """Let the slices of each side end elsewhere, by splitting and merging them; no result changes."""
        for side, new in enumerate(ends):
            longest = max(m.ranges[side] for m in self.members)
            if list(new) != sorted(set(new)) or not new or new[0] <= 0 or new[-1] != longest:
                raise ValueError(f"slices end at ascending ages, the last at {longest}, not at {list(new)}")
            self.sides[side].reshape(new, self._reach(side))
        self._purge()

    def _set_windows(self) -> None:
        first, second = (np.array(r, np.int64) for r in self.ranges)
        self.windows = [SideRanges(first, 0), SideRanges(second, first.size)]
        places = first.size + second.size
        serves = np.zeros((len(self.members), places), np.bool_)
        for number, member in enumerate(self.members):
            for side, window in enumerate(self.windows):
                served = int(np.searchsorted(window.ranges, member.ranges[side])) + 1
                serves[number, window.base : window.base + served] = True
        self.serves = serves

    def _join(self, side: int, new: JoinRows, probing: np.ndarray, run: SliceRows, start: int) -> None:
        """Gather the candidate pairs of probing new rows and kept rows of the other side."""
        other = 1 - side
        self.counts.near += int(probing.sum()) * len(run)
        blocks = candidates(
            new, probing, run, self.program.access, self.windows[side], self.windows[other], start
        )
        for block in blocks:
            if side == 0:
                pairs = Block((new, run.rows), (block.new, block.stored), block.later, block.place)
            else:
                pairs = Block((run.rows, new), (block.stored, block.new), -block.later, block.place)
            self._gathered.append(pairs)
            if sum(b.later.size for b in self._gathered) >= CANDIDATES_PER_BLOCK:
                self._test()

    def _test(self) -> None:
        """Test what was gathered, of many slices at once, and let the pairs that join wait for their turn."""
        blocks, self._gathered = self._gathered, []
        self.counts.tried += sum(b.later.size for b in blocks)
        if blocks and self.program.residual is not None:
            rows = self.program.evaluator(self._joined(blocks, self.program.tested))
            good = np.flatnonzero(rows.mask(self.program.residual))
            self.counts.bad += rows.bad
            ends = np.cumsum([b.later.size for b in blocks])
            cuts = np.searchsorted(good, ends)
            chosen = (good[low:high] for low, high in zip([0, *cuts], cuts))
            blocks = [b.take(g - e + b.later.size) for b, g, e in zip(blocks, chosen, ends) if g.size]
        if not blocks:
            return
        times = [np.maximum(b.times(0), b.times(1)) for b in blocks]
        signatures = [
            np.concatenate([b.parts[side].signatures[b.rows[side]] for b in blocks]) for side in range(2)
        ]
        pairs = Pairs(
            np.concatenate(times),
            np.concatenate([b.place for b in blocks]),
            (signatures[0], signatures[1]),
            np.concatenate([b.later for b in blocks]),
            self._joined(blocks, self.program.selected),
        )
        self.counts.joined += pairs.times.size
        self.fresh.append(pairs)
        self.union.add(pairs)

    def _joined(self, blocks: Sequence[Block], names: frozenset[str]) -> pa.RecordBatch:
        """Some columns of the joined rows."""
        arrays, fields = [], []
        indices = [[pa.array(rows) for rows in b.rows] for b in blocks]
        for side, (name, schema) in enumerate(zip(self.program.sides, self.program.schemas)):
            for number, column in enumerate(schema):
                if f"{name}.{column.name}" in names:
                    parts = [
                        b.parts[side].table.column(number).take(i[side]) for b, i in zip(blocks, indices)
                    ]
                    arrays.append(pa.concat_arrays(parts) if len(parts) > 1 else parts[0])
                    fields.append(column.with_name(f"{name}.{column.name}"))
        if not arrays:  # a batch without columns would forget how many rows it has
            arrays, fields = [pa.nulls(sum(b.later.size for b in blocks))], [pa.field("_", pa.null())]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _results(self, pairs: Pairs, order: np.ndarray) -> Iterator[tuple[str, pa.Table]]:
        """Each query's pairs: those within its ranges, of rows that count for it on both sides."""
        for number, member in enumerate(self.members):
            mask = self.serves[number][pairs.places]
            for side in range(2):
                counts = self.signatures[side].bits[:, number]
                if not counts.all():
                    mask &= counts[pairs.signatures[side]]
            own_places = order if mask.all() else order[mask[order]]
            if own_places.size:
                yield (
                    member.name,
                    self._outputs(member, pairs.table.take(pa.array(own_places)), pairs.times[own_places]),
                )
