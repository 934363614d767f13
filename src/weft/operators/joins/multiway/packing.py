"""Joined rows as Arrow batches, for files and for the way to other nodes; their bitmaps are those of the
queries in their order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from weft.operators.joins.multiway.bitmaps import pack, unpack
from weft.operators.joins.multiway.tuples import Tuples
from weft.operators.joins.rows import from_arrow, to_arrow

TUPLE_COLUMNS = ("_time", "_parts", "_words")
"""The columns of a batch of joined rows that are not of the streams."""


def pack_tuples(tuples: Tuples) -> pa.RecordBatch:
    """Joined rows as one batch.

    >>> table = pa.record_batch({"a.x": [7]})
    >>> one = Tuples(np.array([5]), np.array([[5, 3]]), np.array([[1]], np.uint64), table)
    >>> again = unpack_tuples(pack_tuples(one))
    >>> again.parts.tolist(), again.words.tolist(), again.table.column("a.x").to_pylist()
    ([[5, 3]], [[1]], [7])
    """
    batch = tuples.table
    for name, array in zip(TUPLE_COLUMNS, (tuples.times, tuples.parts, tuples.words)):
        batch = batch.append_column(name, to_arrow(array))
    return batch


def unpack_tuples(batch: pa.RecordBatch) -> Tuples:
    """The joined rows behind ``pack_tuples``."""
    times, parts, words = (from_arrow(batch.column(name)) for name in TUPLE_COLUMNS)
    return Tuples(
        times, parts, words, batch.select([n for n in batch.schema.names if n not in TUPLE_COLUMNS])
    )


def carried_words(words: np.ndarray, queries: int, places: np.ndarray) -> np.ndarray:
    """Bitmaps of ``queries`` queries as those of others: where each is taken from, -1: from nowhere."""
    bits = np.column_stack([unpack(words, queries), np.zeros(len(words), np.bool_)])
    return pack(bits[:, places])
