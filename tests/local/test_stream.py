"""A stream in this process that runs by itself: waits, is woken, flushes, stops, fails."""

from __future__ import annotations

import datetime
import itertools
import threading
import time
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from support.local_streams import start_stream
from weft.errors import JobError
from weft.io.sinks.latest import LatestSink
from weft.local.run_queries import run
from weft.local.running import LocalRun
from weft.local.streaming import LocalStream
from weft.runner.progress import Progress
from weft.sinks import FunctionSink, MemorySink, Sinks
from weft.sql import sql

QUERIES = sql("-- name: n\nSELECT count(*) AS n FROM s [RANGE '10 s' SLIDE '5 s']")
START = datetime.datetime(2024, 1, 1)


def rows(*seconds: int) -> pa.Table:
    return pa.table(
        {"ts": pa.array([START + datetime.timedelta(seconds=s) for s in seconds], pa.timestamp("us"))}
    )


def started(batches: Iterable[pa.Table | None], sink: Any = None, **options: Any) -> LocalStream:
    own = LocalRun(QUERIES, rows().schema, "ts", threads=2)
    return start_stream(own, batches, sink or MemorySink(), pause=0.01, **options)


def answers(sink: MemorySink) -> list[tuple[datetime.datetime, int]]:
    return [(r["window_start"], r["n"]) for r in sink.tables["n"].sort_by("window_start").to_pylist()]


def test_it_gives_what_a_run_over_all_rows_gives():
    sink, told = MemorySink(), list[Progress]()
    batches = [rows(1, 4), None, rows(7), rows(), None, None, rows(12, 30)]
    with started(batches, sink, on_progress=told.append) as stream:
        assert stream.await_done(30)
    whole = run(QUERIES, rows(1, 4, 7, 12, 30), time="ts")["n"]
    assert sink.tables["n"].sort_by("window_start").equals(whole.sort_by("window_start"))
    assert [p.seq for p in told] == [1, 2, 3, 4, 5]
    assert [p.kind for p in told] == ["batch"] * 4 + ["flush"]
    assert sum(p.rows for p in told) == 5
    assert sum(p.results for p in told) == whole.num_rows
    assert told[0].watermark_lag is not None
    assert told[-1].watermark_lag is None


def test_windows_still_open_are_answered_when_no_row_comes():
    sink = MemorySink()
    with started(itertools.chain([rows(1)], itertools.repeat(None)), sink, idle=0.05) as stream:
        until = time.monotonic() + 30
        while len(answers(sink)) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.2)
        assert answers(sink) == [(START - datetime.timedelta(seconds=5), 1), (START, 1)]
        # The flush is made once, not again and again.
        assert len(sink.steps) == 2
        assert stream.is_active


def test_a_change_does_not_wait_for_rows_that_do_not_come():
    with started(itertools.chain([rows(1)], itertools.repeat(None))) as stream:
        joined = stream.add("SELECT count(*) AS m FROM s [RANGE '5 s']", "m").result(30)
        assert (joined.name, joined.version) == ("m", 2)
        assert stream.drop("n").result(30).version == 3
        assert [q.name for q in stream.queries()] == ["m"]


def test_it_stops_after_the_step_that_is_being_made():
    began, may_end = threading.Event(), threading.Event()
    taken = []

    def slow(results: Any, seq: int) -> None:
        began.set()
        may_end.wait(30)
        taken.append(seq)

    stream = started(itertools.repeat(rows(1)), FunctionSink(slow))
    assert began.wait(30)
    stopping = threading.Thread(target=stream.stop)
    stopping.start()
    may_end.set()
    stopping.join(30)
    assert not stream.is_active
    assert stream.exception is None
    assert taken == [1]
    with pytest.raises(JobError, match="has ended"):
        stream.drop("n")


@pytest.mark.parametrize("error", [OSError("the disk is full"), ValueError("odd"), JobError("no")])
def test_what_fails_in_the_source_is_an_error_of_the_run(error):
    def broken() -> Iterable[pa.Table]:
        yield rows(1)
        raise error

    with started(broken()) as stream, pytest.raises(JobError, match=str(error)):
        stream.await_done(30)
    assert str(error) in str(stream.exception)


def test_a_sink_that_fails_gets_no_further_step_and_is_closed():
    closed = []

    class Sink(FunctionSink):
        def close(self) -> None:
            closed.append(True)

    def fail(results: Any, seq: int) -> None:
        raise ValueError("full")

    with started([rows(1), rows(2)], Sink(fail)) as stream, pytest.raises(JobError, match="at step 1: full"):
        stream.await_done(30)
    assert closed == [True]


def table(*numbers: int) -> pa.Table:
    return pa.table({"window_end": numbers, "n": numbers})


def test_a_step_delivered_again_counts_once():
    latest = LatestSink(rows=10)
    latest.open({"q": table(1).schema}, "run")
    for seq, numbers in ((1, (1, 2)), (2, (3,)), (2, (3,)), (1, (1, 2))):
        latest.deliver({"q": table(*numbers)}, seq)
    assert latest.table("q").column("n").to_pylist() == [1, 2, 3]
    assert latest.delivered["q"] == 3


def test_one_large_step_is_cut_and_does_not_keep_its_memory():
    latest = LatestSink(rows=3)
    latest.deliver({"q": table(*range(100_000))}, 1)
    assert latest.table("q").column("n").to_pylist() == [99_997, 99_998, 99_999]
    assert latest.table("q").get_total_buffer_size() < 1000


def test_queries_that_left_or_have_other_columns_are_forgotten():
    latest = LatestSink()
    latest.open({"a": table(1).schema, "b": table(1).schema}, "run")
    latest.deliver({"a": table(1), "b": table(2)}, 1)
    latest.open({"a": table(1).schema, "c": table(1).schema}, "run")
    assert latest.table("a").num_rows == 1
    assert latest.table("b") is None
    assert latest.table("c").num_rows == 0
    latest.open({"a": pa.schema({"m": pa.string()})}, "run")
    assert latest.table("a").column_names == ["m"]


def test_the_jobs_own_sink_goes_first_and_a_step_it_refuses_is_shown_to_nobody():
    def refuse(results: Any, seq: int) -> None:
        raise OSError("full")

    latest = LatestSink()
    with pytest.raises(OSError, match="full"):
        Sinks(FunctionSink(refuse), latest).deliver({"q": table(1)}, 1)
    assert latest.table("q") is None


def test_all_sinks_are_closed_also_after_one_that_cannot_be():
    closed = []

    class Broken(MemorySink):
        def close(self) -> None:
            closed.append("broken")
            raise OSError("full")

    class Fine(MemorySink):
        def close(self) -> None:
            closed.append("fine")

    with pytest.raises(OSError, match="full"):
        Sinks(Broken(), Fine()).close()
    assert closed == ["broken", "fine"]


def test_a_checking_sink_is_asked_through_others():
    own = MemorySink()
    own.deliver({"q": table(1)}, 1)
    with pytest.raises(JobError, match="other columns"):
        Sinks(own, LatestSink()).check({"q": pa.schema({"m": pa.string()})})
