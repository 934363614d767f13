"""Rows and waiting pairs of a chain as Arrow batches, for files and for the way to another process.

A chain numbers signatures as they come, so that numbers mean nothing elsewhere: here a signature is its bits,
one per query.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from weft.operators.joins.lineage import BitCarryOver
from weft.operators.joins.rows import JoinRows
from weft.operators.joins.signatures import Signatures
from weft.operators.joins.union import Pairs


def pack_rows(rows: JoinRows, bits: np.ndarray) -> pa.RecordBatch:
    """Rows of one side, whose signatures are numbers of rows of ``bits``.

    >>> signatures, other = Signatures(2), Signatures(2)
    >>> _ = signatures.number(np.array([[True, True], [False, True]]))
    >>> rows = JoinRows(np.array([5]), np.array([1]), np.array([7]), pa.record_batch({"x": ["a"]}))
    >>> again = unpack_rows(pack_rows(rows, signatures.bits), other, pa.schema({"x": pa.string()}))
    >>> again.times.tolist(), again.signatures.tolist(), again.table.column("x").to_pylist()
    ([5], [1], ['a'])
    >>> other.bits.tolist()
    [[True, True], [False, True]]
    """
    batch = rows.to_batch()
    return batch.set_column(batch.schema.get_field_index("_sign"), "_sign", _bits(rows.signatures, bits))


def unpack_rows(
    batch: pa.RecordBatch, signatures: Signatures, schema: pa.Schema, carry_over: BitCarryOver | None = None
) -> JoinRows:
    """Return the rows behind ``pack_rows``, of this schema; ``carry_over``: they are of other queries."""
    place = batch.schema.get_field_index("_sign")
    numbers = pa.array(_numbers(batch.column(place), signatures, carry_over))
    rows = JoinRows.from_batch(batch.set_column(place, "_sign", numbers))
    return JoinRows(rows.times, rows.signatures, rows.values, typed(rows.table, schema))


def pack_pairs(pairs: Pairs, signatures: list[Signatures]) -> pa.RecordBatch:
    """Waiting pairs."""
    own = {"_time": pa.array(pairs.times), "_place": pa.array(pairs.places), "_later": pa.array(pairs.later)}
    own |= {f"_sign{side}": _bits(pairs.signatures[side], signatures[side].bits) for side in range(2)}
    batch = pairs.table
    for name, array in own.items():
        batch = batch.append_column(name, array)
    return batch


def unpack_pairs(
    batch: pa.RecordBatch,
    signatures: list[Signatures],
    schema: pa.Schema,
    carry_over: BitCarryOver | None = None,
) -> Pairs:
    """The pairs behind ``pack_pairs``; ``schema`` has the columns of joined rows, and maybe more."""
    times, places, later = (batch.column(name).to_numpy() for name in ("_time", "_place", "_later"))
    own = ("_time", "_place", "_later", "_sign0", "_sign1")
    table = batch.select([n for n in batch.schema.names if n not in own])
    numbers = [_numbers(batch.column(f"_sign{side}"), signatures[side], carry_over) for side in range(2)]
    return Pairs(times, places, (numbers[0], numbers[1]), later, typed(table, schema))


def _bits(numbers: np.ndarray, bits: np.ndarray) -> pa.Array:
    """The bits of signatures; a dictionary, since there are few of them."""
    packed = [row.tobytes() for row in np.packbits(bits, axis=1)]
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), pa.array(packed, pa.binary()))


def _numbers(bits: pa.Array, signatures: Signatures, carry_over: BitCarryOver | None) -> np.ndarray:
    encoded = bits if isinstance(bits, pa.DictionaryArray) else bits.dictionary_encode()
    packed = [np.frombuffer(word, np.uint8) for word in encoded.dictionary.to_pylist()]
    queries = carry_over.queries if carry_over else signatures.bits.shape[1]
    old_bits = np.array([np.unpackbits(p, count=queries) for p in packed]).astype(np.bool_)
    numbers = signatures.number(carry_over.bits(old_bits) if carry_over else old_bits)
    return numbers[encoded.indices.to_numpy()]


def typed(table: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The types that files may have changed (seconds become milliseconds), of the columns that are known."""
    known_fields = pa.schema([schema.field(n) for n in table.schema.names if n in schema.names])
    if not known_fields.names or table.schema.equals(known_fields):
        return table
    return table.select(known_fields.names).cast(known_fields)
