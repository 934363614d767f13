"""Times of rows: event times of a batch, and counts of the rows that were seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from weft.model.instants import END_OF_TIME
from weft.operators.watermark import later

ALL_ROWS = np.zeros(0, dtype=np.bool_)
"""The mask of rows that leaves out none."""

MAX_TIME = 1 << 61
"""Microseconds from the epoch, either way, beyond which a time is taken for none."""


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

    def __sub__(self, before: Seen) -> Seen:
        """Return the counts of the rows that came after some others; times are those of all."""
        return replace(
            self,
            rows=self.rows - before.rows,
            late=self.late - before.late,
            untimed=self.untimed - before.untimed,
            bad=self.bad - before.bad,
            ahead=self.ahead - before.ahead,
        )


def _latest(*times: int | None) -> int | None:
    return max((time for time in times if time is not None), default=None)


def read_times(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Event times in microseconds (rounded down), and which rows have one (empty: all)."""
    if column.type.unit == "ns":
        nanoseconds = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        times = nanoseconds // 1000
    else:
        whole = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
        times = whole.fill_null(0).to_numpy(zero_copy_only=False)
    if not times.size or (not column.null_count and times.min() > -MAX_TIME and times.max() < MAX_TIME):
        return times, ALL_ROWS
    in_bounds = (times > -MAX_TIME) & (times < MAX_TIME)
    return times, in_bounds & column.is_valid().to_numpy(zero_copy_only=False)


def least_time(table: pa.Table, time: str) -> int | None:
    """The least event time of a table's rows in microseconds, END_OF_TIME where none has one.

    None where the column is not there, or not of times; that is said when the rows are taken in.

    >>> least_time(pa.table({"ts": pa.array([7, None, 5], pa.timestamp("us"))}), "ts")
    5
    """
    if time not in table.column_names or not pa.types.is_timestamp(table.schema.field(time).type):
        return None
    least = END_OF_TIME
    for chunk in table.column(time).chunks:
        times, usable = read_times(chunk)
        if usable.size:
            times = times[usable]
        least = min(least, int(times.min(initial=END_OF_TIME)))
    return least


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    table = table.unify_dictionaries().combine_chunks()
    arrays = [c.chunk(0) if c.num_chunks else pa.array([], c.type) for c in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)
