"""``partial``: one pass over the raw rows, whatever the number of queries.

Predicates give each row its signature, its time gives it a slice, its keys a group; what shares all three
is a cell, and every part of every aggregate is kept per cell. What leaves is small: partials.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from functools import partial as partial_of

import numpy as np
import pyarrow as pa

from weft.aggregates import Part
from weft.engine.blame import Failed, attempted, needing
from weft.engine.due import NEVER, first_ends, last_ends
from weft.engine.enrich import NO_TABLES, Enrichment
from weft.engine.keys import KeyIndex
from weft.engine.late import late_rows
from weft.engine.program import Axis, Program
from weft.engine.shards import Shards, Signed, projected, shards_of, unshared
from weft.engine.sharing import Choice, alone, together, union_keys, union_parts, worth_spreading
from weft.engine.signature import pack, signatures
from weft.engine.spread import Slices
from weft.engine.state import Piece
from weft.engine.watermark import later, latest_times
from weft.expr import Evaluator
from weft.files.chunk import END
from weft.slicing import slices_of

KEEP_ALL = NONE = np.zeros(0, dtype=np.bool_)
"""Masks of rows: that all are kept, that none is meant."""
SANE = 1 << 61
MOST_KEYS = 1 << 20


@dataclass(frozen=True, slots=True)
class Seen:
    """Counts of the rows of some batches: all, late for some window, without a time, values that failed,
    rows further ahead of the clock than is believed.

    ``max_time`` is the latest time but for those ahead, whose latest is ``ahead_time``; ``latest`` has it by
    partition.
    """

    rows: int = 0
    late: int = 0
    untimed: int = 0
    bad: int = 0
    max_time: int | None = None
    ahead: int = 0
    ahead_time: int | None = None
    latest: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Seen) -> Seen:
        return Seen(
            self.rows + other.rows,
            self.late + other.late,
            self.untimed + other.untimed,
            self.bad + other.bad,
            _latest(self.max_time, other.max_time),
            self.ahead + other.ahead,
            _latest(self.ahead_time, other.ahead_time),
            later(self.latest, other.latest),
        )


def _latest(*times: int | None) -> int | None:
    return max((time for time in times if time is not None), default=None)


@dataclass(frozen=True, slots=True)
class Partials:
    """What became of a batch: what it held, its partials by bucket and grouping, what was shared, and, where
    asked for, its late rows."""

    seen: Seen = Seen()
    pieces: list[Piece] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    late: pa.Table | None = None


def partial(
    batch: pa.RecordBatch | pa.Table,
    program: Program,
    watermark: int | None,
    buckets: int = 1,
    enrichment: Enrichment = NO_TABLES,
    keep_late: bool = False,
    limit: int | None = None,
    origins: Sequence[tuple[str, int]] = (),
    failed: Failed | None = None,
) -> Partials:
    """Aggregate a batch's rows into partials.

    Rows all of whose windows the watermark has closed are dropped; ``watermark`` None closes nothing.
    ``enrichment`` has the tables that the program's queries join. ``keep_late`` gives the rows that missed
    a window, those without a time, and those after the ``limit``, which count in their windows but are not
    believed. ``origins`` says of which partition how many rows, one after the other, are. To ``failed``,
    where given, queries that cannot be answered over these rows are added, with why: they have to leave, and
    the partials are then to be made anew.
    """
    rows = batch = _one_chunk(batch, program)
    made, missed, uncounted = Partials(), NONE, NONE
    if not batch.num_rows:
        return made
    batch, bad_keys = enrichment.extend(batch, program.strict, program.zone)
    times, keep = read_times(batch.column(program.time))
    evaluator = Evaluator(batch, strict=program.strict, zone=program.zone)
    signed = signatures(program.predicates, evaluator, batch.num_rows)
    if program.windows:
        slices, missed = _in_time(program, times, keep, watermark)
        with _blaming(program, Signed(evaluator, times, *slices, *signed), failed) as in_time:
            _share(program, in_time, buckets, made)
    if program.counts_rows:
        # A row that is late for a window in time is late here too.
        slices, uncounted = _one_each(times, keep, watermark)
        with _blaming(program, Signed(evaluator, times, *slices, *signed, each=True), failed) as counted:
            _line_up(program, counted, buckets, made)
    timed = times[keep] if keep.size else times
    late = int(np.count_nonzero(uncounted if program.counts_rows else missed))
    untimed = batch.num_rows - timed.size
    latest = latest_times(times, keep, origins, limit)
    ahead = NONE
    if limit is not None and timed.size and timed.max() > limit:
        ahead = times > limit if not keep.size else keep & (times > limit)
    seen = Seen(
        batch.num_rows,
        late,
        untimed,
        evaluator.bad + bad_keys,
        max(latest.values(), default=None),
        int(np.count_nonzero(ahead)),
        int(times[ahead].max()) if ahead.size else None,
        latest,
    )
    if keep_late and late + untimed + seen.ahead:
        masks = (~keep, missed, uncounted, ahead)
        all = tuple(mask if mask.size else np.zeros(len(times), dtype=np.bool_) for mask in masks)
        return replace(made, seen=seen, late=late_rows(rows, program, times, all, watermark))
    return replace(made, seen=seen)


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


def least_time(table: pa.Table, time: str) -> int | None:
    """The least event time of a table's rows in microseconds, END where none has one.

    None where the column is not there, or not of times; that is said when the rows are taken in.

    >>> least_time(pa.table({"ts": pa.array([7, None, 5], pa.timestamp("us"))}), "ts")
    5
    """
    if time not in table.column_names or not pa.types.is_timestamp(table.schema.field(time).type):
        return None
    least = END
    for chunk in table.column(time).chunks:
        times, usable = read_times(chunk)
        if usable.size:
            times = times[usable]
        least = min(least, int(times.min(initial=END)))
    return least


def _in_time(
    program: Program, times: np.ndarray, keep: np.ndarray, watermark: int | None
) -> tuple[Slices, np.ndarray]:
    """Slices of time, without the rows that no open window covers, and which rows missed a window."""
    windows, (starts, ends, at) = program.windows, slices_of(program.progressions, times, keep)
    hopping = all(w.range < w.slide for w in windows)
    old = starts.size if hopping else 0 if watermark is None else int(np.searchsorted(starts, watermark))
    if not old:
        return (starts, ends, at), NONE
    until = NEVER if watermark is None else watermark
    inside = (at >= 0) & (at < old)
    missed = first_ends(windows, starts[:old]) <= until
    late = inside & missed[np.where(inside, at, 0)] if missed.any() else NONE
    closed = last_ends(windows, starts[:old]) <= until
    if closed.any():
        at = np.where(inside & closed[np.where(inside, at, 0)], np.int32(-1), at)
    return (starts, ends, at), late


def _one_each(times: np.ndarray, keep: np.ndarray, watermark: int | None) -> tuple[Slices, np.ndarray]:
    """A slice for each row, without those that the watermark has passed, and which these are."""
    timed = keep if keep.size else np.ones(len(times), dtype=np.bool_)
    late = timed & (times < (NEVER if watermark is None else watermark))
    at = np.where(timed & ~late, np.arange(len(times), dtype=np.int32), np.int32(-1))
    return (times, times + 1, at), late


@contextmanager
def _blaming(program: Program, rows: Signed, failed: Failed | None) -> Iterator[Signed]:
    """In the block, an error is added to ``failed`` for each query that it comes from; what is no query's own
    is raised."""
    try:
        yield rows
    except MemoryError:
        raise
    except Exception:
        guilty = {} if failed is None else needing(program, _failing(program, rows))
        if failed is None or not guilty:
            raise
        failed |= guilty


def _failing(program: Program, rows: Signed) -> dict[tuple[Part, int], Exception]:
    """The parts that fail over the rows that satisfy a predicate, each tried for itself."""
    errors: dict[tuple[Part, int], Exception] = {}
    for grouping in program.groupings:
        if grouping.axis is (Axis.WAITING if rows.each else Axis.TIME):
            groups = _groups(key_index(grouping.keys, grouping.key_types), grouping.keys, rows)
            for part, predicates in grouping.needs.items():
                for predicate in predicates:
                    error = attempted(partial_of(_try, rows.of([predicate]), groups, part, predicate))
                    if error is not None:
                        errors[part, predicate] = error
    return errors


def _try(rows: Signed, groups: np.ndarray, part: Part, predicate: int) -> None:
    part.columns(shards_of(rows, groups, {part: (predicate,)}).states[part])


def _share(program: Program, rows: Signed, buckets: int, made: Partials) -> None:
    """Partials for the windows in time, made in the cheapest way for these rows."""
    shared: dict[int, list[int]] = {}
    for number, grouping in enumerate(program.groupings):
        shared[number] = list(grouping.predicates)
        if grouping.axis is not Axis.TIME:
            continue
        keys = key_index(grouping.keys, grouping.key_types)
        groups = cache(partial_of(_groups, keys, grouping.keys, rows))
        for places, predicates, choice in alone(program, number, rows, groups):
            mine = rows.of(predicates)
            shards = unshared(mine, groups(), grouping.needs, places, predicates)
            made.pieces.extend(_split(program, number, keys, shards, buckets))
            made.choices.append(replace(choice, partials=len(shards)))
            shared[number] = [p for p in shared[number] if p not in predicates]
    for numbers in together(program, rows):
        left = {n: shared[n] for n in numbers if shared[n]}
        if left:
            _share_together(program, rows, left, buckets, made)


def _share_together(
    program: Program, rows: Signed, shared: dict[int, list[int]], buckets: int, made: Partials
) -> None:
    """Partials of groupings, with their predicates, from rows grouped by all their keys."""
    names, types = union_keys(program, shared)
    rows, keys = rows.of({p for predicates in shared.values() for p in predicates}), key_index(names, types)
    whole, rows_of = shards_of(rows, _groups(keys, names, rows), union_parts(program, shared)), rows.rows_of()
    for number, predicates in shared.items():
        grouping, mine, shards = program.groupings[number], keys, whole
        if len(shared) > 1:
            mine = key_index(grouping.keys, grouping.key_types)
            coarser = mine.encode_from(keys, [names.index(k) for k in grouping.keys], whole.group)
            shards = whole.regrouped(coarser, grouping.parts, predicates)
        count, how = len(shards), "shared"
        places = worth_spreading(program, number, predicates, shards)
        if places is not None:
            shards, how = shards.spread(places, predicates), "spread"
        made.pieces.extend(_split(program, number, mine, shards, buckets))
        satisfied = rows.bitmaps[:, predicates].sum(axis=1)
        made.choices.append(
            Choice(
                grouping.keys,
                how,
                len(predicates),
                int(rows_of[satisfied > 0].sum()),
                int(rows_of @ satisfied),
                int(np.any(projected(rows.bitmaps, predicates)[0], axis=1).sum()),
                count,
                len(shards),
                names if len(shared) > 1 else (),
            )
        )


def _line_up(program: Program, rows: Signed, buckets: int, made: Partials) -> None:
    """A partial for each row that has to wait for its number."""
    for number, grouping in enumerate(program.groupings):
        if grouping.axis is Axis.WAITING:
            mine, keys = rows.of(grouping.predicates), key_index(grouping.keys, grouping.key_types)
            shards = shards_of(mine, _groups(keys, grouping.keys, mine), grouping.needs)
            made.pieces.extend(_split(program, number, keys, shards, buckets))


def _groups(keys: KeyIndex, names: Sequence[str], rows: Signed) -> np.ndarray:
    return keys.encode([rows.evaluator.batch.column(name) for name in names], len(rows.times))


def _split(program: Program, number: int, keys: KeyIndex, shards: Shards, buckets: int) -> list[Piece]:
    """One piece per bucket that has a partial."""
    if not len(shards):
        return []
    grouping = program.groupings[number]
    packed = pa.array(pack(shards.bitmaps), pa.binary())
    columns = [
        *zip((f"key.{k}" for k in grouping.keys), keys.dictionary_columns(shards.group)),
        ("slice_start", pa.array(shards.starts[shards.at])),
        ("slice_end", pa.array(shards.ends[shards.at])),
        ("signature", pa.DictionaryArray.from_arrays(pa.array(shards.signature.astype(np.int32)), packed)),
    ]
    for part in grouping.parts:
        columns += part.columns(shards.states[part])
    whole = pa.RecordBatch.from_arrays([a for _, a in columns], names=[name for name, _ in columns])
    if not grouping.keys:
        return [Piece(bucket, number, whole) for bucket in grouping.buckets]
    if buckets == 1:
        return [Piece(0, number, whole)]
    return Piece(0, number, whole).by_bucket(keys, shards.group, buckets)


_known = threading.local()


def key_index(names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> KeyIndex:
    """This thread's index of the values of these columns: codes are kept from batch to batch."""
    known: dict[tuple[tuple[str, ...], tuple[pa.DataType, ...]], KeyIndex] = _known.__dict__.setdefault(
        "keys", {}
    )
    index = known.get((names, types))
    if index is None or len(index) > MOST_KEYS:
        if len(known) > 64:
            known.clear()
        index = known[names, types] = KeyIndex(types)
    return index
