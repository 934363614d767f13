"""The state of one bucket: the partials that some open window still needs, ordered for answering.

Cells are kept ordered by (group, slice, signature), each part's states beside them as one matrix, so that
a window of a group is a run of neighbouring cells. New partials wait unordered until an answer is due.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.aggregates import States
from weft.aggregates.monoid import merge
from weft.errors import AggregateError
from weft.operators.blame import PartsFailed, Where
from weft.operators.cells import factorize, order_by, run_targets
from weft.operators.keys import KeyIndex
from weft.operators.predicates.signature import unpack
from weft.operators.windows.due import last_ends, needed_at
from weft.operators.windows.pieces import WindowPiece
from weft.operators.windows.program import Axis, Grouping, WindowProgram
from weft.operators.windows.waiting import WaitingRows

T = TypeVar("T")

MAX_DEAD_SHARE = 0.125
"""Of the cells held, those that no open window needs, above which they are forgotten."""

MAX_OVERLAP_SHARE = 0.25
"""Of the cells of pieces, those in slices of several, above which the pieces are merged."""


@dataclass(slots=True)
class Cells:
    """A run of cells: numbers of group, slice and signature, as int32, and the states of each part."""

    group: np.ndarray
    slice: np.ndarray
    signature: np.ndarray
    parts: list[States]

    def __post_init__(self) -> None:
        self.group, self.slice, self.signature = map(_small, (self.group, self.slice, self.signature))

    def __len__(self) -> int:
        return len(self.group)

    def take(self, rows: np.ndarray) -> Cells:
        """Return these rows, in this order."""
        parts = [States(p.words[rows], p.dictionary) for p in self.parts]
        return Cells(self.group[rows], self.slice[rows], self.signature[rows], parts)


def _small(numbers: np.ndarray) -> np.ndarray:
    """Numbers of what is in memory, in half the room; one type, so that kernels are compiled once."""
    return numbers.astype(np.int32, copy=False)


class GroupingState:
    """The cells of one grouping, and what their numbers mean."""

    def __init__(self, grouping: Grouping, predicates: int) -> None:
        self.grouping, self.predicates = grouping, predicates
        self.keys = KeyIndex(grouping.key_types)
        self.starts = np.zeros(0, dtype=np.int64)
        self.ends = np.zeros(0, dtype=np.int64)
        # Signatures and their numbers, always in the order of the numbers.
        self.packed: dict[bytes, int] = {}
        no_numbers = np.zeros(0, dtype=np.int64)
        self.cells = Cells(no_numbers, no_numbers, no_numbers, [p.empty() for p in grouping.parts])
        self.pending: list[Cells] = []
        self.failed: dict[tuple[int, int], AggregateError] = {}
        """Parts whose functions have failed on cells of a predicate: their states mean nothing any more."""

    @property
    def rows(self) -> int:
        """Return how many cells are held."""
        return len(self.cells) + sum(map(len, self.pending))

    @property
    def bytes(self) -> int:
        """Return how much memory the cells take, dictionaries apart."""
        return sum(
            c.group.nbytes * 3
            + sum(self._tried(n, self.grouping.parts[n].nbytes, s) or 0 for n, s in enumerate(c.parts))
            for c in (self.cells, *self.pending)
        )

    def _tried(self, number: int, do: Callable[[Any], T], given: Any) -> T | None:
        """Return what is done with states of a part; None where that fails, which is remembered."""
        try:
            return do(given)
        except AggregateError as error:
            self.failed |= dict.fromkeys(((number, p) for p in self.grouping.needed_by[number]), error)
            return None

    def _merge_apart(
        self, number: int, count: int, cells: Sequence[np.ndarray], states: np.ndarray
    ) -> np.ndarray:
        """States of a part merged signature by signature: those that cannot be fail for their predicates.

        ``cells`` are what each state is merged into, its place, and the signatures of all.
        """
        monoid, bitmaps = self.grouping.parts[number].monoid, self.bitmaps()
        into, (target, order, signature) = monoid.identity(count), cells
        for bits in np.unique(signature).tolist():
            own = signature[order] == bits
            try:
                merge(monoid, into, target[own], order[own], states)
            except AggregateError as error:
                into[target[own]] = monoid.identity(1)
                for predicate in np.flatnonzero(bitmaps[bits]).tolist():
                    self.failed[number, predicate] = error
        return into

    def absorb(self, table: pa.RecordBatch) -> None:
        """Take in partials; they are put in order when next needed."""
        if not table.num_rows:
            return
        columns = table.columns
        width = len(self.grouping.keys)
        group = self.keys.encode(columns[:width], table.num_rows)
        at = self._slices(*(c.to_numpy(zero_copy_only=False) for c in columns[width : width + 2]))
        signature = self._signatures(columns[width + 2])
        parts, first = [], width + 3
        for number, part in enumerate(self.grouping.parts):
            read = self._tried(number, part.states, columns[first : first + len(part.words)])
            parts.append(part.neutral(len(group)) if read is None else read)
            first += len(part.words)
        self.pending.append(Cells(group, at, signature, parts))

    def _slices(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Number these slices in order of time, renumbering what is held where new ones come between."""
        low = int(starts.min())
        numbers, distinct = factorize(starts - low)
        last = np.zeros(len(distinct), dtype=np.int64)
        last[numbers] = ends
        all_starts = np.concatenate([self.starts, distinct + low])
        all_ends = np.concatenate([self.ends, last])
        order = np.lexsort((all_ends, all_starts))
        s, e = all_starts[order], all_ends[order]
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = (s[1:] != s[:-1]) | (e[1:] != e[:-1])
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.cumsum(new) - 1
        new_numbers, fresh = place[: len(self.starts)], place[len(self.starts) :]
        self.starts, self.ends = s[new], e[new]
        if len(new_numbers) and new_numbers[-1] != len(new_numbers) - 1:
            for cells in (self.cells, *self.pending):
                cells.slice = _small(new_numbers[cells.slice])
        return fresh[numbers]

    def _signatures(self, column: pa.Array) -> np.ndarray:
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        numbers = [self.packed.setdefault(bits, len(self.packed)) for bits in encoded.dictionary.to_pylist()]
        return np.array(numbers, dtype=np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]

    def bitmaps(self) -> np.ndarray:
        """One row of booleans per signature number, one column per predicate."""
        return unpack(list(self.packed), self.predicates)

    def apart(self, since: int) -> np.ndarray:
        """The starts of slices; where some from ``since`` on overlap, all have the start of the first.

        They do once queries that came or went have changed where rows are cut. A query that is exact since
        then has no edge within them, and what starts before is in none of its windows.
        """
        old = int(np.searchsorted(self.starts, since))
        starts, ends = self.starts[old:], self.ends[old:]
        first = np.ones(len(starts), dtype=np.bool_)
        first[1:] = starts[1:] >= np.maximum.accumulate(ends)[:-1]
        if first.all():
            return self.starts
        return np.concatenate([self.starts[:old], starts[np.flatnonzero(first)[np.cumsum(first) - 1]]])

    def satisfying(self) -> np.ndarray:
        """Return how many cells satisfy each predicate."""
        numbers = np.concatenate([c.signature for c in (self.cells, *self.pending)])
        return np.bincount(numbers, minlength=len(self.packed)) @ self.bitmaps().astype(np.int64)

    def settle(self) -> Cells:
        """Put everything in order, equal cells combined, and return it."""
        if not self.pending:
            return self.cells
        runs = [c for c in (self.cells, *self.pending) if len(c)]
        self.pending = []
        group = np.concatenate([c.group for c in runs])
        at = np.concatenate([c.slice for c in runs])
        signature = np.concatenate([c.signature for c in runs])
        order = order_by((group, len(self.keys)), (at, len(self.starts)), (signature, len(self.packed)))
        target = np.empty(len(order), dtype=np.int64)
        count = run_targets(order, group, at, signature, target)
        first = np.flatnonzero(np.diff(target, prepend=-1))
        parts = []
        for number, part in enumerate(self.grouping.parts):
            whole = part.concat([c.parts[number] for c in runs])
            into = part.monoid.identity(count)
            try:
                merge(part.monoid, into, target, order, whole.words)
            except AggregateError:
                into = self._merge_apart(number, count, (target, order, signature), whole.words)
            parts.append(States(into, whole.dictionary))
        leader = order[first]
        self.cells = Cells(group[leader], at[leader], signature[leader], parts)
        return self.cells

    def evict(self, watermark: int, always: bool = False) -> None:
        """Forget cells that no open window covers, once they are enough to be worth the move."""
        if not len(self.starts):
            return
        needed = self._needed(watermark)
        alive = sum(int(k.sum()) for k in needed) if needed else self.rows
        if alive == self.rows or (not always and alive >= (1 - MAX_DEAD_SHARE) * self.rows):
            return
        runs = [c.take(np.flatnonzero(k)) for c, k in zip((self.cells, *self.pending), needed)]
        live = np.zeros(len(self.starts), dtype=np.bool_)
        for cells in runs:
            live[cells.slice] = True
        new_numbers = _small(np.cumsum(live) - 1)
        for cells in runs:
            cells.slice = new_numbers[cells.slice]
        self.starts, self.ends = self.starts[live], self.ends[live]
        self.cells, self.pending = runs[0], [c for c in runs[1:] if len(c)]
        self._forget_keys()

    def _needed(self, watermark: int) -> list[np.ndarray]:
        """Return which cells an open window covers, run by run; nothing where all are."""
        # Slices that begin a longest range before the watermark are in no open window.
        longest = max(w.range for w in self.grouping.windows)
        old = int(np.searchsorted(self.starts, watermark - longest, "right"))
        live = np.zeros(len(self.starts), dtype=np.bool_)
        live[old:] = needed_at(self.grouping.windows, self.starts[old:], watermark)
        return [] if live.all() else [live[c.slice] for c in (self.cells, *self.pending)]

    def _forget_keys(self) -> None:
        """Renumber keys and signatures once most of those known are in no cell."""
        runs = (self.cells, *self.pending)
        if self.grouping.keys:
            used = np.zeros(len(self.keys), dtype=np.bool_)
            for cells in runs:
                used[cells.group] = True
            if 2 * used.sum() < len(used):
                keys = KeyIndex(self.grouping.key_types)
                numbers = keys.encode(self.keys.decode(np.flatnonzero(used)))
                # Otherwise cells would no longer be ordered by group.
                assert (np.diff(numbers) > 0).all(), "keys are numbered in order of appearance"
                new_numbers = np.zeros(len(used), dtype=np.int32)
                new_numbers[used] = numbers
                for cells in runs:
                    cells.group = new_numbers[cells.group]
                self.keys = keys
        used = np.zeros(len(self.packed), dtype=np.bool_)
        for cells in runs:
            used[cells.signature] = True
        if 2 * used.sum() < len(used):
            new_numbers = _small(np.cumsum(used) - 1)
            self.packed = {bits: int(new_numbers[n]) for bits, n in self.packed.items() if used[n]}
            for cells in runs:
                cells.signature = new_numbers[cells.signature]

    def table(self) -> pa.RecordBatch:
        """All cells as partials, the form ``absorb`` takes."""
        cells = self.settle()
        packed = pa.array(list(self.packed), pa.binary())
        columns = [
            *zip((f"key.{k}" for k in self.grouping.keys), self.keys.dictionary_columns(cells.group)),
            ("slice_start", pa.array(self.starts[cells.slice])),
            ("slice_end", pa.array(self.ends[cells.slice])),
            (
                "signature",
                pa.DictionaryArray.from_arrays(pa.array(cells.signature.astype(np.int32)), packed),
            ),
        ]
        for number, (part, states) in enumerate(zip(self.grouping.parts, cells.parts)):
            written = self._tried(number, part.columns, states)
            columns += part.columns(part.neutral(len(cells))) if written is None else written
        return pa.RecordBatch.from_arrays([a for _, a in columns], names=[n for n, _ in columns])


class CountWindowCells(GroupingState):
    """Cells cut along the numbers of a group's rows; the last one of a group tells how many there were."""

    def counts(self) -> np.ndarray:
        """Return how many rows each group has had."""
        cells = self.settle()
        counts = np.zeros(len(self.keys), dtype=np.int64)
        # Of a group's cells, which are in order, the last is assigned last. Part 0 counts rows; the first
        # slice may begin before row 0.
        counts[cells.group] = np.maximum(self.starts[cells.slice], 0) + cells.parts[0].words[:, 0]
        return counts

    def _needed(self, watermark: int) -> list[np.ndarray]:
        counts, cells = self.counts(), self.cells
        needed = last_ends(self.grouping.windows, self.starts)[cells.slice] > counts[cells.group]
        needed[np.flatnonzero(np.diff(cells.group, append=-1))] = True
        return [needed]


def _held(grouping: Grouping, predicates: int) -> GroupingState | WaitingRows:
    if grouping.axis is Axis.WAITING:
        return WaitingRows()
    return (CountWindowCells if grouping.axis is Axis.ROWS else GroupingState)(grouping, predicates)


class BucketCells:
    """The state of one bucket: what it holds of each grouping, and how far windows have been answered.

    ``counted_pieces`` is what the last step made of rows that had waited: partials that no piece brought.
    """

    def __init__(self, program: WindowProgram, bucket: int = 0) -> None:
        self.program, self.bucket = program, bucket
        self.answered: int | None = None
        self.counted_pieces: list[WindowPiece] = []
        self.groupings = [_held(g, len(program.predicates)) for g in program.groupings]

    @property
    def rows(self) -> int:
        """Return how many cells are held."""
        return sum(g.rows for g in self.groupings)

    @property
    def bytes(self) -> int:
        """Return how much memory the cells take."""
        return sum(g.bytes for g in self.groupings)

    def absorb(self, piece: WindowPiece) -> None:
        """Take in a piece of partials."""
        self.groupings[piece.grouping].absorb(piece.table)

    def advance(self, watermark: int | None) -> None:
        """Mark every window up to the watermark as answered and forget what only they needed."""
        if watermark is None:
            return
        self.answered = watermark if self.answered is None else max(self.answered, watermark)
        for grouping in self.groupings:
            grouping.evict(self.answered)

    def halves(self, buckets: int) -> list[BucketCells]:
        """Split it into the two buckets that it becomes when there are twice as many, ``buckets`` then."""
        return self.split(buckets // 2, buckets)

    def split(self, count: int, buckets: int) -> list[BucketCells]:
        """Split it, one of ``count`` buckets, into those that it becomes when there are ``buckets``.

        That is a multiple. What has no keys stays where it is. This one must not be used any more.
        """
        states = {b: BucketCells(self.program, b) for b in range(self.bucket, buckets, count)}
        for piece in self.snapshot():
            grouping, pieces = self.program.groupings[piece.grouping], [piece]
            if grouping.keys:
                keys = KeyIndex(grouping.key_types)
                group = keys.encode(piece.table.columns[: len(grouping.keys)])
                pieces = piece.by_bucket(keys, group, buckets)
            for own_piece in pieces:
                states[own_piece.bucket].absorb(own_piece)
        for state in states.values():
            state.answered = self.answered
            state.inherit(self.failed)
        return list(states.values())

    @property
    def failed(self) -> dict[Where, AggregateError]:
        """Return what has failed on the states that are held."""
        held = [
            (n, grouping) for n, grouping in enumerate(self.groupings) if isinstance(grouping, GroupingState)
        ]
        return {(n, *where): error for n, grouping in held for where, error in grouping.failed.items()}

    def inherit(self, failed: Mapping[Where, AggregateError]) -> None:
        """Remember what has failed on states that are now held here."""
        for (grouping, part, predicate), error in failed.items():
            held = self.groupings[grouping]
            if isinstance(held, GroupingState):
                held.failed[part, predicate] = error

    def snapshot(self) -> list[WindowPiece]:
        """Everything that is still needed, one piece per grouping that holds anything."""
        self.forget_dead()
        return [
            WindowPiece(self.bucket, number, grouping.table())
            for number, grouping in enumerate(self.groupings)
            if grouping.rows
        ]

    def forget_dead(self) -> None:
        """Forget all cells that no open window covers, however few."""
        if self.answered is not None:
            for grouping in self.groupings:
                grouping.evict(self.answered, always=True)


def one_piece_each(pieces: Sequence[WindowPiece], program: WindowProgram) -> list[WindowPiece]:
    """One piece per bucket and grouping; equal cells are combined where many slices are in several pieces."""
    together: dict[tuple[int, int], list[WindowPiece]] = {}
    for piece in pieces:
        together.setdefault((piece.bucket, piece.grouping), []).append(piece)
    merged: list[WindowPiece] = []
    for where, group in together.items():
        if len(group) == 1:
            merged += group
        elif not _stack(group) or _overlap(group):
            merged += merge_pieces(group, program)
        else:
            whole = pa.Table.from_batches([p.table for p in group]).unify_dictionaries().combine_chunks()
            merged.append(WindowPiece(*where, whole.to_batches()[0]))
    return merged


def _stack(pieces: Sequence[WindowPiece]) -> bool:
    """Return whether their tables can be put one after the other.

    The same column may have a dictionary here and none there, and Arrow unites none that hold a null.
    """
    columns = [c for p in pieces for c in p.table.columns if pa.types.is_dictionary(c.type)]
    nulls = any(c.dictionary.null_count for c in columns)
    return not nulls and len({p.table.schema for p in pieces}) == 1


def _overlap(pieces: Sequence[WindowPiece]) -> bool:
    """Return whether many cells are in slices that another piece has, too."""
    slices = pa.concat_tables(
        pa.Table.from_struct_array(p.table.column("slice_start").value_counts()) for p in pieces
    )
    cells = slices.group_by("values").aggregate([("counts", "sum"), ("counts", "count")])
    shared = cells.filter(pc.greater(cells["counts_count"], 1))
    return int(pc.sum(shared["counts_sum"]).as_py() or 0) > MAX_OVERLAP_SHARE * sum(
        p.table.num_rows for p in pieces
    )


def merge_pieces(pieces: Sequence[WindowPiece], program: WindowProgram) -> list[WindowPiece]:
    """One piece per bucket and grouping, equal cells combined; PartsFailed where some cannot be."""
    states: dict[int, BucketCells] = {}
    for piece in pieces:
        states.setdefault(piece.bucket, BucketCells(program, piece.bucket)).absorb(piece)
    merged = [piece for state in states.values() for piece in state.snapshot()]
    failed = {where: error for state in states.values() for where, error in state.failed.items()}
    if failed:
        raise PartsFailed(failed)
    return merged


Piece: TypeAlias = WindowPiece
State: TypeAlias = BucketCells
"""The names that modules outside of windows know them by."""
