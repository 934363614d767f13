"""The clock that a test moves: rows ahead of it, and streams that fall silent."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

import weft
from support.local_streams import start_stream
from weft.io.sinks import MemorySink
from weft.runner.clock import steady_clock, wall_clock
from weft.runner.progress import Progress
from weft.testing import FakeClock, at, rows

COUNT = weft.sql("-- name: n\nSELECT count(*) AS n FROM s [RANGE '5 min']")


def test_it_stands_still_until_it_is_moved() -> None:
    clock = FakeClock("12:00")
    assert (clock(), clock.now) == (clock(), dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC))
    clock.advance("1 h 30 min")
    assert clock.now == at("13:30").replace(tzinfo=dt.UTC)
    clock.set("2024-02-01 00:00")
    clock.advance(dt.timedelta(seconds=1))
    assert clock() == dt.datetime(2024, 2, 1, 0, 0, 1, tzinfo=dt.UTC).timestamp()


def test_runs_go_by_the_innermost_clock() -> None:
    with FakeClock("12:00") as outer:
        with FakeClock("15:00") as inner:
            assert wall_clock() == steady_clock() == inner()
        assert wall_clock() == outer()
    assert abs(wall_clock() - time.time()) < 60
    assert abs(steady_clock() - time.monotonic()) < 60
    with pytest.raises(ZeroDivisionError), FakeClock():
        raise ZeroDivisionError
    assert abs(wall_clock() - time.time()) < 60


def test_a_row_is_ahead_of_the_clock_until_it_has_moved() -> None:
    #              12:00      12:10      12:20      12:30
    #  clock         |- max_ahead -|       moved to 12:25: |
    #  rows          x                                     x
    with FakeClock("12:00") as clock:
        batch = rows([{"ts": "12:00"}, {"ts": "12:30"}])
        run = weft.LocalRun(COUNT, {"s": batch.schema}, time="ts", max_ahead="10 min")
        assert run.step({"s": batch}) == {}
        assert run.seen.ahead == 1
        clock.advance("25 min")
        answers = run.step({"s": rows([{"ts": "12:30"}])})["n"]
    assert answers.select(["window_start", "n"]).to_pylist() == [{"window_start": at("12:00"), "n": 1}]
    assert run.seen.ahead == 1


@pytest.mark.parametrize(("start", "ahead"), [("12:00", 1), ("12:25", 0)])
def test_an_iterator_is_judged_by_the_clock(start: str, ahead: int) -> None:
    batches = [rows([{"ts": "12:00"}, {"ts": "12:30"}]), rows([{"ts": "12:01"}])]
    with FakeClock(start):
        if ahead:
            answers = weft.run(COUNT, iter(batches), time="ts", max_ahead="10 min")
        else:
            with pytest.warns(weft.errors.LateRowsWarning):
                answers = weft.run(COUNT, iter(batches), time="ts", max_ahead="10 min")
    assert (answers.ahead, answers.late) == (ahead, 1 - ahead)


def test_a_stream_that_has_been_silent_for_a_minute_answers_what_is_open() -> None:
    batch = rows([{"ts": "12:01"}])
    sink, steps = MemorySink(), list[Progress]()

    def batches(clock: FakeClock) -> Iterator[pa.Table | None]:
        yield batch
        clock.advance("59 s")
        yield None
        assert [step.kind for step in steps] == ["batch"]
        clock.advance("1 s")
        yield None

    with FakeClock("12:03") as clock:
        run = weft.LocalRun(COUNT, batch.schema, "ts")
        with start_stream(
            run, batches(clock), sink, pause=0.01, idle=60, close_at_end=False, on_progress=steps.append
        ) as stream:
            assert stream.await_done()
    assert [(step.kind, step.watermark_lag) for step in steps] == [("batch", 120.0), ("flush", -60.0)]
    assert sink.tables["n"].column("n").to_pylist() == [1]
