"""From when on a query that is added to a running stream is exact."""

from __future__ import annotations

import datetime

import pyarrow as pa

import weft

TEXT = "SELECT count(*) AS n FROM s [RANGE '10 min'] WHERE v >= {}"


def minutes(first: int, last: int) -> pa.Table:
    start = datetime.datetime(2024, 1, 1)
    times = [start + datetime.timedelta(minutes=minute) for minute in range(first, last)]
    return pa.table({"ts": times, "v": list(range(first, last))})


def test_rows_from_before_it_was_added_are_missed_also_while_there_is_no_watermark() -> None:
    """Without a lateness nothing is answered before the end: all windows are open, and lack these rows."""
    run = weft.LocalRun(TEXT.format(0), minutes(0, 1).schema, "ts", None)
    assert run.step(minutes(0, 5)) == {}
    added = run.add(TEXT.format(1), name="later")
    run.step(minutes(5, 25))
    answers = run.close()
    assert added.result().exact_from == datetime.datetime(2024, 1, 1, 0, 10)
    assert answers["q1"].column("n").to_pylist() == [10, 10, 5]
    assert answers["later"].column("n").to_pylist() == [10, 5]


def test_a_query_alike_goes_on_from_the_beginning_while_there_is_no_watermark() -> None:
    run = weft.LocalRun(TEXT.format(0), minutes(0, 1).schema, "ts", None)
    run.step(minutes(0, 5))
    added = run.add("SELECT count(*) AS n FROM s [RANGE '20 min' SLIDE '10 min'] WHERE v >= 0", name="longer")
    run.step(minutes(5, 25))
    answers = run.close()
    assert added.result().exact_from is None
    assert answers["longer"].column("n").to_pylist() == [10, 20, 15, 5]
