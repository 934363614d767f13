"""Rows that missed a window, for those who want to see them: the row, why, and the watermark then."""

from __future__ import annotations

import pyarrow as pa

from weft.operators.contract import Missed

LATE_ROWS = "late"
"""The name of the table of late rows in its sink."""

REJECTED_ROWS = "rejected"
"""The name of the table of rows that cannot be read."""


AHEAD_REASON = (
    "ahead of the clock by more than max_ahead: it counts in its own windows and moves no watermark"
)
"""The reason of a row that is not late."""


def late_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of late rows: all of the stream's (NULL where no query reads them), why, and the watermark.

    >>> late_schema(pa.schema({"x": pa.int64()})).names
    ['x', 'reason', 'watermark']
    """
    return schema.append(pa.field("reason", pa.string())).append(
        pa.field("watermark", pa.timestamp("us", "UTC"))
    )


def late_table(
    rows: pa.RecordBatch | pa.Table, schema: pa.Schema, missed: Missed, mark: int | None
) -> pa.Table:
    """The missed rows of an arrival as its sink gets them, ``schema`` being the stream's.

    >>> missed = Missed(pa.array([1]).to_numpy(), ["no event time"])
    >>> rows, schema = pa.table({"x": [1, 2]}), pa.schema({"x": pa.int64(), "unread": pa.string()})
    >>> late_table(rows, schema, missed, None).to_pylist()
    [{'x': 2, 'unread': None, 'reason': 'no event time', 'watermark': None}]
    """
    given, columns = set(rows.schema.names), late_schema(schema)
    count = len(missed.places)
    taken = rows.select([name for name in schema.names if name in given]).take(pa.array(missed.places))
    arrays = [
        taken.column(field.name).cast(field.type) if field.name in given else pa.nulls(count, field.type)
        for field in schema
    ]
    now = pa.array([mark] * count, pa.int64()).cast(columns.field("watermark").type)
    return pa.table([*arrays, pa.array(missed.reasons, pa.string()), now], schema=columns)
