"""Parcels that travel between tasks: rows of numbers and bytes, so that Spark never looks inside.

A row is (bucket, tag, origin, payload). A tag from 0 up says that the payload is an Arrow IPC stream, of a
grouping's partials on the way to the bucket, of a query's results on the way to the driver; so do the tags
LATE_TAG, of late rows, and REJECTED_TAG, of those that cannot be read. The tag NOTE says that it is JSON.
``origin`` is the task that made it. Joins have tags of their own, too: in ``ring_tasks`` those of rounds and
WORK_TAG, a note (with the number of REJECTED_TAG, which joins do not send), in ``join_tasks`` those of
parcels that pass by.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

ROWS = StructType(
    [StructField(name, IntegerType()) for name in ("bucket", "tag", "origin")]
    + [StructField("payload", BinaryType())]
)
NOTE = -1
LATE_TAG = -2
REJECTED_TAG = -3
MAX_PAYLOAD_BYTES = 32 << 20
"""Bytes of one payload, about: Spark keeps each row in one piece of memory, and many at a time."""

COMPRESS_FROM_BYTES = 1 << 16
"""Bytes from which a payload is compressed: columns of times and counts shrink to a fraction."""

_COMPRESSION = pa.ipc.IpcWriteOptions(compression="lz4")
_SCHEMA = pa.schema(
    {"bucket": pa.int32(), "tag": pa.int32(), "origin": pa.int32(), "payload": pa.large_binary()}
)


@dataclass(frozen=True, slots=True)
class Parcel:
    """One row."""

    bucket: int
    tag: int
    origin: int
    payload: pa.Buffer

    @property
    def note(self) -> Any:
        """Content of a note, from JSON."""
        return json.loads(self.payload.to_pybytes())

    @property
    def table(self) -> pa.Table:
        """The table of the IPC stream.

        >>> parcels = wrap(pa.table({"x": [1, 2]}), bucket=0, tag=3, origin=0)
        >>> [p.table.column("x").to_pylist() for p in parcels]
        [[1, 2]]
        """
        with pa.ipc.open_stream(self.payload) as reader:
            return reader.read_all()


def note(content: Any, *, bucket: int, origin: int, tag: int = NOTE) -> Parcel:
    """A note in JSON."""
    return Parcel(bucket, tag, origin, pa.py_buffer(json.dumps(content).encode()))


def wrap(table: pa.Table | pa.RecordBatch, *, bucket: int, tag: int, origin: int) -> Iterator[Parcel]:
    """A table in as many parcels as its size asks for."""
    parts = max(1, -(-table.nbytes // MAX_PAYLOAD_BYTES))
    rows = -(-table.num_rows // parts) or 1
    for at in range(0, max(table.num_rows, 1), rows):
        piece = table.slice(at, rows)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(
            sink, piece.schema, options=_COMPRESSION if piece.nbytes > COMPRESS_FROM_BYTES else None
        ) as writer:
            writer.write(piece)
        yield Parcel(bucket, tag, origin, sink.getvalue())


def to_batches(parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
    """Parcels as Arrow batches of a bounded size, for Spark."""
    waiting: list[Parcel] = []
    size = 0
    for parcel in parcels:
        waiting.append(parcel)
        size += parcel.payload.size
        if size >= 2 * MAX_PAYLOAD_BYTES:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def from_batches(batches: Iterable[pa.RecordBatch | pa.Table]) -> Iterator[Parcel]:
    """The parcels of Arrow batches."""
    for batch in batches:
        numbers = [batch.column(name).to_pylist() for name in ("bucket", "tag", "origin")]
        for bucket, tag, origin, payload in zip(*numbers, batch.column("payload")):
            yield Parcel(bucket, tag, origin, payload.as_buffer())


def _batch(parcels: list[Parcel]) -> pa.RecordBatch:
    numbers = ([getattr(p, name) for p in parcels] for name in ("bucket", "tag", "origin"))
    payloads = pa.concat_arrays([_as_array(p.payload) for p in parcels])
    return pa.record_batch([*(pa.array(column, pa.int32()) for column in numbers), payloads], schema=_SCHEMA)


def _as_array(payload: pa.Buffer) -> pa.Array:
    """An array of one value, over the payload itself.

    Arrow never lets go of a memoryview that ``pa.array`` is given as a value, nor of the buffer below it.
    """
    bounds = pa.py_buffer(array("q", (0, payload.size)))
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, bounds, payload])
