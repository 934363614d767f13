"""``partial``: one pass over the raw rows, whatever the number of queries.

Predicates give each row its signature, its time gives it a slice, its keys a group; what shares all three
is a cell, and every part of every aggregate is kept per cell. What leaves is small: partials.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from weft.aggregates import States
from weft.aggregates.monoid import add_rows
from weft.engine.cells import number_cells, one_each
from weft.engine.due import NEVER, first_ends, last_ends
from weft.engine.keys import KeyIndex
from weft.engine.program import Axis, Grouping, Program
from weft.engine.signature import pack, signatures
from weft.engine.state import Piece
from weft.expr import Evaluator
from weft.slicing import slices_of

KEEP_ALL = np.zeros(0, dtype=np.bool_)
SANE = 1 << 61
MOST_KEYS = 1 << 20


@dataclass(frozen=True, slots=True)
class Seen:
    """What a batch held: rows, rows late for some window, without a time, values that failed; latest time."""

    rows: int = 0
    late: int = 0
    untimed: int = 0
    bad: int = 0
    max_time: int | None = None

    def __add__(self, other: Seen) -> Seen:
        times = [t for t in (self.max_time, other.max_time) if t is not None]
        return Seen(
            self.rows + other.rows,
            self.late + other.late,
            self.untimed + other.untimed,
            self.bad + other.bad,
            max(times, default=None),
        )


def partial(
    batch: pa.RecordBatch | pa.Table, program: Program, watermark: int | None, buckets: int = 1
) -> tuple[Seen, list[Piece]]:
    """Aggregate a batch's rows into partials, per bucket and grouping.

    Rows all of whose windows the watermark has closed are dropped; ``watermark`` None closes nothing.
    """
    batch = _one_chunk(batch, program)
    if not batch.num_rows:
        return Seen(), []
    times, keep = read_times(batch.column(program.time))
    evaluator = Evaluator(batch, strict=program.strict)
    signature, bitmaps = signatures(program.predicates, evaluator, batch.num_rows)
    pieces, late = [], 0
    slices: dict[Axis, Slices] = {}
    if program.windows:
        slices[Axis.TIME], late = _in_time(program, times, keep, watermark)
    if program.counts_rows:
        # A row that is late for a window in time is late here too.
        slices[Axis.WAITING], late = _one_each(times, keep, watermark)
    for number, grouping in enumerate(program.groupings):
        if grouping.axis in slices:
            cut = slices[grouping.axis]
            pieces += _aggregate(program, number, evaluator, times, cut, (signature, bitmaps), buckets)
    timed = times[keep] if keep.size else times
    seen = Seen(
        batch.num_rows,
        late,
        batch.num_rows - timed.size,
        evaluator.bad,
        int(timed.max()) if timed.size else None,
    )
    return seen, pieces


def _one_chunk(batch: pa.RecordBatch | pa.Table, program: Program) -> pa.RecordBatch:
    batch = batch.select(program.columns)
    if isinstance(batch, pa.Table):
        batch = batch.unify_dictionaries().combine_chunks()
        arrays = [c.chunk(0) if c.num_chunks else pa.array([], c.type) for c in batch.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
    return batch


def read_times(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Event times in microseconds (rounded down), and which rows have one (empty: all)."""
    if column.type.unit == "ns":
        nanoseconds = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        times = nanoseconds // 1000
    else:
        whole = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
        times = whole.fill_null(0).to_numpy(zero_copy_only=False)
    if not times.size or (not column.null_count and times.min() > -SANE and times.max() < SANE):
        return times, KEEP_ALL
    sane = (times > -SANE) & (times < SANE)
    return times, sane & column.is_valid().to_numpy(zero_copy_only=False)


Slices: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Starts and ends of slices, and the slice of each row (-1: none)."""


def _in_time(
    program: Program, times: np.ndarray, keep: np.ndarray, watermark: int | None
) -> tuple[Slices, int]:
    """Slices of time, without the rows that no open window covers, and how many rows missed a window."""
    windows, (starts, ends, at) = program.windows, slices_of(program.progressions, times, keep)
    hopping = all(w.range < w.slide for w in windows)
    old = starts.size if hopping else 0 if watermark is None else int(np.searchsorted(starts, watermark))
    if not old:
        return (starts, ends, at), 0
    until = NEVER if watermark is None else watermark
    inside = (at >= 0) & (at < old)
    missed = first_ends(windows, starts[:old]) <= until
    late = int(missed[at[inside]].sum()) if missed.any() else 0
    closed = last_ends(windows, starts[:old]) <= until
    if closed.any():
        at = np.where(inside & closed[np.where(inside, at, 0)], np.int32(-1), at)
    return (starts, ends, at), late


def _one_each(times: np.ndarray, keep: np.ndarray, watermark: int | None) -> tuple[Slices, int]:
    """A slice for each row, without those that the watermark has passed, and how many these are."""
    timed = keep if keep.size else np.ones(len(times), dtype=np.bool_)
    late = timed & (times < (NEVER if watermark is None else watermark))
    at = np.where(timed & ~late, np.arange(len(times), dtype=np.int32), np.int32(-1))
    return (times, times + 1, at), int(late.sum())


def _aggregate(
    program: Program,
    number: int,
    evaluator: Evaluator,
    times: np.ndarray,
    slices: Slices,
    signed: tuple[np.ndarray, np.ndarray],
    buckets: int,
) -> list[Piece]:
    grouping = program.groupings[number]
    (starts, ends, at), (signature, bitmaps) = slices, signed
    wanted: np.ndarray = np.any(bitmaps[:, grouping.predicates], axis=1)
    if not wanted.all():
        at = np.where(wanted[signature] if signature.size else wanted, at, np.int32(-1))
    keys = key_index(program, number)
    groups = keys.encode([evaluator.batch.column(k) for k in grouping.keys], len(times))
    if grouping.axis is Axis.WAITING:
        cells, cell_at, cell_signature, cell_group, rows = one_each(at, signature, groups)
    else:
        counts = (len(starts), len(bitmaps), len(keys))
        cells, cell_at, cell_signature, cell_group, rows = number_cells(at, signature, groups, counts)
    if not len(rows):
        return []
    packed = pa.array(pack(bitmaps), pa.binary())
    columns = [
        ("slice_start", pa.array(starts[cell_at])),
        ("slice_end", pa.array(ends[cell_at])),
        ("signature", pa.DictionaryArray.from_arrays(pa.array(cell_signature.astype(np.int32)), packed)),
    ]
    for part, needed_by in zip(grouping.parts, grouping.needed_by):
        if part.kind == "rows":
            states = States(rows.reshape(-1, 1))
        else:
            needed = _needed(at, signature, bitmaps, needed_by)
            lifted = part.lift([evaluator.evaluate(a, needed) for a in part.args], times)
            states = States(part.monoid.identity(len(rows)), lifted.dictionary)
            add_rows(part.monoid, states.words, cells, lifted.values, lifted.valid)
        columns += part.columns(states)
    return _split(grouping, number, keys, cell_group, columns, buckets)


def _needed(
    at: np.ndarray, signature: np.ndarray, bitmaps: np.ndarray, predicates: tuple[int, ...]
) -> np.ndarray | None:
    """The rows whose values some query needs (None: all), so that no other row counts as bad."""
    wanting: np.ndarray = np.any(bitmaps[:, predicates], axis=1)
    kept = at >= 0
    if not wanting.all():
        kept &= wanting[signature] if signature.size else wanting
    return None if kept.all() else kept


def _split(
    grouping: Grouping,
    number: int,
    keys: KeyIndex,
    group: np.ndarray,
    columns: list[tuple[str, pa.Array]],
    buckets: int,
) -> list[Piece]:
    """One piece per bucket that has a cell."""
    named = [f"key.{k}" for k in grouping.keys]
    whole = pa.RecordBatch.from_arrays(
        [*keys.dictionary_columns(group), *(array for _, array in columns)],
        names=[*named, *(name for name, _ in columns)],
    )
    if not grouping.keys:
        return [Piece(bucket, number, whole) for bucket in grouping.buckets]
    if buckets == 1:
        return [Piece(0, number, whole)]
    bucket = keys.buckets(buckets)[group]
    order = np.argsort(bucket, kind="stable")
    bounds = np.searchsorted(bucket[order], np.arange(buckets + 1))
    whole = whole.take(pa.array(order))
    return [
        Piece(b, number, whole.slice(low, high - low))
        for b, (low, high) in enumerate(pairwise(bounds))
        if high > low
    ]


_known = threading.local()


def key_index(program: Program, number: int) -> KeyIndex:
    """This thread's index of the grouping's keys: dictionary codes are kept from batch to batch."""
    grouping = program.groupings[number]
    name = (grouping.keys, grouping.key_types)
    known: dict[tuple[tuple[str, ...], tuple[pa.DataType, ...]], KeyIndex] = _known.__dict__.setdefault(
        "keys", {}
    )
    index = known.get(name)
    if index is None or len(index) > MOST_KEYS:
        if len(known) > 64:
            known.clear()
        index = known[name] = KeyIndex(grouping.key_types)
    return index
