"""Many window joins of the same streams, three or more, through one set of kept rows.

Wang, parts II and III. Each stream's rows are kept once, in slices of age that end at the queries' ranges. A
new row probes the states of the other streams one after the other, in its own stream's join order; what it
meets on the way are intermediate results, which are never kept. A step takes a batch: the rows of one side
probe, and are then kept, before those of the next side come, so every result is found once, by the last of
its parts to come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from weft.expr.evaluate import Evaluator
from weft.operators.joins.multiway import probe
from weft.operators.joins.multiway.bitmaps import Bitmaps, bit, pack
from weft.operators.joins.multiway.probe import CandidateTuples, Spans, candidates, spans
from weft.operators.joins.multiway.tuples import Tuples, batch_of, concat_tuples, first_part
from weft.operators.joins.program import JoinProgram
from weft.operators.joins.rows import NO_VALUES, JoinRows, SliceRows
from weft.operators.joins.sliced import Sliced
from weft.operators.joins.union import Union
from weft.planning.joins.levels import Level
from weft.planning.joins.orders import LevelKey, LevelWork, Orders, choose_orders

CandidateBlock: TypeAlias = tuple[JoinRows, CandidateTuples]


class MultiwayJoin(Sliced[Tuples]):
    """The joins of one program over two to nine streams, fed with ``step``.

    ``orders`` are the other sides in the order that each side's rows probe them: those that are best as
    far as is known, until others are given.
    """

    def __init__(self, program: JoinProgram) -> None:
        super().__init__(program, Union(concat_tuples))
        self.levels = program.levels
        self.orders: Orders = choose_orders(self.levels, [0.0] * len(program.sides), {})
        self.work: dict[LevelKey, LevelWork] = {}
        self._set_bitmaps()

    def join(self, new: Sequence[JoinRows | None], watermarks: Sequence[int | None]) -> dict[str, pa.Table]:
        """The step of rows made ready by ``rows``."""
        self.fresh = []
        for side, rows in enumerate(new):
            if rows is not None:
                self._probe(self.first(side, rows), frozenset((side,)), self.orders[side])
                self.sides[side].insert(rows)
        self._advance(watermarks)
        return self._release()

    def round(self, number: int, start: int, tuples: Tuples, new: Mapping[int, JoinRows]) -> Iterator[Tuples]:
        """Yield what joined rows that began with a row of side ``start`` come to in a round, the first is 0.

        ``new`` are the rows of the same step that are to be kept here: those of a side before ``start`` are
        met as if they had come before it.
        """
        order = self.orders[start]
        bound, side = frozenset((start, *order[:number])), order[number]
        runs = [run for _, runs in self.sides[side] for run in runs]
        if side < start and side in new:
            runs.append(SliceRows(new[side]))
        return self.extend(tuples, self.levels.level(bound, side), runs)

    def finish(
        self, new: Mapping[int, JoinRows], results: Iterable[Tuples], watermarks: Sequence[int | None]
    ) -> dict[str, pa.Table]:
        """The end of a step in rounds: keep new rows, let results wait, give those that are due."""
        self.fresh = []
        for tuples in results:
            self.add_results(tuples)
        for side, rows in new.items():
            self.sides[side].insert(rows)
        self._advance(watermarks)
        return self._release()

    def first(self, side: int, rows: JoinRows) -> Tuples:
        """New rows of a side, as they begin to probe."""
        carried = self.levels.carried(frozenset((side,)))
        return first_part(rows, side, self.program.sides, pack(self.signatures[side].bits), carried)

    def extend(self, tuples: Tuples, level: Level, runs: Iterable[SliceRows]) -> Iterator[Tuples]:
        """Yield what joined rows make with some kept rows of the level's side."""
        runs = [run for run in runs if len(run)]
        if not runs:
            return
        signature_words, partners = pack(self.signatures[level.side].bits), self._spans(tuples, level)
        done = self.work.setdefault((level.bound, level.side), LevelWork())
        gathered, size = list[CandidateBlock](), 0
        for run in runs:
            done.near += len(tuples) * len(run)
            for block in candidates(tuples, partners, run, level, self.bitmaps, signature_words):
                gathered.append((run.rows, block))
                size += block.rows.size
                if size >= probe.CANDIDATES_PER_BLOCK:
                    yield from self._test(tuples, level, gathered, done)
                    gathered, size = [], 0
        if gathered:
            yield from self._test(tuples, level, gathered, done)

    def add_results(self, results: Tuples) -> None:
        """Let results wait for their turn."""
        self.fresh.append(results)
        self.union.add(results)

    def _probe(self, tuples: Tuples, bound: frozenset[int], order: Sequence[int]) -> None:
        """Take joined rows through the rest of their order, a block at a time."""
        if not order:
            self.add_results(tuples)
            return
        level = self.levels.level(bound, order[0])
        runs = [run for _, runs in self.sides[level.side] for run in runs]
        for longer in self.extend(tuples, level, runs):
            self._probe(longer, bound | {level.side}, order[1:])

    def _spans(self, tuples: Tuples, level: Level) -> Spans:
        """Return where the partners of joined rows lie, in time and by what they are looked up by."""
        after, before = spans(tuples, level, self.bitmaps)
        if not level.keys:
            return Spans(after, before, NO_VALUES, NO_VALUES, np.ones(len(tuples), np.bool_))
        rows = self.program.evaluator(tuples.table)
        least, most, valid = level.bounds(rows)
        if any(len(key.others) > 1 for key in level.keys):  # what is of one side was counted as it came
            self.counts.bad += rows.bad
        return Spans(after, before, least, most, valid if valid.size else np.ones(len(tuples), np.bool_))

    def _test(
        self, tuples: Tuples, level: Level, blocks: Sequence[CandidateBlock], done: LevelWork
    ) -> Iterator[Tuples]:
        """Put gathered candidates, of many runs at once, to the conditions that are now decided."""
        done.tried += sum(block.rows.size for _, block in blocks)
        if level.residual is not None:
            rows = self.program.evaluator(_joined(tuples, level, self.program, blocks, level.tested))
            good = np.flatnonzero(rows.mask(level.residual))
            self.counts.bad += rows.bad
            blocks = list(_chosen(blocks, good))
        if not blocks:
            return
        places = np.concatenate([block.rows for _, block in blocks])
        parts = tuples.parts[places]
        parts[:, level.side] = np.concatenate([stored.times[block.stored] for stored, block in blocks])
        done.joined += places.size
        yield Tuples(
            np.concatenate([block.times for _, block in blocks]),
            parts,
            np.concatenate([block.words for _, block in blocks]),
            _joined(tuples, level, self.program, blocks, level.carried),
        )

    def _results(self, results: Tuples, order: np.ndarray) -> Iterator[tuple[str, pa.Table]]:
        """Each query's results: those whose parts all serve it."""
        for number, member in enumerate(self.members):
            own_places = order[bit(results.words, number)[order]]
            if own_places.size:
                yield (
                    member.name,
                    self._outputs(
                        member, results.table.take(pa.array(own_places)), results.times[own_places]
                    ),
                )

    def _look_up(self, side: int, rows: Evaluator) -> tuple[np.ndarray, np.ndarray]:
        return self.levels.look_up(side, rows)

    def _set_bitmaps(self) -> None:
        self.bitmaps = Bitmaps(np.array([m.ranges for m in self.members], np.int64))


def _joined(
    tuples: Tuples,
    level: Level,
    program: JoinProgram,
    blocks: Sequence[CandidateBlock],
    names: frozenset[str],
) -> pa.RecordBatch:
    """Some columns of candidates."""
    rows = pa.array(np.concatenate([block.rows for _, block in blocks]))
    arrays = {n: tuples.table.column(n).take(rows) for n in tuples.table.schema.names if n in names}
    side = program.sides[level.side]
    stored = [(rows_of_block.table, pa.array(block.stored)) for rows_of_block, block in blocks]
    for number, field in enumerate(program.schemas[level.side]):
        if f"{side}.{field.name}" in names:
            parts = [table.column(number).take(places) for table, places in stored]
            arrays[f"{side}.{field.name}"] = pa.concat_arrays(parts) if len(parts) > 1 else parts[0]
    return batch_of(arrays, len(rows))


def _chosen(blocks: Sequence[CandidateBlock], good: np.ndarray) -> Iterator[CandidateBlock]:
    """The candidates, numbered through, that are good."""
    start = 0
    for rows, block in blocks:
        end = start + block.rows.size
        low, high = np.searchsorted(good, (start, end))
        if low < high:
            own_places = good[low:high] - start
            yield rows, CandidateTuples(*(array[own_places] for array in block))
        start = end
