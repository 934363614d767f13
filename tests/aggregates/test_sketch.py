"""Approximate aggregates: within the stated error of the exact answer, however rows are cut and merged."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from datasketches import hll_sketch, kll_doubles_sketch

import weft
from support import oracle
from support.engine_driver import drive
from support.seeds import seeded_numpy
from weft.aggregates.sketch import Kll, k_for, lg_k_for
from weft.errors import QueryError
from weft.final import TECHNIQUES, fits
from weft.operators.windows.compile import compile_plan

SECOND = 1_000_000
RANDOM = seeded_numpy(11)
N = 20_000
ROWS = pa.table(
    {
        "ts": pa.array(np.arange(N) * 3000, pa.int64()).cast(pa.timestamp("us", "UTC")),
        "k": pa.array(RANDOM.choice(["a", "b"], N)),
        "i": pa.array(RANDOM.integers(-3000, 3000, N), mask=RANDOM.random(N) < 0.05),
        "x": pa.array(RANDOM.normal(100, 15, N), mask=RANDOM.random(N) < 0.05),
        "s": pa.array(np.char.add("é", RANDOM.integers(0, 1500, N).astype(str))),
    }
)


def run(
    select: str, rows: pa.Table = ROWS, window: str = "RANGE '20 s' SLIDE '10 s'", **more: Any
) -> list[Any]:
    query = weft.sql(f"SELECT k, {select} FROM s [{window}] GROUP BY k")
    return oracle.rows_of(weft.run(query, rows, time="ts", **more)["q1"])


def values(row: dict[str, Any], column: str) -> list[Any]:
    """The values of a result row's window and group."""
    times = ROWS["ts"].cast(pa.int64()).to_numpy()
    inside = (times >= row["window_start"]) & (times < row["window_end"])
    mine = inside & (ROWS["k"].to_numpy(zero_copy_only=False) == row["k"])
    return ROWS[column].filter(pa.array(mine)).drop_null().to_pylist()


@pytest.mark.parametrize("column", ["i", "x", "s", "ts"])
def test_distinct_values_within_the_stated_deviation(column: str) -> None:
    found = run(f"approx_count_distinct({column}) AS rough, approx_count_distinct({column}, 0.01) AS fine")
    assert found
    for row in found:
        exact = len(set(values(row, column)))
        assert abs(row["rough"] - exact) <= 5 * 0.05 * exact
        assert abs(row["fine"] - exact) <= 5 * 0.01 * exact


def test_few_distinct_values_are_counted_exactly() -> None:
    day = datetime.date(2024, 1, 1)
    rows = pa.table(
        {
            "ts": pa.array([1, 2, 3, 4, 5], pa.timestamp("us", "UTC")),
            "k": ["a"] * 5,
            "f": [math.nan, -math.nan, 0.0, -0.0, 1.0],
            "b": [True, False, None, True, False],
            "d": [day, day, None, day + datetime.timedelta(1), day],
            "none": pa.nulls(5, pa.int64()),
        }
    )
    select = ", ".join(f"approx_count_distinct({c}) AS {c}" for c in ("f", "b", "d", "none"))
    (row,) = run(select, rows, "RANGE '1 s'")
    assert (row["f"], row["b"], row["d"], row["none"]) == (3, 2, 2, 0)


def test_distinct_values_do_not_depend_on_how_rows_are_cut() -> None:
    select = "k, approx_count_distinct(i) AS d, approx_count_distinct(s) AS e"
    queries = weft.sql(f"SELECT {select} FROM s [RANGE '30 s' SLIDE '10 s'] GROUP BY k")
    (expected,) = weft.run(queries, ROWS, time="ts", threads=1).values()
    shuffled = ROWS.take(pa.array(seeded_numpy(3).permutation(N)))
    batches = [shuffled.slice(at, 3000) for at in range(0, N, 3000)]
    driven = drive(queries, batches, "ts", 60 * SECOND, buckets=2, forgetful=True)
    got = pa.concat_tables([t for results in driven.rounds for t in results.values()])
    oracle.assert_same(queries[0], got, oracle.rows_of(expected))


@pytest.mark.parametrize(("accuracy", "share"), [("", 0.01), (", 1000", 0.001)])
def test_percentiles_within_the_stated_rank_error(accuracy: str, share: float) -> None:
    shares = (0, 0.1, 0.5, 0.95, 1)
    select = ", ".join(
        f"approx_percentile({c}, {p}{accuracy}) AS {c}{n}" for c in "xi" for n, p in enumerate(shares)
    )
    found = run(select)
    assert found
    for row in found:
        for column in "xi":
            exact = np.sort(values(row, column))
            for n, p in enumerate(shares):
                got = row[f"{column}{n}"]
                assert isinstance(got, float if column == "x" else int)
                low, high = np.searchsorted(exact, got), np.searchsorted(exact, got, side="right")
                slack = 4 * share * len(exact) + 1
                assert low - slack <= p * len(exact) <= high + slack


def test_percentiles_merged_over_batches() -> None:
    queries = weft.sql("SELECT approx_percentile(x, 0.9) AS p, approx_median(x) AS m FROM s [RANGE '60 s']")
    shuffled = ROWS.take(pa.array(seeded_numpy(4).permutation(N)))
    batches = [shuffled.slice(at, 3000) for at in range(0, N, 3000)]
    driven = drive(queries, batches, "ts", 60 * SECOND, buckets=2, forgetful=True)
    (row,) = [r for results in driven.rounds for t in results.values() for r in t.to_pylist()]
    exact = np.sort(ROWS["x"].drop_null().to_numpy())
    for name, p in (("p", 0.9), ("m", 0.5)):
        assert abs(np.searchsorted(exact, row[name]) / len(exact) - p) <= 0.04


def test_few_values_give_the_exact_percentile() -> None:
    rows = pa.table(
        {
            "ts": pa.array([1, 2, 3, 4, 5, 6], pa.timestamp("us", "UTC")),
            "k": ["a"] * 6,
            "x": [3.0, math.nan, 1.0, None, 2.0, 4.0],
            "i": pa.array([2**63 - 1, None, -(2**63), 5, 7, None], pa.int64()),
            "only": [math.nan] * 6,
            "day": [datetime.date(2024, 1, n + 1) for n in range(6)],
        }
    )
    shares = (0, 0.25, 0.26, 0.5, 1)
    select = ", ".join(f"approx_percentile(x, {p}) AS x{n}" for n, p in enumerate(shares))
    more = "percentile_approx(i, 1) AS high, approx_quantile(i, 0) AS low, approx_median(only) AS only"
    (row,) = run(f"{select}, {more}, approx_median(day) AS day, approx_median(ts) AS t", rows, "RANGE '1 s'")
    assert [row[f"x{n}"] for n in range(len(shares))] == [1.0, 1.0, 2.0, 2.0, 4.0]
    assert (row["high"], row["low"], row["only"]) == (2**63 - 1, -(2**63), None)
    assert row["day"] == datetime.date(2024, 1, 3)
    assert row["t"] == rows["ts"][2].as_py()


@pytest.mark.parametrize("name", TECHNIQUES)
def test_every_technique_that_can(name: str) -> None:
    select = "approx_count_distinct(i) AS d, approx_median(x) AS m"
    (query,) = weft.sql(f"SELECT {select} FROM s [RANGE '9 s' SLIDE '3 s']")
    program = compile_plan(weft.plan([query]), ROWS.schema, "ts")
    if not all(fits(name, part.monoid) for part in program.groupings[0].parts):
        with pytest.raises(QueryError, match="needs"):
            weft.run([query], ROWS, time="ts", technique=name)
        return
    found = weft.run([query], ROWS.slice(0, 9000), time="ts", technique=name)["q1"].to_pylist()
    expected = weft.run([query], ROWS.slice(0, 9000), time="ts", technique="recompute")["q1"].to_pylist()
    assert [row["d"] for row in found] == [row["d"] for row in expected]
    assert all(abs(a["m"] - b["m"]) < 3 for a, b in zip(found, expected))


def test_percentiles_of_one_column_share_a_sketch() -> None:
    calls = ("approx_percentile(x, 0.1)", "approx_percentile(x, 0.9)", "approx_median(x)")
    select = ", ".join(f"{call} AS v{n}" for n, call in enumerate(calls))
    queries = weft.sql(f"SELECT {select}, approx_median(x, 500) AS finer FROM s [RANGE '9 s']")
    program = compile_plan(weft.plan(queries), ROWS.schema, "ts")
    assert [str(part) for part in program.groupings[0].parts] == [f"kll_{k_for(a)}(x)" for a in (100, 500)]


def test_a_filter_leaves_the_constants_alone() -> None:
    found = run("approx_percentile(x, 0.5) FILTER (WHERE i > 2990) AS p, approx_percentile(x, 0.5) AS q")
    assert any(row["p"] != row["q"] for row in found)


def test_no_combine_changes_a_sketch_that_others_hold() -> None:
    sketch = Kll(k_for(100))
    one, other = sketch.sketch(np.arange(5.0)), sketch.sketch(np.arange(7.0))
    assert (sketch.combine(one, other).n, one.n, other.n) == (12, 5, 7)
    again = sketch.read(sketch.write(one))
    assert (again.n, again.get_quantile(0.5, True)) == (5, 2.0)


def test_sizes_follow_the_error_that_is_asked_for() -> None:
    for deviation in (0.25, 0.05, 0.01, 0.001):
        assert hll_sketch.get_rel_err(False, True, lg_k_for(deviation), 1) <= deviation
    for accuracy in (1, 100, 20_000):
        assert kll_doubles_sketch.get_normalized_rank_error(k_for(accuracy), False) <= 1 / accuracy


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "approx_percentile(x, i)",
            "column 29: the percentage of approx_percentile must be a constant, not i",
        ),
        ("approx_percentile(x, '0.5')", "column 29: .* must be a constant"),
        (
            "approx_percentile(x, 1.5)",
            "column 29: the percentage of approx_percentile is 1.5; write a number from",
        ),
        ("approx_percentile(x, 0.5, 0)", "column 34: the accuracy"),
        ("approx_percentile(x)", "column 8: approx_percentile takes 2 to 3 arguments, not 1"),
        ("approx_count_distinct(x, 0)", "column 33: the relative standard deviation"),
        ("approx_count_distinct(x, i + 1)", "must be a constant"),
        ("approx_count_distinct(DISTINCT x)", "DISTINCT"),
    ],
)
def test_constants_are_checked(call: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        weft.sql(f"SELECT {call} AS v FROM s [RANGE '9 s']")


def test_text_has_no_percentile() -> None:
    with pytest.raises(QueryError, match="approx_percentile takes bigint or date or double or timestamp"):
        run("approx_percentile(s, 0.5) AS p")


def test_the_builder_and_sql_give_the_same_query() -> None:
    (text,) = weft.sql(
        "-- name: q\nSELECT approx_percentile(x, 0.9) AS p FROM s GROUP BY window(ts, '9 seconds')"
    )
    built = weft.query("q").source("s").window("9 s", time="ts").aggregate(p="percentile_approx(x, 0.9)")
    assert built.build() == text
