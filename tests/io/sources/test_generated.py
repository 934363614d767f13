"""Generated rows: the same for every way of asking for them, paced, skewed and out of order as told."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import JobError
from weft.io.sources.generated import BLOCK_ROWS, KINDS, Generated
from weft.io.sources.ranges import Range, between, limited, share_out


def table(source: Generated) -> pa.Table:
    return pa.concat_tables([chunk.table for chunk in source])


@pytest.mark.parametrize("data", KINDS)
def test_any_range_can_be_made_again(data: str) -> None:
    source = Generated(data, rows=3 * BLOCK_ROWS + 5, seed=3, disorder=2.0, keys=40)
    whole, (began,) = table(source), source.first()
    assert whole.schema == source.stream_schema()
    for start, end in ((0, 1), (BLOCK_ROWS - 1, BLOCK_ROWS + 1), (5, 3 * BLOCK_ROWS + 5)):
        (part,) = source.read([Range(began, start, end)], source.stream_schema())
        assert part.table.equals(whole.slice(start, end - start))
    again = Generated(data, rows=3 * BLOCK_ROWS + 5, seed=3, disorder=2.0, keys=40, max_rows_per_batch=1000)
    assert table(again).equals(whole)
    assert not table(Generated(data, rows=BLOCK_ROWS, seed=4, keys=40)).equals(whole.slice(0, BLOCK_ROWS))


def test_event_times_keep_the_rate_and_the_disorder() -> None:
    times = table(Generated(rows=50_000, rate=100.0)).column("ts").cast(pa.int64()).to_numpy()
    assert np.all(np.diff(times) >= 0)
    assert 499 < (times[-1] - times[0]) / 1e6 < 501
    mixed = table(Generated(rows=50_000, rate=100.0, disorder=5.0)).column("ts").cast(pa.int64()).to_numpy()
    late = np.maximum.accumulate(mixed) - mixed
    assert 4e6 < late.max() < 5.1e6


def test_skew_says_how_unequal_the_keys_are() -> None:
    def busiest(skew: float) -> float:
        counts = table(Generated("clicks", rows=50_000, keys=100, skew=skew)).column("user_id").value_counts()
        return max(counts.field("counts").to_pylist()) / 50_000

    assert busiest(0.0) < 0.013
    assert 0.17 < busiest(1.0) < 0.22
    assert busiest(2.0) > 0.55


def test_paced_rows_come_no_earlier_than_their_time_and_none_is_lost() -> None:
    source = Generated(rows=400, rate=2000.0, pace=True)
    began, seen = time.time(), 0
    for chunk in source.arrivals():
        if chunk is None:
            continue
        times = chunk.table.column("ts").cast(pa.int64()).to_numpy() / 1e6
        assert began - 0.01 <= times.min()
        assert times.max() <= time.time() + 0.01
        seen += chunk.table.num_rows
        if seen == 400:
            break
    assert time.time() - began >= 0.19


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": "weather"}, "must be one of trades, sensors, clicks, meters, payments, not 'weather'"),
        ({"rows": -1}, "rows must not be negative"),
        ({"skew": -0.5}, "skew must not be negative"),
        ({"keys": 0}, "at least one key"),
        ({"rate": 0.0}, "rate > 0"),
    ],
)
def test_settings_are_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(JobError, match=message):
        Generated(**options)  # type: ignore[arg-type]


OFFSETS = st.dictionaries(st.sampled_from("0123"), st.integers(0, 50), max_size=4)


@given(OFFSETS, OFFSETS, st.integers(1, 40))
def test_limited_offsets_get_there_and_leave_nothing_out(start: dict, more: dict, most: int) -> None:
    end = {p: start.get(p, 0) + n for p, n in more.items()}
    at, ranges = dict(start), list[Range]()
    for _ in range(1000):
        then = limited(at, end, most)
        if then == at:
            break
        taken = between(at, then)
        assert sum(r.end - r.start for r in taken) <= most + len(end)
        ranges, at = ranges + taken, then
    assert at == {**start, **end}
    covered = sorted((r.partition, n) for r in ranges for n in range(r.start, r.end))
    assert covered == sorted((p, n) for p, to in end.items() for n in range(start.get(p, 0), to))


@given(OFFSETS, st.integers(1, 6), st.integers(1, 20))
def test_shares_are_even_and_cover_every_row_once(end: dict, tasks: int, least: int) -> None:
    ranges = between({}, end)
    shares = share_out(ranges, tasks, least)
    assert len(shares) <= tasks
    rows = [(r.partition, n) for share in shares for r in share for n in range(r.start, r.end)]
    assert rows == [(r.partition, n) for r in ranges for n in range(r.start, r.end)]
    sizes = [sum(r.end - r.start for r in share) for share in shares]
    assert all(size >= least for size in sizes[:-1])
    assert all(a >= b for a, b in pairwise(sizes))
