"""A stream's clock: its rows put in order of time, late ones left out, and the watermark that follows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from weft.io.files.chunk import Origins
from weft.operators.times import Seen, one_batch, read_times
from weft.operators.watermark import latest_times

NO_ROWS = np.zeros(0, np.bool_)
"""The mask of rows where there is none of a kind."""


class OrderedRows(NamedTuple):
    """Rows in order of time."""

    times: np.ndarray
    table: pa.RecordBatch


class Admission(NamedTuple):
    """The rows of a batch that are let in, in order of time, its counts, and why others are not.

    ``late``, ``untimed`` and ``ahead`` are masks of all rows, empty where there is none; rows ahead are let
    in, and not believed.
    """

    rows: OrderedRows
    seen: Seen
    late: np.ndarray
    untimed: np.ndarray
    ahead: np.ndarray


def judge_rows(
    table: pa.Table, time: str, watermark: int | None, limit: int | None = None, origins: Origins = ()
) -> Admission:
    """Let in the rows of a batch that the watermark before it has not passed, in order of time.

    Rows after the ``limit`` are ahead of the clock: they are let in, and not believed.

    >>> batch = pa.table({"ts": pa.array([9, 1, None, 3], pa.timestamp("us"))})
    >>> judged = judge_rows(batch, "ts", watermark=2, limit=5)
    >>> judged.rows.times.tolist(), judged.late.tolist(), judged.seen.ahead, judged.seen.max_time
    ([3, 9], [False, True, False, False], 1, 3)
    """
    batch = one_batch(table)
    times, keep = read_times(batch.column(time))
    untimed = _or_none(~keep)
    late = ahead = NO_ROWS
    if watermark is not None:
        late = times < watermark
        late = _or_none(late & keep if keep.size else late)
    if limit is not None:
        ahead = times > limit
        ahead = _or_none(ahead & keep if keep.size else ahead)
    latest = latest_times(times, keep, origins, limit)
    seen = Seen(
        times.size,
        int(late.sum()),
        int(untimed.sum()),
        0,
        max(latest.values(), default=None),
        int(ahead.sum()),
        int(times[ahead].max()) if ahead.size else None,
        latest,
    )
    places = np.arange(times.size)
    if late.size or untimed.size:
        out = late | untimed if late.size and untimed.size else late if late.size else untimed
        places = np.flatnonzero(~out)
    in_time = times[places]
    if places.size == times.size and not (in_time[1:] < in_time[:-1]).any():
        return Admission(OrderedRows(times, batch), seen, late, untimed, ahead)
    ordered = places[np.argsort(in_time, kind="stable")]
    rows = OrderedRows(times[ordered], batch.take(pa.array(ordered)))
    return Admission(rows, seen, late, untimed, ahead)


def _or_none(mask: np.ndarray) -> np.ndarray:
    return mask if mask.any() else NO_ROWS
