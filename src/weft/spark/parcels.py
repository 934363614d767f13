"""Parcels on their way between tasks: rows of an address and bytes, so that Spark never looks inside.

Notes are JSON, tables and pieces Arrow IPC streams; what is too large for one row is in several.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from weft.runner.parcels import NOTES, Parcel, ParcelKind
from weft.runner.program import Program

ADDRESS = ("bucket", "kind", "stage", "part", "origin")
PARCEL_ROWS = StructType(
    [
        StructField("bucket", IntegerType()),
        StructField("kind", IntegerType()),
        StructField("stage", StringType()),
        StructField("part", StringType()),
        StructField("origin", IntegerType()),
        StructField("payload", BinaryType()),
    ]
)
MAX_PAYLOAD_BYTES = 32 << 20
"""Bytes of one payload, about: Spark keeps each row in one piece of memory, and many at a time."""

COMPRESS_FROM_BYTES = 1 << 16
"""Bytes from which a payload is compressed: columns of times and counts shrink to a fraction."""

_COMPRESSION = pa.ipc.IpcWriteOptions(compression="lz4")
_TYPES = {"stage": pa.string(), "part": pa.string()}
_SCHEMA = pa.schema(
    [*((name, _TYPES.get(name, pa.int32())) for name in ADDRESS), ("payload", pa.large_binary())]
)


def to_batches(parcels: Iterable[Parcel], program: Program) -> Iterator[pa.RecordBatch]:
    """Yield parcels as Arrow batches of a bounded size, for Spark.

    >>> program = Program(1, (), (), {}, {}, None)
    >>> late = Parcel(0, ParcelKind.MISSED, "", "late", 3, pa.table({"x": [1, 2]}))
    >>> [parcel.content.to_pydict() for parcel in from_batches(to_batches([late], program), program)]
    [{'x': [1, 2]}]
    """
    waiting: list[tuple[Parcel, pa.Buffer]] = []
    size = 0
    for parcel in parcels:
        for payload in _payloads(parcel, program):
            waiting.append((parcel, payload))
            size += payload.size
            if size >= 2 * MAX_PAYLOAD_BYTES:
                yield _batch(waiting)
                waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def from_batches(batches: Iterable[pa.RecordBatch | pa.Table], program: Program) -> Iterator[Parcel]:
    """Yield the parcels of Arrow batches."""
    for batch in batches:
        address = [batch.column(name).to_pylist() for name in ADDRESS]
        for bucket, kind, stage, part, origin, payload in zip(*address, batch.column("payload")):
            content = _content(bucket, ParcelKind(kind), stage, part, payload.as_buffer(), program)
            yield Parcel(bucket, ParcelKind(kind), stage, part, origin, content)


def _payloads(parcel: Parcel, program: Program) -> Iterator[pa.Buffer]:
    """Yield the content of a parcel in as many payloads as its size asks for."""
    if parcel.kind in NOTES:
        yield pa.py_buffer(json.dumps(parcel.content).encode())
        return
    table = parcel.content
    if parcel.kind is ParcelKind.PIECE:
        table = program.stage(parcel.stage).pack(parcel.content)
    parts = max(1, -(-table.nbytes // MAX_PAYLOAD_BYTES))
    rows = -(-table.num_rows // parts) or 1
    for at in range(0, max(table.num_rows, 1), rows):
        piece = table.slice(at, rows)
        sink = pa.BufferOutputStream()
        options = _COMPRESSION if piece.nbytes > COMPRESS_FROM_BYTES else None
        with pa.ipc.new_stream(sink, piece.schema, options=options) as writer:
            writer.write(piece)
        yield sink.getvalue()


def _content(
    bucket: int, kind: ParcelKind, stage: str, part: str, payload: pa.Buffer, program: Program
) -> Any:
    if kind in NOTES:
        return json.loads(payload.to_pybytes())
    with pa.ipc.open_stream(payload) as reader:
        table = reader.read_all()
    if kind is not ParcelKind.PIECE:
        return table
    return program.stage(stage).unpack(bucket, part, _one_batch(table))


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    if len(table.to_batches()) > 1:
        table = table.unify_dictionaries().combine_chunks()
    return table.to_batches()[0]


def _batch(waiting: list[tuple[Parcel, pa.Buffer]]) -> pa.RecordBatch:
    columns = [
        pa.array([getattr(parcel, name) for parcel, _ in waiting], _SCHEMA.field(name).type)
        for name in ADDRESS
    ]
    payloads = pa.concat_arrays([_as_array(payload) for _, payload in waiting])
    return pa.record_batch([*columns, payloads], schema=_SCHEMA)


def _as_array(payload: pa.Buffer) -> pa.Array:
    """Return an array of one value, over the payload itself.

    Arrow never lets go of a memoryview that ``pa.array`` is given as a value, nor of the buffer below it.
    """
    bounds = pa.py_buffer(array("q", (0, payload.size)))
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, bounds, payload])
