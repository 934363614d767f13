"""Changes asked for from any thread: what is refused at once, what is taken, and what the caller hears."""

from __future__ import annotations

import datetime
import threading
from concurrent.futures import CancelledError, Future

import pyarrow as pa
import pytest

import weft
from weft.errors import JobError, QueryError
from weft.local.running import LocalRun
from weft.runner.changes import Change

START = datetime.datetime(2024, 1, 1)
COUNT = "SELECT count(*) AS n FROM s [RANGE '{} s']"


def batch(*seconds: int) -> pa.Table:
    times = pa.array([START + datetime.timedelta(seconds=s) for s in seconds], pa.timestamp("us"))
    return pa.table({"ts": times, "x": pa.array([float(s) for s in seconds])})


@pytest.fixture
def run() -> LocalRun:
    return LocalRun([weft.sql(COUNT.format(4))[0].renamed("four")], batch(0).schema, "ts", threads=2)


def test_what_is_wrong_is_said_at_once_and_changes_nothing(run: LocalRun) -> None:
    with pytest.raises(QueryError, match="unknown column 'y'"):
        run.add("SELECT sum(y) AS s FROM s [RANGE '1 s']")
    with pytest.raises(QueryError, match="this text has 2 queries"):
        run.add(f"{COUNT.format(1)}; {COUNT.format(2)}")
    with pytest.raises(QueryError, match=r"'four'.*of this name already"):
        run.add(COUNT.format(2), "four")
    with pytest.raises(QueryError, match=r"'five'.*there is no such query.*there are four"):
        run.drop("five")
    with pytest.raises(QueryError, match="there is no such query"):
        run.replace(COUNT.format(2), "five")
    run.step(batch(0))
    assert (run.program.version, [q.name for q in run.queries()]) == (1, ["four"])


def test_names_count_with_what_was_asked_for(run: LocalRun) -> None:
    run.add(COUNT.format(2), "two")
    with pytest.raises(QueryError, match="already"):
        run.add(COUNT.format(3), "two")
    run.drop("four")
    with pytest.raises(QueryError, match="no such query"):
        run.drop("four")
    run.add(COUNT.format(8), "four")
    run.step(batch(0))
    assert {q.name: q.window.range for q in run.queries()} == {"two": 2_000_000, "four": 8_000_000}
    assert run.program.version == 2, "all in one version"


def test_a_change_says_from_when_on(run: LocalRun) -> None:
    early = run.add(COUNT.format(3), "early")
    run.step(batch(0, 1, 6))
    assert early.result() == Change("early", 2, None, False)
    same, other, gone = run.add(COUNT.format(4), "same"), run.add(COUNT.format(5), "other"), run.drop("early")
    assert not same.done()
    run.step(batch(7))
    assert same.result() == Change("same", 3, START + datetime.timedelta(seconds=4), True)
    assert other.result() == Change("other", 3, START + datetime.timedelta(seconds=10), False)
    assert gone.result() == Change("early", 3)


def test_a_change_can_be_taken_back_before_it_is_taken(run: LocalRun) -> None:
    asked = run.add(COUNT.format(2), "two")
    assert asked.cancel()
    run.add(COUNT.format(3), "two").add_done_callback(lambda f: f.result())
    run.step(batch(0))
    assert {q.name: q.window.range for q in run.queries()}["two"] == 3_000_000
    with pytest.raises(CancelledError):
        asked.result()


def test_after_the_end_nothing_changes(run: LocalRun) -> None:
    asked = run.add(COUNT.format(2), "two")
    run.close()
    with pytest.raises(JobError, match="ended before a batch took the change"):
        asked.result()
    with pytest.raises(JobError, match="the run has ended"):
        run.drop("four")


def test_the_last_query_may_leave(run: LocalRun) -> None:
    run.step(batch(0))
    run.drop("four")
    assert run.step(batch(5)) == {}
    assert (run.queries(), run.seen.rows, str(run.plan)) == ((), 2, "no query, by share-all")
    run.add(COUNT.format(4), "four")
    results = run.step(batch(9, 20))
    assert [r["n"] for r in results["four"].to_pylist()] == [1]


def test_an_aggregate_must_stay_what_it_was(run: LocalRun) -> None:
    def define(times: int) -> None:
        weft.define_aggregate(
            "scaled",
            lift=lambda x: x * times,
            combine=lambda a, b: a + b,
            lower=lambda s: s,
            identity=0.0,
            result="double",
            compiled=False,
        )

    define(1)
    scaled = "SELECT scaled(x) AS s FROM s [RANGE '4 s']"
    run.add(scaled, "once")
    run.step(batch(0))
    define(2)
    with pytest.raises(QueryError, match="'scaled', which 'once' uses, has been defined anew"):
        run.add(scaled, "twice")
    run.drop("once")
    run.step(batch(1))
    twice = run.add(scaled, "twice")
    assert run.step(batch(9, 12))["twice"].column("s").to_pylist() == [18.0]
    assert not twice.result().history
    assert run.close()["twice"].column("s").to_pylist() == [24.0]


def test_many_threads_at_once(run: LocalRun) -> None:
    asked: list[Future[Change]] = []

    def ask(number: int) -> None:
        for turn in range(5):
            name = f"{number}-{turn}"
            asked.append(run.add(COUNT.format(1 + number), name))
            if turn % 2:
                asked.append(run.drop(name))

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    second = 0
    while any(t.is_alive() for t in threads):
        run.step(batch(second))
        second += 1
    run.step(batch(second))
    assert len(asked) == 8 * 7
    assert all(a.done() and a.exception() is None for a in asked)
    assert {q.name for q in run.queries()} == {"four", *(f"{n}-{t}" for n in range(8) for t in (0, 2, 4))}


def test_plans_are_made_for_the_rate_of_the_rows_that_satisfy_a_query() -> None:
    plan = weft.plan(weft.sql("SELECT count(*) AS n FROM s [RANGE '4 s'] WHERE x > 5"), rate=1000.0)
    run = LocalRun(plan, batch(0).schema, "ts", threads=1)
    run.step(batch(0, 1, 2))
    run.step(batch(*range(3, 13)))
    run.add(COUNT.format(3), "all")
    run.step(batch(13))
    assert run.program.plan.rate == 7 / 10, "rows 6 to 12, in the ten seconds after the first batch"
    run.step(batch(*range(14, 23)))
    run.drop("all")
    run.step(batch(23))
    assert run.program.plan.rate == 10 / 10, "every row satisfies the other query"
