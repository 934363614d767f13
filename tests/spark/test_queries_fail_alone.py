"""On Spark, a query that cannot be answered stops alone, once, and stays so over restarts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import weft
from weft.aggregates.registry import USER_FUNCTIONS
from weft.errors import AnswerOverflow
from weft.io.files import Files
from weft.sinks import MemorySink
from weft.spark import Run

MINUTE, START, LARGEST = 60_000_000, 1_704_067_200_000_000, 2**63 - 1
BAD = """-- name: bad
SELECT k, sum(x) AS total FROM s GROUP BY k, window(ts, '2 minutes', '1 minute')"""
OTHERS = """
-- name: high
SELECT k, max(x) AS high, count(*) AS n FROM s GROUP BY k, window(ts, '2 minutes', '1 minute');
-- name: small
SELECT k, sum(x) AS total FROM s WHERE x < 1000 GROUP BY k, window(ts, '3 minutes', '1 minute')
"""
HUGE = 3
"""The minute in which two rows of one group have a sum that does not fit."""


def write(folder: Path, minutes: range) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for minute in minutes:
        times = pa.array([START + minute * MINUTE + 5_000_000 * n for n in range(8)])
        x = [LARGEST if minute == HUGE and n in (2, 6) else 7 * n + minute for n in range(8)]
        table = pa.table({"ts": times.cast(pa.timestamp("us", "UTC")), "k": ["p", "q", "r", "t"] * 2, "x": x})
        path = folder / f"part-{minute:04}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + minute,) * 2)  # Spark takes the oldest file first


def steps_of(sink: MemorySink) -> dict[int, dict[str, list[str]]]:
    return {
        seq: {n: sorted(map(repr, t.to_pylist())) for n, t in step.items() if n != "bad" and t.num_rows}
        for seq, step in sink.steps.items()
    }


Start = Callable[..., Run]


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Iterator[Start]:
    def start(text: str, sink: MemorySink, checkpoint: str = "checkpoint", **options: Any) -> Run:
        return weft.stream(
            Files(tmp_path / "in", max_files_per_batch=1),
            weft.sql(text),
            time="ts",
            sink=sink,
            checkpoint=tmp_path / checkpoint,
            trigger="available now",
            buckets=2,
            spark=spark,
            **options,
        )

    yield start
    USER_FUNCTIONS.pop("fragile", None)


def test_a_failed_query_stays_so_over_restarts_until_its_text_changes(start: Start, tmp_path: Path) -> None:
    sink, undisturbed = MemorySink(), MemorySink()
    for minutes in (range(6), range(6, 8), range(8, 12)):
        write(tmp_path / "in", minutes)
        text = BAD if minutes.stop < 12 else BAD.replace("sum(x)", "sum(cast(x AS bigint)) + 0")
        run = start(f"{text};{OTHERS}", sink)
        assert run.await_done()
        last = run.progress[-1]
        if minutes.stop < 12:
            assert list(run.failed) == ["bad"]
            assert all(("bad" in p.failed) == (p.seq > HUGE + 1) for p in run.progress), "said at once"
            assert "query 'bad', total: an integer sum does not fit 64 bits" in last.failed["bad"]
            assert [q.name for q in run.queries()] == ["high", "small"]
        else:
            assert last.failed == run.failed == {}
            assert {q.name for q in run.queries()} == {"bad", "high", "small"}
        alone = start(OTHERS, undisturbed, "undisturbed")
        assert alone.await_done()
    assert steps_of(sink) == steps_of(undisturbed)
    assert sorted(sink.steps) == list(range(1, 13)), "every step once"
    answered = [seq for seq in sorted(sink.steps) if "bad" in sink.steps[seq]]
    assert answered[:3] == [2, 3, 4], "none of the step in which it failed, though only one group did"
    assert answered[3] > 8


def test_a_replacement_brings_a_failed_query_back_and_strict_stops_all(start: Start, tmp_path: Path) -> None:
    write(tmp_path / "in", range(6))
    sink = MemorySink()
    assert start(f"{BAD};{OTHERS}", sink).await_done()
    write(tmp_path / "in", range(6, 12))
    run = start(f"{BAD};{OTHERS}", sink)
    asked = run.replace(BAD)
    assert run.await_done()
    assert asked.result().name == "bad"
    assert run.failed == {}
    assert "bad" in sink.steps[max(sink.steps)]
    only = start(BAD, MemorySink(), "only")
    assert only.await_done(), "a stream goes on when its only query has failed"
    assert (only.queries(), list(only.failed)) == ((), ["bad"])
    with pytest.raises(AnswerOverflow, match="query 'bad', total"):
        start(f"{BAD};{OTHERS}", MemorySink(), "strict", strict=True).await_done()


@pytest.mark.parametrize("role", ["lift", "combine"])
def test_functions_of_ones_own_that_raise_in_tasks_stop_their_query_alone(
    role: str, start: Start, tmp_path: Path
) -> None:
    write(tmp_path / "in", range(6))
    broken = {
        "lift": lambda x: x if x < 1000 else 1 // 0,
        "combine": lambda a, b: a + b if min(a, b) < 1000 else 1 // 0,
    }
    sums: dict[str, Any] = {"lift": lambda x: x, "combine": lambda a, b: a + b, "lower": lambda s: s}
    functions = sums | {role: broken[role]}
    weft.define_aggregate("fragile", **functions, identity=0, result="bigint", compiled=False)
    sink, undisturbed = MemorySink(), MemorySink()
    text = OTHERS.replace("sum(x)", "fragile(x)")
    run = start(f"{BAD.replace('sum(x)', 'fragile(x)')};{text}", sink)
    assert run.await_done()
    assert f"fragile: {role}(" in run.failed["bad"].message
    assert start(text, undisturbed, "undisturbed").await_done()
    assert steps_of(sink) == steps_of(undisturbed)


def test_aggregates_over_joins_fail_alone_and_stay_so(spark: SparkSession, tmp_path: Path) -> None:
    joined = "FROM a [RANGE '3 s'], b [RANGE '3 s'] WHERE a.k = b.k GROUP BY a.k, window('2 minutes')"
    bad = f"-- name: bad\nSELECT a.k, sum(a.x) AS total {joined};"
    fine = f"-- name: fine\nSELECT a.k, count(*) AS n {joined}"
    sinks = {"bad": MemorySink(), "alone": MemorySink()}
    for minutes in (range(8), range(8, 12)):
        for stream in ("a", "b"):
            write(tmp_path / stream, minutes)
        for place, text in (("bad", bad + fine), ("alone", fine)):
            run = weft.stream(
                {s: Files(tmp_path / s, max_files_per_batch=1) for s in ("a", "b")},
                weft.sql(text),
                time="ts",
                sink=sinks[place],
                checkpoint=tmp_path / place,
                trigger="available now",
                buckets=2,
                spark=spark,
            )
            assert run.await_done()
            assert list(run.failed) == (["bad"] if place == "bad" else [])
    assert steps_of(sinks["bad"]) == steps_of(sinks["alone"])
    assert sum(map(len, steps_of(sinks["alone"]).values())) > 0
