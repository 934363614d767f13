"""A stream's clock: its rows put in order of time, late ones left out, and the watermark that follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from weft.engine.partial import read_times


class Timed(NamedTuple):
    """Rows in order of time."""

    times: np.ndarray
    table: pa.RecordBatch


@dataclass
class Clock:
    """What is known of one stream's time: rows more than ``lateness`` behind the latest are late.

    A batch is judged by what came before it. The watermark is the least time that later rows can have.
    """

    time: str
    lateness: int = 0
    watermark: int | None = None
    rows: int = 0
    late: int = 0
    untimed: int = 0

    def admit(self, table: pa.Table) -> Timed:
        """The rows of a batch that are in time, in order, and the watermark moved.

        >>> clock = Clock("ts")
        >>> batch = pa.table({"ts": pa.array([3, 1, None], pa.timestamp("us"))})
        >>> clock.admit(batch).times.tolist(), clock.watermark, clock.untimed
        ([1, 3], 3, 1)
        """
        batch = one_batch(table)
        times, keep = read_times(batch.column(self.time))
        self.rows += times.size
        places = np.flatnonzero(keep) if keep.size else np.arange(times.size)
        self.untimed += times.size - places.size
        latest = int(times[places].max()) if places.size else None
        if self.watermark is not None:
            in_time = places[times[places] >= self.watermark]
            self.late += places.size - in_time.size
            places = in_time
        if latest is not None:
            now = latest - self.lateness
            self.watermark = now if self.watermark is None else max(self.watermark, now)
        ordered = places[np.argsort(times[places], kind="stable")]
        if ordered.size == times.size and (ordered[1:] > ordered[:-1]).all():
            return Timed(times, batch)
        return Timed(times[ordered], batch.take(pa.array(ordered)))


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    table = table.unify_dictionaries().combine_chunks()
    arrays = [c.chunk(0) if c.num_chunks else pa.array([], c.type) for c in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)
