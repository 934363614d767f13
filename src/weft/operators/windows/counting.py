"""Windows counted in rows: rows that the watermark has passed get their numbers, and become slices of rows.

The numbers of a group's rows go on from step to step, for each predicate of their own; slices are then cut
over them as they are over time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numba import njit

from weft.operators.predicates.signature import pack, unpack
from weft.operators.times import ALL_ROWS
from weft.operators.windows.pieces import WindowPiece
from weft.operators.windows.program import WindowProgram
from weft.operators.windows.state import BucketCells, CountWindowCells
from weft.operators.windows.waiting import WaitingRows
from weft.slicing import slices_of


def count_rows(
    state: BucketCells, watermark: int, program: WindowProgram
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Count the rows that the watermark has passed: how many each group had and now has, by grouping.

    What was made of them is in the state, and in ``state.counted_pieces`` for the slice store.
    """
    counted: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    state.counted_pieces = []
    for number, waiting in enumerate(state.groupings):
        if not isinstance(waiting, WaitingRows) or not waiting.rows:
            continue
        released = waiting.release(watermark)
        if not released.num_rows:
            continue
        met = _bitmaps(released, len(program.predicates))
        times = released.column("slice_start").to_numpy(zero_copy_only=False)
        for counting, grouping in enumerate(program.groupings):
            if grouping.fed_by != number or (grouping.buckets and state.bucket not in grouping.buckets):
                continue
            rows = np.flatnonzero(met(grouping.predicates[0]) & (times >= grouping.since))
            if len(rows):
                piece, counted[counting] = _count(program, counting, state, released.take(pa.array(rows)))
                state.absorb(piece)
                state.counted_pieces.append(piece)
    return counted


def _bitmaps(released: pa.RecordBatch, predicates: int) -> Callable[[int], np.ndarray]:
    """Return a function that gives the rows which satisfy a predicate."""
    encoded = released.column("signature").dictionary_encode()
    bitmaps = unpack(encoded.dictionary.to_pylist(), predicates)
    numbers = encoded.indices.to_numpy(zero_copy_only=False)
    return lambda predicate: bitmaps[:, predicate][numbers]


def _count(
    program: WindowProgram, number: int, state: BucketCells, rows: pa.RecordBatch
) -> tuple[WindowPiece, tuple[np.ndarray, np.ndarray]]:
    """The rows as slices of rows, and how many rows each group had before and has with them."""
    grouping, counted = program.groupings[number], state.groupings[number]
    assert isinstance(counted, CountWindowCells)
    keys = rows.columns[: len(grouping.keys)]
    group = counted.keys.encode(keys, rows.num_rows)
    before = counted.counts()
    after, position = before.copy(), np.empty(rows.num_rows, dtype=np.int64)
    _number(group, after, position)
    starts, ends, at = slices_of(grouping.progressions, position, ALL_ROWS)
    bitmap = np.zeros((1, len(program.predicates)), dtype=np.bool_)
    bitmap[0, grouping.predicates[0]] = True
    signature = pa.DictionaryArray.from_arrays(
        np.zeros(rows.num_rows, dtype=np.int32), pa.array(pack(bitmap), pa.binary())
    )
    parts = [(name, rows.column(name)) for part in grouping.parts for name in part.column_names]
    columns = [
        *zip((f"key.{k}" for k in grouping.keys), keys),
        ("slice_start", pa.array(starts[at])),
        ("slice_end", pa.array(ends[at])),
        ("signature", signature),
        *parts,
    ]
    fresh = CountWindowCells(grouping, len(program.predicates))
    fresh.absorb(pa.RecordBatch.from_arrays([a for _, a in columns], names=[n for n, _ in columns]))
    piece = WindowPiece(state.bucket, number, fresh.table())
    state.inherit({(number, *where): error for where, error in fresh.failed.items()})
    return piece, (before, after)


@njit(cache=True, nogil=True)
def _number(group, counts, position):  # type: ignore[no-untyped-def]
    """position[i] := how many rows of its group came before row i; counts has those of earlier steps."""
    for i in range(group.size):
        position[i] = counts[group[i]]
        counts[group[i]] += 1
