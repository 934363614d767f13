"""Many window joins of the same streams, three or more, through one set of kept rows.

Wang, parts II and III. Each stream's rows are kept once, in slices of age that end at the queries' ranges. A
new row probes the states of the other streams one after the other, in its own stream's join order; what it
meets on the way are intermediate results, which are never kept. A step takes a batch: the rows of one side
probe, and are then kept, before those of the next side come, so every result is found once, by the last of
its parts to come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from weft.expr import Evaluator
from weft.joins.member import Member
from weft.joins.multiway import probe
from weft.joins.multiway.bitmaps import Bitmaps, all_within, bit, pack, unpack
from weft.joins.multiway.levels import Level, Levels
from weft.joins.multiway.orders import LEVEL_OF, Orders, Work, choose_orders
from weft.joins.multiway.probe import Candidates, Spans, candidates, spans
from weft.joins.multiway.tuples import Tuples, batch_of, concat_tuples, first_part
from weft.joins.program import JoinProgram
from weft.joins.rows import NONE, Kept, Rows
from weft.joins.sliced import Sliced
from weft.joins.union import Union

FIRST_CHOICE = 1 << 10
"""New rows after which orders are chosen by what was measured; then whenever their number has doubled."""

MOST_BETWEEN = 1 << 16
"""New rows after which orders are chosen anew at the latest."""

Found: TypeAlias = tuple[Rows, Candidates]


class MultiwayJoin(Sliced[Tuples]):
    """The joins of one program over two to nine streams, fed with ``step``.

    ``orders`` are the other sides in the order that each side's rows probe them, chosen with the first step.
    """

    def __init__(self, program: JoinProgram) -> None:
        super().__init__(program, Union(concat_tuples))
        self.levels = Levels(program.members, program.schemas)
        self.orders: Orders = ()
        self.work: dict[LEVEL_OF, Work] = {}
        self._next_choice = FIRST_CHOICE
        self._set_bitmaps()

    def join(self, new: Sequence[Rows | None], watermarks: Sequence[int | None]) -> dict[str, pa.Table]:
        """The step of rows made ready by ``rows``."""
        if not self.orders:
            self.choose()
        self.fresh = []
        for side, rows in enumerate(new):
            if rows is not None:
                self._probe(self.first(side, rows), frozenset((side,)), self.orders[side])
                self.sides[side].insert(rows)
        self._advance(watermarks)
        seen = sum(self.counts.rows)
        if seen >= self._next_choice:
            self._next_choice = seen + min(seen, MOST_BETWEEN)
            self.choose()
        return self._release()

    def round(self, number: int, start: int, tuples: Tuples, new: Mapping[int, Rows]) -> Iterator[Tuples]:
        """What joined rows that began with a new row of side ``start`` come to in a round, the first is 0.

        ``new`` are the rows of the same step that are to be kept here: those of a side before ``start`` are
        met as if they had come before it.
        """
        order = self.orders[start]
        bound, side = frozenset((start, *order[:number])), order[number]
        runs = [kept for _, slice in self.sides[side] for kept in slice]
        if side < start and side in new:
            runs.append(Kept(new[side]))
        return self.extend(tuples, self.levels.level(bound, side), runs)

    def finish(
        self, new: Mapping[int, Rows], results: Iterable[Tuples], watermarks: Sequence[int | None]
    ) -> dict[str, pa.Table]:
        """The end of a step in rounds: keep new rows, let results wait, give those that are due."""
        self.fresh = []
        for found in results:
            self.found(found)
        for side, rows in new.items():
            self.sides[side].insert(rows)
        self._advance(watermarks)
        return self._release()

    def choose(self) -> None:
        """Choose the join orders anew; what was measured long ago counts less and less."""
        self.orders = choose_orders(self.levels, self._expected(), self.work)
        for done in self.work.values():
            done.near, done.tried, done.found = done.near / 2, done.tried / 2, done.found / 2

    def _expected(self) -> list[float]:
        """The rows that each side should keep, by its rate so far; 0 where that is not known.

        The rows of this moment would mislead where streams are not aligned.
        """
        found = []
        for side, (rows, first, last) in enumerate(
            zip(self.counts.rows, self.counts.first, self.counts.last)
        ):
            span = 0 if first is None or last is None else last - first
            found.append(rows / span * max(m.ranges[side] for m in self.members) if span > 0 else 0.0)
        return found

    def first(self, side: int, rows: Rows) -> Tuples:
        """New rows of a side, as they begin to probe."""
        carried = self.levels.carried(frozenset((side,)))
        return first_part(rows, side, self.program.sides, pack(self.signs[side].bits), carried)

    def extend(self, tuples: Tuples, level: Level, runs: Iterable[Kept]) -> Iterator[Tuples]:
        """What joined rows make with some kept rows of the level's side."""
        runs = [kept for kept in runs if len(kept)]
        if not runs:
            return
        signs, found = pack(self.signs[level.side].bits), self._spans(tuples, level)
        done = self.work.setdefault((level.bound, level.side), Work())
        gathered, size = list[Found](), 0
        for kept in runs:
            done.near += len(tuples) * len(kept)
            for block in candidates(tuples, found, kept, level, self.bitmaps, signs):
                gathered.append((kept.rows, block))
                size += block.rows.size
                if size >= probe.BLOCK:
                    yield from self._test(tuples, level, gathered, done)
                    gathered, size = [], 0
        if gathered:
            yield from self._test(tuples, level, gathered, done)

    def found(self, results: Tuples) -> None:
        """Let results wait for their turn."""
        self.fresh.append(results)
        self.union.add(results)

    def _probe(self, tuples: Tuples, bound: frozenset[int], order: Sequence[int]) -> None:
        """Take joined rows through the rest of their order, a block at a time."""
        if not order:
            self.found(tuples)
            return
        level = self.levels.level(bound, order[0])
        runs = [kept for _, slice in self.sides[level.side] for kept in slice]
        for made in self.extend(tuples, level, runs):
            self._probe(made, bound | {level.side}, order[1:])

    def _spans(self, tuples: Tuples, level: Level) -> Spans:
        """Where the partners of joined rows lie, in time and by what they are looked up by."""
        after, before = spans(tuples, level, self.bitmaps)
        if not level.keys:
            return Spans(after, before, NONE, NONE, np.ones(len(tuples), np.bool_))
        rows = self.program.evaluator(tuples.table)
        least, most, valid = level.bounds(rows)
        if any(len(key.others) > 1 for key in level.keys):  # what is of one side was counted as it came
            self.counts.bad += rows.bad
        return Spans(after, before, least, most, valid if valid.size else np.ones(len(tuples), np.bool_))

    def _test(self, tuples: Tuples, level: Level, found: Sequence[Found], done: Work) -> Iterator[Tuples]:
        """Put gathered candidates, of many runs at once, to the conditions that are now decided."""
        done.tried += sum(block.rows.size for _, block in found)
        if level.residual is not None:
            rows = self.program.evaluator(_joined(tuples, level, self.program, found, level.tested))
            good = np.flatnonzero(rows.mask(level.residual))
            self.counts.bad += rows.bad
            found = list(_chosen(found, good))
        if not found:
            return
        places = np.concatenate([block.rows for _, block in found])
        parts = tuples.parts[places]
        parts[:, level.side] = np.concatenate([kept.times[block.kept] for kept, block in found])
        done.found += places.size
        yield Tuples(
            np.concatenate([block.times for _, block in found]),
            parts,
            np.concatenate([block.words for _, block in found]),
            _joined(tuples, level, self.program, found, level.carried),
        )

    def _results(self, found: Tuples, order: np.ndarray) -> Iterator[tuple[str, pa.Table]]:
        """Each query's results: those whose parts all serve it."""
        for number, member in enumerate(self.members):
            mine = order[bit(found.words, number)[order]]
            if mine.size:
                yield member.name, self._outputs(member, found.table.take(pa.array(mine)), found.times[mine])

    def _look_up(self, side: int, rows: Evaluator) -> tuple[np.ndarray, np.ndarray]:
        return self.levels.look_up(side, rows)

    def _added(self, added: Member, like: int | None) -> None:
        waiting = []
        for found in self.union.waiting:
            bits = unpack(found.words, len(self.members) - 1)
            mine = np.zeros(len(found), np.bool_)
            if like is not None:
                mine = bits[:, like] & all_within(found.times, found.parts, added.ranges)
            waiting.append(replace(found, words=pack(np.column_stack([bits, mine]))))
        self._migrated(waiting)

    def _dropped(self, at: int) -> None:
        waiting = []
        for found in self.union.waiting:
            bits = np.delete(unpack(found.words, len(self.members) + 1), at, axis=1)
            waiting.append(replace(found, words=pack(bits)).take(np.flatnonzero(bits.any(axis=1))))
        self._migrated(waiting)

    def _migrated(self, waiting: list[Tuples]) -> None:
        """After a change of the members: slices that end at their ranges, and other columns to carry."""
        self.union.waiting = waiting
        self.levels = Levels(self.members, self.program.schemas)
        self._set_bitmaps()
        for side, slices in enumerate(self.sides):
            slices.reshape(self.ranges[side], self._reach(side))
        self._purge()

    def _set_bitmaps(self) -> None:
        self.bitmaps = Bitmaps(np.array([m.ranges for m in self.members], np.int64))


def _joined(
    tuples: Tuples, level: Level, program: JoinProgram, found: Sequence[Found], wanted: frozenset[str]
) -> pa.RecordBatch:
    """Some columns of candidates."""
    rows = pa.array(np.concatenate([block.rows for _, block in found]))
    arrays = {n: tuples.table.column(n).take(rows) for n in tuples.table.schema.names if n in wanted}
    side = program.sides[level.side]
    kept = [(some.table, pa.array(block.kept)) for some, block in found]
    for number, field in enumerate(program.schemas[level.side]):
        if f"{side}.{field.name}" in wanted:
            parts = [table.column(number).take(places) for table, places in kept]
            arrays[f"{side}.{field.name}"] = pa.concat_arrays(parts) if len(parts) > 1 else parts[0]
    return batch_of(arrays, len(rows))


def _chosen(found: Sequence[Found], good: np.ndarray) -> Iterator[Found]:
    """The candidates, numbered through, that are good."""
    start = 0
    for rows, block in found:
        end = start + block.rows.size
        low, high = np.searchsorted(good, (start, end))
        if low < high:
            mine = good[low:high] - start
            yield rows, Candidates(*(array[mine] for array in block))
        start = end
