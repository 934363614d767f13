"""Rows and waiting pairs of a chain as Arrow batches, for files and for the way to another process.

A chain numbers signatures as they come, so that numbers mean nothing elsewhere: here a signature is its bits,
one per query.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from weft.joins.lines import Move
from weft.joins.rows import Rows
from weft.joins.signs import Signs
from weft.joins.union import Pairs


def pack_rows(rows: Rows, signs: Signs) -> pa.RecordBatch:
    """Rows of one side.

    >>> signs, other = Signs(2), Signs(2)
    >>> _ = signs.number(np.array([[True, True], [False, True]]))
    >>> rows = Rows(np.array([5]), np.array([1]), np.array([7]), pa.record_batch({"x": ["a"]}))
    >>> again = unpack_rows(pack_rows(rows, signs), other, pa.schema({"x": pa.string()}))
    >>> again.times.tolist(), again.signs.tolist(), other.bits.tolist(), again.table.column("x").to_pylist()
    ([5], [1], [[True, True], [False, True]], ['a'])
    """
    batch = rows.to_batch()
    return batch.set_column(batch.schema.get_field_index("_sign"), "_sign", _bits(rows.signs, signs))


def unpack_rows(batch: pa.RecordBatch, signs: Signs, schema: pa.Schema, move: Move | None = None) -> Rows:
    """The rows behind ``pack_rows``, of columns of this schema; ``move`` where they are of other queries."""
    place = batch.schema.get_field_index("_sign")
    numbers = pa.array(_numbers(batch.column(place), signs, move))
    rows = Rows.from_batch(batch.set_column(place, "_sign", numbers))
    return Rows(rows.times, rows.signs, rows.values, typed(rows.table, schema))


def pack_pairs(pairs: Pairs, signs: list[Signs]) -> pa.RecordBatch:
    """Waiting pairs."""
    own = {"_time": pa.array(pairs.times), "_place": pa.array(pairs.places), "_later": pa.array(pairs.later)}
    own |= {f"_sign{side}": _bits(pairs.signs[side], signs[side]) for side in range(2)}
    batch = pairs.table
    for name, array in own.items():
        batch = batch.append_column(name, array)
    return batch


def unpack_pairs(
    batch: pa.RecordBatch, signs: list[Signs], schema: pa.Schema, move: Move | None = None
) -> Pairs:
    """The pairs behind ``pack_pairs``; ``schema`` has the columns of joined rows, and maybe more."""
    times, places, later = (batch.column(name).to_numpy() for name in ("_time", "_place", "_later"))
    own = ("_time", "_place", "_later", "_sign0", "_sign1")
    table = batch.select([n for n in batch.schema.names if n not in own])
    numbers = [_numbers(batch.column(f"_sign{side}"), signs[side], move) for side in range(2)]
    return Pairs(times, places, (numbers[0], numbers[1]), later, typed(table, schema))


def _bits(numbers: np.ndarray, signs: Signs) -> pa.Array:
    """The bits of signatures; a dictionary, since there are few of them."""
    packed = [row.tobytes() for row in np.packbits(signs.bits, axis=1)]
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), pa.array(packed, pa.binary()))


def _numbers(bits: pa.Array, signs: Signs, move: Move | None) -> np.ndarray:
    encoded = bits if isinstance(bits, pa.DictionaryArray) else bits.dictionary_encode()
    packed = [np.frombuffer(word, np.uint8) for word in encoded.dictionary.to_pylist()]
    queries = move.queries if move else signs.bits.shape[1]
    found = np.array([np.unpackbits(p, count=queries) for p in packed]).astype(np.bool_)
    known = signs.number(move.bits(found) if move else found)
    return known[encoded.indices.to_numpy()]


def typed(table: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The types that files may have changed (seconds become milliseconds), of the columns that are known."""
    wanted = pa.schema([schema.field(n) for n in table.schema.names if n in schema.names])
    if not wanted.names or table.schema.equals(wanted):
        return table
    return table.select(wanted.names).cast(wanted)
