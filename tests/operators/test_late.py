"""Late rows: which ones are kept, why, and lateness that changes while a stream runs."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.errors import JobError, UnknownQuery, WeftError
from weft.local.running import LocalRun
from weft.model.window import Window
from weft.operators.windows.missed import missed_windows
from weft.sinks import MemorySink

START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
QUERIES = """
-- name: sliding
SELECT sum(x) AS s FROM t GROUP BY window(ts, '12 seconds', '5 seconds');
-- name: apart
SELECT max(x) AS m FROM t WHERE x > 3 GROUP BY window(ts, '1 second', '7 seconds')
"""
LAST = "SELECT sum(x) AS s FROM t [ROWS 2]"


def batch(seconds: list[int | None]) -> pa.Table:
    ts = [None if s is None else START + datetime.timedelta(seconds=s) for s in seconds]
    schema = pa.schema({"ts": pa.timestamp("us", "UTC"), "x": pa.int64(), "unread": pa.string()})
    return pa.table({"ts": ts, "x": range(len(ts)), "unread": ["?"] * len(ts)}, schema=schema)


def begin(text: str, sink: MemorySink, lateness: int = 0) -> LocalRun:
    return LocalRun(weft.sql(text), batch([]).schema, "ts", f"{lateness} s", threads=2, late=sink)


windows = st.builds(
    lambda length, slide, offset: Window(length, slide, offset % slide),
    st.integers(1, 30),
    st.integers(1, 30),
    st.integers(0, 30),
)


@given(st.lists(windows, max_size=3), st.lists(st.integers(-50, 50), max_size=5), st.integers(-60, 60))
def test_windows_are_counted_as_one_by_one(several: list[Window], times: list[int], watermark: int) -> None:
    gone, total = missed_windows(several, np.array(times, dtype=np.int64), watermark)
    for i, time in enumerate(times):
        starts = [
            (w, s)
            for w in several
            for s in range(-200, 200)
            if (s - w.offset) % w.slide == 0 and s <= time < s + w.range
        ]
        assert total[i] == len(starts)
        assert gone[i] == sum(s + w.range <= watermark for w, s in starts)


def test_late_rows_come_with_their_reason() -> None:
    sink = MemorySink()
    run = begin(QUERIES, sink)
    run.step(batch([1, 16, None]))
    run.step(batch([20, 11, 15, 0, 16]))
    run.shutdown()
    found = sink.tables["late"].to_pylist()
    reached = START + datetime.timedelta(seconds=16)
    kept = [(r["x"], r["reason"], r["watermark"]) for r in found]
    assert (2, "no event time", None) in kept
    assert {x for x, reason, _ in kept if reason.startswith("late")} == late_of([20, 11, 15, 0, 16], 16)
    # The row at 11 s is in [0, 12), [5, 17) and [10, 22), and in [11, 12): 1704067211 is a multiple of 7.
    assert (1, "late for 2 of its 4 windows", reached) in kept
    assert all(at == reached for _, reason, at in kept if reason.startswith("late"))
    assert {r["unread"] for r in found} == {None}, "no query reads it"
    assert run.seen.late + run.seen.untimed == len(found)


def late_of(seconds: list[int], watermark: int) -> set[int]:
    """The places of times that some closed window holds, by trying them all."""
    start = int(START.timestamp())
    wrong = set()
    for place, second in enumerate(seconds):
        for range_, slide in ((12, 5), (1, 7)):
            for end in range(start + second + 1, start + second + range_ + 1):
                if (end - range_) % slide == 0 and end <= start + watermark:
                    wrong.add(place)
    return wrong


def test_rows_late_for_windows_in_rows() -> None:
    sink = MemorySink()
    run = begin(LAST, sink)
    run.step(batch([5]))
    run.step(batch([4, 5, 6]))
    run.shutdown()
    assert sink.tables["late"].column("reason").to_pylist() == ["late for its windows in rows"]
    assert sink.tables["late"].column("x").to_pylist() == [0]


def test_nothing_is_kept_of_rows_in_time() -> None:
    sink = MemorySink()
    run = begin(QUERIES, sink, lateness=30)
    for seconds in ([1, 16], [20, 11, 15, 0, 16]):
        run.step(batch(seconds))
    run.shutdown()
    assert sink.tables["late"].num_rows == 0


def test_lateness_changes_from_the_next_batch_on_and_the_watermark_never_goes_back() -> None:
    run = begin(QUERIES, MemorySink(), lateness=2)

    def reached() -> float:
        return run.watermark / 1e6 - START.timestamp()

    run.step(batch([20]))
    assert reached() == 18
    run.set_lateness("10 s")
    run.step(batch([21]))
    assert reached() == 18
    run.step(batch([40]))
    assert reached() == 30
    run.set_lateness("0 s")
    run.step(batch([41]))
    assert reached() == 41
    with pytest.raises(WeftError, match="lateness"):
        run.set_lateness("soon")
    with pytest.raises(JobError, match="a stream 'quotes' which is not there"):
        run.set_lateness("1 s", stream="quotes")
    run.step(batch([50]))
    assert reached() == 50, "a refusal changes nothing"
    with pytest.raises(UnknownQuery, match="'nobody': there is no such query; there are"):
        run.value("nobody")
    run.shutdown()
