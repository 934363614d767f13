"""Rows that missed a window, for those who want to see them: the row, why, and the watermark then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from weft.io.files.chunk import REJECTED_SCHEMA
from weft.model.window import Window
from weft.operators.windows.program import Program

LATE_ROWS = "late"
"""The name of the table of late rows in its sink."""

REJECTED_ROWS = "rejected"
"""The name of the table of rows that cannot be read."""


AHEAD_REASON = (
    "ahead of the clock by more than max_ahead: it counts in its own windows and moves no watermark"
)
"""The reason of a row that is not late."""


def late_tables(schema: pa.Schema) -> dict[str, pa.Schema]:
    """The tables of the sink of late rows, for a stream of these columns."""
    return {LATE_ROWS: late_schema(schema), REJECTED_ROWS: REJECTED_SCHEMA}


def late_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of late rows: all of the stream's (NULL where no query reads them), why, and the watermark.

    >>> late_schema(pa.schema({"x": pa.int64()})).names
    ['x', 'reason', 'watermark']
    """
    return schema.append(pa.field("reason", pa.string())).append(
        pa.field("watermark", pa.timestamp("us", "UTC"))
    )


def late_rows(
    batch: pa.RecordBatch,
    program: Program,
    times: np.ndarray,
    masks: tuple[np.ndarray, ...],
    watermark: int | None,
) -> pa.Table:
    """The rows of a batch that have no time, missed a window in time, missed one in rows, or are too
    far ahead of the clock (``masks``)."""
    untimed, missed, uncounted, ahead = masks
    at = np.flatnonzero(untimed | missed | uncounted | ahead)
    reasons = np.full(len(at), AHEAD_REASON, dtype=object)
    reasons[uncounted[at]] = "late for its windows in rows"
    in_time = np.flatnonzero(missed[at])
    missed_counts, window_counts = missed_windows(program.windows, times[at[in_time]], watermark)
    reasons[in_time] = [
        f"late for {g} of its {a} windows" for g, a in zip(missed_counts.tolist(), window_counts.tolist())
    ]
    reasons[untimed[at]] = "no event time"
    rows, schema = batch.take(pa.array(at)), late_schema(program.schema)
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.schema.names
        else pa.nulls(len(at), field.type)
        for field in program.schema
    ]
    now = pa.array([watermark] * len(at), pa.int64()).cast(schema.field("watermark").type)
    return pa.table([*columns, pa.array(reasons, pa.string()), now], schema=schema)


def missed_windows(
    windows: Sequence[Window], times: np.ndarray, watermark: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Of how many windows that hold each time the watermark has passed the end, and how many there are.

    >>> missed_windows([Window(range=12, slide=5)], np.array([11, 16]), 17)
    (array([2, 1]), array([3, 3]))
    """
    missed, total = np.zeros(len(times), dtype=np.int64), np.zeros(len(times), dtype=np.int64)
    for window in windows:
        end = window.offset + window.range
        before = (times - end) // window.slide
        last = times + window.range
        total += (last - end) // window.slide - before
        if watermark is not None:
            missed += (np.clip(watermark, times, last) - end) // window.slide - before
    return missed, total
