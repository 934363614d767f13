"""A stream's clock: its rows put in order of time, late ones left out, and the watermark that follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from weft.io.files import Chunk
from weft.io.files.chunk import Origins
from weft.operators.times import Seen, one_batch, read_times
from weft.operators.watermark import IN_ORDER, StepClock, TimeRules, latest_times


class OrderedRows(NamedTuple):
    """Rows in order of time."""

    times: np.ndarray
    table: pa.RecordBatch


def admit(
    table: pa.Table, time: str, watermark: int | None, limit: int | None = None, origins: Origins = ()
) -> tuple[OrderedRows, Seen]:
    """The rows of a batch that the watermark before it has not passed, in order of time, and its counts.

    Rows after the ``limit`` are ahead of the clock: they are let in, and not believed.

    >>> batch = pa.table({"ts": pa.array([3, 1, None, 9], pa.timestamp("us"))})
    >>> timed, seen = admit(batch, "ts", watermark=2, limit=5)
    >>> timed.times.tolist(), seen.late, seen.untimed, seen.ahead, seen.max_time
    ([3, 9], 1, 1, 1, 3)
    """
    batch = one_batch(table)
    times, keep = read_times(batch.column(time))
    places = np.flatnonzero(keep) if keep.size else np.arange(times.size)
    timed = times[places]
    latest = latest_times(times, keep, origins, limit)
    ahead = timed[timed > limit] if limit is not None else timed[:0]
    untimed, late = times.size - places.size, 0
    if watermark is not None:
        in_time = places[timed >= watermark]
        late = places.size - in_time.size
        places = in_time
    seen = Seen(
        times.size,
        late,
        untimed,
        0,
        max(latest.values(), default=None),
        ahead.size,
        int(ahead.max()) if ahead.size else None,
        latest,
    )
    ordered = places[np.argsort(times[places], kind="stable")]
    if ordered.size == times.size and (ordered[1:] > ordered[:-1]).all():
        return OrderedRows(times, batch), seen
    return OrderedRows(times[ordered], batch.take(pa.array(ordered))), seen


@dataclass
class Clock:
    """The time of one stream, kept from batch to batch: a batch is judged by what came before it.

    ``watermark`` is the least time that later rows can have.

    >>> clock = Clock("ts", TimeRules(lateness=1))
    >>> batch = Chunk(pa.table({"ts": pa.array([3, 1, None], pa.timestamp("us"))}))
    >>> clock.admit(batch, now=0)[0].times.tolist(), clock.watermark, clock.seen.untimed
    ([1, 3], 2, 1)
    """

    time: str
    rules: TimeRules = IN_ORDER
    watermark: int | None = None
    seen: Seen = field(default_factory=Seen)
    heard: Mapping[str, int] = field(default_factory=dict)

    def admit(self, chunk: Chunk, now: int) -> tuple[OrderedRows, Seen]:
        """The rows of a chunk that are in time, in order, its counts, and the watermark moved."""
        step = StepClock(self.rules, now, self.watermark, self.seen.latest, self.heard)
        timed, seen = admit(chunk.table, self.time, self.watermark, step.limit, chunk.origins)
        self.watermark = step.watermark_after(seen.latest, chunk.unread, chunk.mark)
        self.heard, self.seen = step.heard_after(seen.latest), self.seen + seen
        return timed, seen
