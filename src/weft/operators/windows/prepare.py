"""``partial``: one pass over the raw rows, whatever the number of queries.

Predicates give each row its signature, its time gives it a slice, its keys a group; what shares all three
is a cell, and every part of every aggregate is kept per cell. What leaves is small: partials.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from functools import partial as partial_of

import numpy as np
import pyarrow as pa

from weft.aggregates import Part
from weft.expr.evaluate import Evaluator
from weft.io.files.chunk import Origins
from weft.model.instants import BEGINNING_OF_TIME
from weft.operators.blame import Failed, attempted, needing
from weft.operators.contract import ArrivedRows, Missed
from weft.operators.keys import KeyIndex
from weft.operators.late import late_table
from weft.operators.lookups.index import NO_LOOKUPS, Lookups
from weft.operators.predicates.signature import pack, signatures
from weft.operators.times import Seen, one_batch, read_times
from weft.operators.watermark import latest_times
from weft.operators.windows.due import first_ends, last_ends
from weft.operators.windows.missed import MissedMasks, missed_rows
from weft.operators.windows.pieces import WindowPiece
from weft.operators.windows.program import Axis, WindowProgram
from weft.operators.windows.shards import Shards, SignedRows, projected, shards_of, unshared
from weft.operators.windows.sharing import (
    SharingChoice,
    choose_united_keys,
    choose_unshared,
    union_keys,
    union_parts,
    worth_spreading,
)
from weft.operators.windows.spread import Slices
from weft.slicing import slices_of

MAX_KEYS_PER_INDEX = 1 << 20
MAX_INDEXES_PER_THREAD = 64


NO_ROWS = np.zeros(0, dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class Partials:
    """Result of one batch: its counts, its partials by bucket and grouping, what was shared, a mask of its
    late rows (empty: none was), and, where asked for, the rows that missed a window, also as a table."""

    seen: Seen = field(default_factory=Seen)
    pieces: list[WindowPiece] = field(default_factory=list)
    choices: list[SharingChoice] = field(default_factory=list)
    late_mask: np.ndarray = field(default_factory=lambda: NO_ROWS)
    missed: Missed | None = None
    late: pa.Table | None = None


def partial(  # noqa: PLR0913  (choices of their own, given by keyword)
    batch: pa.RecordBatch | pa.Table,
    program: WindowProgram,
    watermark: int | None,
    buckets: int = 1,
    lookups: Lookups = NO_LOOKUPS,
    keep_late: bool = False,
    limit: int | None = None,
    origins: Origins = (),
    failed: Failed | None = None,
) -> Partials:
    """Aggregate a batch's rows into partials, as ``partials_of``; late rows are kept as a table."""
    rows = ArrivedRows(batch, limit, origins, lookups)
    partials = partials_of(rows, program, watermark, buckets, keep_late, failed)
    if partials.missed is None:
        return partials
    late = late_table(batch.select(program.columns), program.schema, partials.missed, watermark)
    return replace(partials, late=late)


def partials_of(
    arrival: ArrivedRows,
    program: WindowProgram,
    watermark: int | None,
    buckets: int = 1,
    keep_missed: bool = False,
    failed: Failed | None = None,
) -> Partials:
    """Aggregate rows into partials.

    Rows all of whose windows the watermark has closed are dropped; ``watermark`` None closes nothing.
    ``keep_missed`` says which rows missed a window, have no time, or are ahead of the clock: these count in
    their windows but are not believed. To ``failed``, where given, queries that cannot be answered over these
    rows are added, with why: they have to leave, and the partials are then to be made anew.
    """
    batch, limit = _one_chunk(arrival.table, program), arrival.limit
    partials = Partials()
    missed: np.ndarray | None = None
    uncounted: np.ndarray | None = None
    if not batch.num_rows:
        return partials
    batch, bad_keys = arrival.lookups.extend(batch, program.strict, program.zone)
    times, keep = read_times(batch.column(program.time))
    evaluator = Evaluator(batch, strict=program.strict, zone=program.zone)
    signed = signatures(program.predicates, evaluator, batch.num_rows)
    if program.windows:
        slices, missed = _in_time(program, times, keep, watermark)
        with _blaming(program, SignedRows(evaluator, times, *slices, *signed), failed) as in_time:
            _share(program, in_time, buckets, partials)
    if program.counts_rows:
        # A row that is late for a window in time is late here too.
        slices, uncounted = _one_each(times, keep, watermark)
        with _blaming(
            program, SignedRows(evaluator, times, *slices, *signed, one_cell_each=True), failed
        ) as counted:
            _line_up(program, counted, buckets, partials)
    timed = times[keep] if keep.size else times
    late = uncounted if program.counts_rows else missed
    latest = latest_times(times, keep, arrival.origins, limit)
    ahead = None
    if limit is not None and timed.size and timed.max() > limit:
        ahead = times > limit if not keep.size else keep & (times > limit)
    seen = Seen(
        batch.num_rows,
        _count(late),
        batch.num_rows - timed.size,
        evaluator.bad + bad_keys,
        max(latest.values(), default=None),
        _count(ahead),
        None if ahead is None else int(times[ahead].max()),
        latest,
    )
    partials = replace(partials, seen=seen, late_mask=late if late is not None and seen.late else NO_ROWS)
    if keep_missed and seen.late + seen.untimed + seen.ahead:
        masks = MissedMasks(~keep if keep.size else None, missed, uncounted, ahead)
        return replace(partials, missed=missed_rows(program.windows, times, masks, watermark))
    return partials


def _count(mask: np.ndarray | None) -> int:
    """Return the number of rows of a mask; None: no row."""
    return 0 if mask is None else int(np.count_nonzero(mask))


def _one_chunk(batch: pa.RecordBatch | pa.Table, program: WindowProgram) -> pa.RecordBatch:
    batch = batch.select(program.columns)
    return one_batch(batch) if isinstance(batch, pa.Table) else batch


def _in_time(
    program: WindowProgram, times: np.ndarray, keep: np.ndarray, watermark: int | None
) -> tuple[Slices, np.ndarray | None]:
    """Return slices of time, without the rows that no open window covers, and which rows missed a window."""
    windows, (starts, ends, at) = program.windows, slices_of(program.progressions, times, keep)
    hopping = all(w.range < w.slide for w in windows)
    old = starts.size if hopping else 0 if watermark is None else int(np.searchsorted(starts, watermark))
    if not old:
        return (starts, ends, at), None
    until = BEGINNING_OF_TIME if watermark is None else watermark
    inside = (at >= 0) & (at < old)
    missed = first_ends(windows, starts[:old]) <= until
    late = inside & missed[np.where(inside, at, 0)] if missed.any() else None
    closed = last_ends(windows, starts[:old]) <= until
    if closed.any():
        at = np.where(inside & closed[np.where(inside, at, 0)], np.int32(-1), at)
    return (starts, ends, at), late


def _one_each(times: np.ndarray, keep: np.ndarray, watermark: int | None) -> tuple[Slices, np.ndarray]:
    """A slice for each row, without those that the watermark has passed, and which these are."""
    timed = keep if keep.size else np.ones(len(times), dtype=np.bool_)
    late = timed & (times < (BEGINNING_OF_TIME if watermark is None else watermark))
    at = np.where(timed & ~late, np.arange(len(times), dtype=np.int32), np.int32(-1))
    return (times, times + 1, at), late


@contextmanager
def _blaming(program: WindowProgram, rows: SignedRows, failed: Failed | None) -> Iterator[SignedRows]:
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


def _failing(program: WindowProgram, rows: SignedRows) -> dict[tuple[Part, int], Exception]:
    """The parts that fail over the rows that satisfy a predicate, each tried for itself."""
    errors: dict[tuple[Part, int], Exception] = {}
    for grouping in program.groupings:
        if grouping.axis is (Axis.WAITING if rows.one_cell_each else Axis.TIME):
            groups = _groups(key_index(grouping.keys, grouping.key_types), grouping.keys, rows)
            for part, predicates in grouping.needs.items():
                for predicate in predicates:
                    error = attempted(partial_of(_try, rows.of([predicate]), groups, part, predicate))
                    if error is not None:
                        errors[part, predicate] = error
    return errors


def _try(rows: SignedRows, groups: np.ndarray, part: Part, predicate: int) -> None:
    part.columns(shards_of(rows, groups, {part: (predicate,)}).states[part])


def _share(program: WindowProgram, rows: SignedRows, buckets: int, partials: Partials) -> None:
    """Partials for the windows in time, made in the cheapest way for these rows."""
    shared: dict[int, list[int]] = {}
    for number, grouping in enumerate(program.groupings):
        shared[number] = list(grouping.predicates)
        if grouping.axis is not Axis.TIME:
            continue
        keys = key_index(grouping.keys, grouping.key_types)
        groups = cache(partial_of(_groups, keys, grouping.keys, rows))
        for places, predicates, choice in choose_unshared(program, number, rows, groups):
            own_rows = rows.of(predicates)
            shards = unshared(own_rows, groups(), grouping.needs, places, predicates)
            partials.pieces.extend(_split(program, number, keys, shards, buckets))
            partials.choices.append(replace(choice, partials=len(shards)))
            shared[number] = [p for p in shared[number] if p not in predicates]
    for numbers in choose_united_keys(program, rows):
        left = {n: shared[n] for n in numbers if shared[n]}
        if left:
            _share_together(program, rows, left, buckets, partials)


def _share_together(
    program: WindowProgram, rows: SignedRows, shared: dict[int, list[int]], buckets: int, partials: Partials
) -> None:
    """Partials of groupings, with their predicates, from rows grouped by all their keys."""
    names, types = union_keys(program, shared)
    rows, keys = rows.of({p for predicates in shared.values() for p in predicates}), key_index(names, types)
    all_shards = shards_of(rows, _groups(keys, names, rows), union_parts(program, shared))
    rows_of = rows.rows_of()
    for number, predicates in shared.items():
        grouping, own_keys, shards = program.groupings[number], keys, all_shards
        if len(shared) > 1:
            own_keys = key_index(grouping.keys, grouping.key_types)
            coarser = own_keys.encode_from(keys, [names.index(k) for k in grouping.keys], all_shards.group)
            shards = all_shards.regrouped(coarser, grouping.parts, predicates)
        count, how = len(shards), "shared"
        places = worth_spreading(program, number, predicates, shards)
        if places is not None:
            shards, how = shards.spread(places, predicates), "spread"
        partials.pieces.extend(_split(program, number, own_keys, shards, buckets))
        satisfied = rows.bitmaps[:, predicates].sum(axis=1)
        partials.choices.append(
            SharingChoice(
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


def _line_up(program: WindowProgram, rows: SignedRows, buckets: int, partials: Partials) -> None:
    """A partial for each row that has to wait for its number."""
    for number, grouping in enumerate(program.groupings):
        if grouping.axis is Axis.WAITING:
            own_rows, keys = rows.of(grouping.predicates), key_index(grouping.keys, grouping.key_types)
            shards = shards_of(own_rows, _groups(keys, grouping.keys, own_rows), grouping.needs)
            partials.pieces.extend(_split(program, number, keys, shards, buckets))


def _groups(keys: KeyIndex, names: Sequence[str], rows: SignedRows) -> np.ndarray:
    return keys.encode([rows.evaluator.batch.column(name) for name in names], len(rows.times))


def _split(
    program: WindowProgram, number: int, keys: KeyIndex, shards: Shards, buckets: int
) -> list[WindowPiece]:
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
        return [WindowPiece(bucket, number, whole) for bucket in grouping.buckets]
    if buckets == 1:
        return [WindowPiece(0, number, whole)]
    return WindowPiece(0, number, whole).by_bucket(keys, shards.group, buckets)


_thread = threading.local()


def key_index(names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> KeyIndex:
    """Return this thread's index of the values of these columns: codes are kept from batch to batch."""
    indexes: dict[tuple[tuple[str, ...], tuple[pa.DataType, ...]], KeyIndex] = _thread.__dict__.setdefault(
        "keys", {}
    )
    index = indexes.get((names, types))
    if index is None or len(index) > MAX_KEYS_PER_INDEX:
        if len(indexes) > MAX_INDEXES_PER_THREAD:
            indexes.clear()
        index = indexes[names, types] = KeyIndex(types)
    return index
