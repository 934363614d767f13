"""Aggregates defined by the user: the same answers as built-in ones, by every technique, on every path."""

from __future__ import annotations

import datetime
import math
import operator
import pickle
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from support import oracle
from support.engine_driver import drive
from support.seeds import seeded_numpy
from support.user_aggregates import define_again, define_all, define_maps, mapped
from weft import aggregates
from weft.aggregates.compiled import UserPart
from weft.aggregates.function import AggregateFunction
from weft.aggregates.objects import ObjectPart
from weft.errors import AggregateError, QueryError
from weft.final import TECHNIQUES, fits, technique_for
from weft.model.expression import Column

SECOND = 1_000_000
AGAIN = {"my_sum(i)": "sum(i)", "my_max(x)": "max(x)", "my_mean(x)": "avg(x)"}


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    before = dict(aggregates.USER_FUNCTIONS)
    yield
    aggregates.USER_FUNCTIONS.clear()
    aggregates.USER_FUNCTIONS.update(before)


@pytest.fixture(scope="module", autouse=True)
def defined() -> Iterator[None]:
    """Defined once, so that kernels are compiled once."""
    define_all()
    yield
    aggregates.USER_FUNCTIONS.clear()


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array([r["ts"] for r in rows], pa.int64()).cast(pa.timestamp("us", "UTC")),
            "k": pa.array([r["k"] for r in rows], pa.string()),
            "i": pa.array([r["i"] for r in rows], pa.int64()),
            "x": pa.array([r["x"] for r in rows], pa.float64()),
        }
    )


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "ts": st.integers(0, 60).map(lambda s: s * SECOND),
            "k": st.sampled_from(["a", "b"]),
            "i": st.none() | st.integers(-50, 50),
            "x": st.none() | st.floats(-100, 100).map(lambda x: round(x, 2)),
        }
    ),
    min_size=1,
    max_size=40,
)


def windows(select: str, where: str = "") -> list[weft.Query]:
    return weft.sql(
        f"""
        -- name: wide
        SELECT k, {select} FROM s [RANGE '20 s' SLIDE '7 s'] {where} GROUP BY k;
        -- name: narrow
        SELECT k, {select} FROM s [RANGE '9 s' SLIDE '3 s'] GROUP BY k;
        """
    )


@pytest.mark.slow
@given(rows=ROWS, cuts=st.lists(st.integers(0, 40), max_size=3), forgetful=st.booleans())
@settings(max_examples=25, deadline=None)
def test_written_again_is_as_built_in(rows: list[dict[str, Any]], cuts: list[int], forgetful: bool) -> None:
    pairs = {**AGAIN, **{mine.replace("my_", "py_"): other for mine, other in AGAIN.items()}}
    select = ", ".join(f"{mine} AS m{n}, {other} AS o{n}" for n, (mine, other) in enumerate(pairs.items()))
    edges = sorted({0, len(rows), *(min(c, len(rows)) for c in cuts)})
    batches = [table(rows[low:high]) for low, high in pairwise(edges)]
    driven = drive(windows(select, "WHERE i <> 3"), batches, "ts", 60 * SECOND, 2, forgetful)
    answered = [r for results in driven.rounds for t in results.values() for r in t.to_pylist()]
    assert answered
    for row in answered:
        for n in range(len(pairs)):
            assert oracle.same(row[f"m{n}"], row[f"o{n}"], 1e-9), (list(pairs)[n], row)


def sample(n: int = 400, seed: int = 5) -> pa.Table:
    random = seeded_numpy(seed)
    return table(
        [
            {
                "ts": int(random.integers(0, 120)) * SECOND,
                "k": str(random.choice(["a", "b"])),
                "i": int(random.integers(-9, 9)),
                "x": float(round(random.normal(), 3)),
            }
            for _ in range(n)
        ]
    )


def parts_of(call: str) -> list[aggregates.Part]:
    name, _, arguments = call.rstrip(")").partition("(")
    columns = tuple(Column(a.strip()) for a in arguments.split(","))
    types = tuple({"i": "bigint", "x": "double"}[c.name] for c in columns)
    return list(aggregates.USER_FUNCTIONS[name].parts(columns, types))


@pytest.mark.parametrize("call", ["py_sum(i)", "py_mean(x)", "mapped(i, i)"])
@pytest.mark.parametrize("name", TECHNIQUES)
def test_plain_python_by_every_technique(call: str, name: str) -> None:
    if not all(fits(name, p.monoid) for p in parts_of(call)):
        with pytest.raises(QueryError, match="needs"):
            weft.run(windows(f"{call} AS v"), sample(), time="ts", technique=name)
        return
    got = weft.run(windows(f"{call} AS v"), sample(), time="ts", technique=name)
    expected = weft.run(windows(f"{call} AS v"), sample(), time="ts", technique="recompute")
    for query in windows(f"{call} AS v"):
        oracle.assert_same(query, got[query.name], oracle.rows_of(expected[query.name]))


@pytest.mark.parametrize("name", TECHNIQUES)
def test_compiled_by_every_technique(name: str) -> None:
    monoid = parts_of("my_sum(i)")[0].monoid
    chosen = technique_for(name, monoid)
    states = seeded_numpy(1).integers(-50, 50, (200, 1))
    low = np.repeat(np.arange(0, 190, 3), 3)
    high = np.minimum(low + np.tile([1, 9, 40], len(low) // 3), 200)
    got = chosen(monoid, states).answer(low, high)
    assert got[:, 0].tolist() == [int(states[a:b].sum()) for a, b in zip(low, high)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["auto", "twostacks", "flatfat"])
def test_wide_states_are_compiled(name: str) -> None:
    assert isinstance(parts_of("my_slope(x, i)")[0], UserPart)
    queries = windows("my_slope(x, i) AS m, py_slope(x, i) AS p")
    for result in weft.run(queries, sample(), time="ts", technique=name).values():
        for row in result.to_pylist():
            assert oracle.same(row["m"], row["p"], 1e-9)


@given(rows=ROWS, cuts=st.lists(st.integers(0, 40), max_size=3), forgetful=st.booleans())
@settings(max_examples=25, deadline=None)
def test_rows_are_combined_in_the_order_of_time(
    rows: list[dict[str, Any]], cuts: list[int], forgetful: bool
) -> None:
    edges = sorted({0, len(rows), *(min(c, len(rows)) for c in cuts)})
    batches = [table(rows[low:high]) for low, high in pairwise(edges)]
    select = "mapped(i, i + 1) FILTER (WHERE i <> 5) AS m, count(*) AS n"
    driven = drive(windows(select, "WHERE x > 0 OR i < 4"), batches, "ts", 60 * SECOND, 2, forgetful)
    queries = {q.name: q for q in windows(select)}
    for results in driven.rounds:
        for name, result in results.items():
            for row in oracle.rows_of(result):
                members = [
                    (r["ts"], r["i"], r["i"] + 1)
                    for r in rows
                    if r["k"] == row["k"]
                    and row["window_start"] <= r["ts"] < row["window_end"]
                    and r["i"] not in (None, 5)
                    and (name == "narrow" or (r["x"] is not None and r["x"] > 0) or r["i"] < 4)
                ]
                assert row["m"] == mapped(members), (queries[name], row)


def test_late_rows_join_the_windows_that_are_still_open() -> None:
    # windows of 10 s      [0 ........ 10)[10 ....... 20)
    # batch 1: rows at        2    7          12               answered with lateness 0: [0, 10)
    # batch 2: rows at          4 (late)     11                [10, 20) has 11 before 12
    def batch(*times: int) -> pa.Table:
        return table([{"ts": t * SECOND, "k": "a", "i": t, "x": 1.0} for t in times])

    query = weft.sql("SELECT mapped(i, i) AS m FROM s [RANGE '10 s']")
    got = weft.run(query, [batch(7, 2, 12), batch(4, 11)], time="ts", lateness="0 s")["q1"]
    expected = [mapped([(t, t, t) for t in times]) for times in ((2, 7), (11, 12))]
    assert got.column("m").to_pylist() == expected


@pytest.mark.parametrize("fine", ["comes", "goes"])
def test_the_order_holds_where_slices_change_under_it(fine: str) -> None:
    """Rows of one stretch of time lie in slices of 20 s and of 4 s once a finer query came or went.

    first batch        1        8          15
    then (in time)        4 6       12        17       a window from 16 on has the last row alone
    """

    def batch(*rows: tuple[int, int]) -> pa.Table:
        return table([{"ts": t * SECOND, "k": "a", "i": i, "x": 1.0} for t, i in rows])

    text = "-- name: {}\nSELECT mapped(i, i) AS m FROM s [RANGE '20 s' SLIDE '{} s']"
    coarse, finer = (weft.sql(text.format(*some))[0] for some in (("coarse", 20), ("finer", 4)))
    first, second = [(1, 3), (8, 5), (15, 7)], [(4, 11), (12, 2), (6, 9), (17, 4)]
    queries = [coarse] if fine == "comes" else [coarse, finer]
    run = weft.LocalRun(queries, batch().schema, "ts", "100 s", threads=1)
    run.step(batch(*first))
    run.add(finer) if fine == "comes" else run.drop("finer")
    run.step(batch(*second))
    found = run.close()
    run.shutdown()
    assert found["coarse"].column("m").to_pylist() == [mapped([(t, i, i) for t, i in first + second])]
    if fine == "comes":
        assert found["finer"].column("m").to_pylist() == [mapped([(17, 4, 4)])]


def test_ties_are_broken_by_value_whatever_the_order_of_arrival() -> None:
    weft.define_aggregate(
        "joined",
        lift=lambda x: [x],
        combine=lambda a, b: a + b,
        lower=lambda s: " ".join(map(str, s)),
        identity=[],
        result="string",
        commutative=False,
    )
    values = [math.nan, 0.0, -1.5, -0.0, math.inf]
    for turn in range(len(values)):
        turned = values[turn:] + values[:turn]
        rows = table([{"ts": SECOND, "k": "a", "i": 1, "x": x} for x in turned])
        got = weft.run(weft.sql("SELECT joined(x) AS j FROM s [RANGE '10 s']"), rows, time="ts")["q1"]
        assert got.column("j").to_pylist() == ["-1.5 -0.0 0.0 inf nan"]


def test_any_state_and_any_type() -> None:
    weft.define_aggregate(
        "seen",
        lift=lambda s, t, d, b: {s: (t, d, b)},
        combine=lambda a, b: {**a, **{k: max(v, a.get(k, v)) for k, v in b.items()}},
        lower=lambda s: " ".join(f"{k}:{t:%H%M%S%z}:{d:%d}:{b}" for k, (t, d, b) in sorted(s.items())),
        identity={},
        result="string",
        arguments=4,
    )
    weft.define_aggregate(
        "newest",
        lift=lambda t: t,
        combine=max,
        lower=lambda t: t,
        identity=datetime.datetime.min,
        result="timestamp",
    )
    day = datetime.date(2024, 5, 6)
    rows = pa.table(
        {
            "ts": pa.array([datetime.datetime(2024, 5, 6, 1, 2, n, tzinfo=datetime.UTC) for n in (3, 4, 5)]),
            "s": ["a", "b", "a"],
            "d": [day, day, None],
            "b": [True, False, True],
        }
    )
    query = weft.sql("SELECT seen(s, ts, d, b) AS v, newest(ts) AS n FROM s [RANGE '1 hour']")
    (row,) = weft.run(query, rows, time="ts")["q1"].to_pylist()
    assert row["v"] == "a:010203+0000:06:True b:010204+0000:06:False"
    assert row["n"] == rows["ts"][2].as_py()


def test_a_window_without_a_counted_row_is_null() -> None:
    rows = table([{"ts": n * SECOND, "k": "a", "i": None if n > 5 else n, "x": 1.0} for n in range(12)])
    select = "my_sum(i) AS m, py_sum(i) AS p, mapped(i, i) AS o, my_slope(x, i) AS s, count(*) AS n"
    queries = weft.sql(f"SELECT {select} FROM s [RANGE '3 s' SLIDE '1 s']")
    for technique in ("auto", "recompute"):
        last = weft.run(queries, rows, time="ts", technique=technique)["q1"].to_pylist()[-3:]
        assert [(r["m"], r["p"], r["o"], r["s"]) for r in last] == [(None,) * 4] * 3


def test_lift_sees_only_the_rows_that_a_query_wants() -> None:
    define("log_sum", lambda x: math.log(x) if x > 0 else 1 // 0, float, 0.0, "double")
    rows = table([{"ts": n * SECOND, "k": "a", "i": n, "x": float(n - 2)} for n in range(6)])
    got = weft.run(weft.sql("SELECT log_sum(x) AS v FROM s [RANGE '9 s'] WHERE x > 0"), rows, time="ts")
    assert got["q1"].column("v").to_pylist() == [pytest.approx(math.log(6))]
    with pytest.raises(AggregateError, match=r"log_sum: lift\(-2.0\) raised ZeroDivisionError"):
        weft.run(weft.sql("SELECT log_sum(x) AS v FROM s [RANGE '9 s']"), rows, time="ts")


def define(
    name: str, lift: Any, lower: Any, identity: Any, result: str = "bigint", **more: Any
) -> weft.UserAggregate:
    options = {"combine": lambda a, b: a + b} | more
    return weft.define_aggregate(name, lift=lift, lower=lower, identity=identity, result=result, **options)


def test_what_is_compiled_and_what_is_not() -> None:
    assert [d.runs("bigint") for d in define_again()[:1]] == ["compiled"]
    assert "compiled=False" in define("f", lambda x: x, int, 0, compiled=False).runs("bigint")
    assert "identity" in define("f", lambda x: [x], len, []).runs("bigint")
    assert "string" in define("f", lambda x: x, int, 0).runs("string")
    assert "lift gives float64" in define("f", lambda x: x, int, 0).runs("double")
    assert "cannot compile lift" in define("f", lambda x: int(f"{x}"), int, 0).runs("bigint")
    assert "<<" in define("f", lambda x: 1 << x, int, 0).runs("bigint")
    assert "commutative" in define_maps().runs("bigint", "bigint")
    assert "identity" in define("f", lambda x: x, int, -(10**30), combine=max).runs("bigint")
    # Python's own functions, and arguments that are left out, are compiled too.
    assert define("f", float, float, 0.0, "double", combine=operator.add).runs("bigint") == "compiled"
    assert define("f", lambda x, factor=3: factor * x, int, 0).runs("bigint") == "compiled"


def test_compiled_integers_do_not_wrap() -> None:
    rows = table([{"ts": n * SECOND, "k": "a", "i": 1 << 62, "x": 1.0} for n in range(3)])
    query = weft.sql("SELECT my_sum(i) AS v FROM s [RANGE '9 s']")
    sliding = weft.sql("SELECT k, my_sum(i) AS v FROM s [RANGE '9 s' SLIDE '1 s'] GROUP BY k")
    for asked in (query, sliding):
        with pytest.raises(AggregateError, match="my_sum: an integer does not fit 64 bits; define it with"):
            weft.run(asked, rows, time="ts")
    # The sums of all groups together would not fit, but nobody asks for that.
    apart = rows.set_column(1, "k", pa.array(["a", "b", "c"]))
    assert set(weft.run(sliding, apart, time="ts")["q1"].column("v").to_pylist()) == {1 << 62}
    define("wide_sum", lambda x: x, lambda s: s / 4, 0, "double", compiled=False)
    query = weft.sql("SELECT wide_sum(i) AS v FROM s [RANGE '9 s']")
    assert weft.run(query, rows, time="ts")["q1"].column("v").to_pylist() == [3 * 2.0**60]


def test_defining_anew_replaces() -> None:
    rows, text = sample(), "SELECT mine(i) AS v, sum(i) AS s FROM s [RANGE '500 s']"
    for factor in (2, 3):
        define("mine", lambda x, factor=factor: factor * x, lambda s: s, 0, arguments=1)
        (row,) = weft.run(weft.sql(text), rows, time="ts")["q1"].to_pylist()
        assert row["v"] == factor * row["s"]


def test_nothing_of_a_user_is_kept_on_disk() -> None:
    monoid = parts_of("my_sum(i)")[0].monoid
    for technique in TECHNIQUES.values():
        if not technique.card.lacks(monoid):
            kernel = technique.answer_kernel(monoid.code, monoid.width)
            assert "_KernelCache" not in type(kernel._cache).__name__  # type: ignore[attr-defined]


def test_the_builder_and_sql_give_the_same_query() -> None:
    (text,) = weft.sql(
        "-- name: q\nSELECT k, my_slope(x, i) AS v FROM s GROUP BY k, window(ts, '20 seconds', '5 seconds')"
    )
    built = weft.query("q").source("s").group_by("k").window("20 s", "5 s", time="ts")
    assert built.aggregate(v="MY_SLOPE(x, i)").build() == text
    computed = weft.sql("SELECT my_mean(x) / 2 AS half FROM s [RANGE '9 s'] HAVING my_mean(x) > 0")
    assert weft.run(computed, sample(), time="ts")["q1"].num_rows


def test_a_function_travels_by_value() -> None:
    from pyspark import cloudpickle

    for name in ("my_sum", "py_sum", "mapped"):
        function = aggregates.USER_FUNCTIONS[name]
        again = pickle.loads(cloudpickle.dumps(function))
        args = (Column("i"),) * function.arity
        types = ("bigint",) * function.arity
        assert isinstance(again, AggregateFunction)
        assert again is not function
        assert again.parts(args, types) == function.parts(args, types)
        assert repr(again.parts(args, types)) == repr(function.parts(args, types))
        assert again.parts(args, types)[0].monoid == function.parts(args, types)[0].monoid


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("sum", {}, "'sum' is the name of a built-in"),
        ("Mean", {}, "built-in"),
        ("approx_percentile", {}, "built-in"),
        ("abs", {}, "built-in"),
        ("case", {}, "built-in"),
        ("window", {}, "built-in"),
        ("select", {}, "means something else in SQL"),
        ("extract", {}, "means something else in SQL"),
        ("a b", {}, "use letters, digits and _"),
        ("größe", {}, "use letters, digits and _"),
        ("f", {"result": "float"}, "f: result must be one of bigint"),
        ("f", {"arguments": 0}, "f: arguments must be a number from 1"),
        ("f", {"combine": None}, "f: combine must be a function"),
        ("f", {"commutative": False, "inverse": lambda a, b: a}, "takes no inverse"),
        ("f", {"identity": 1, "samples": [1, 2]}, "f: the identity is not neutral"),
        ("f", {"combine": lambda a, b: a - b if b else a, "samples": [1, 2]}, "f: the identity|not commut"),
        ("f", {"combine": lambda a, b: (a + b) // 2 if a and b else a + b, "samples": [1, 2, 9]}, "associ"),
        ("f", {"inverse": lambda t, o: t, "samples": [1, 2]}, "f: inverse does not undo combine"),
        ("f", {"lower": str, "samples": [1]}, r"f: lower\(1\) gave '1', which is no bigint"),
        ("f", {"lift": lambda x: 1 // x, "samples": [0]}, r"f: lift\(0\) raised ZeroDivisionError"),
        (
            "f",
            {"lift": lambda x: [x], "combine": lambda a, b: a.extend(b) or a, "identity": [], "samples": [1]},
            "changed its arguments",
        ),
    ],
)
def test_definitions_that_are_refused(name: str, more: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"lift": lambda x: x, "lower": int, "identity": 0}
    if "lower" not in more and isinstance(more.get("identity"), list):
        good["lower"] = len
    with pytest.raises(AggregateError, match=message):
        define(name, **(good | more))
    assert name not in aggregates.USER_FUNCTIONS


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"lower": lambda s: str(s)}, r"query 'q1', v: f: lower\(.*\) gave '.*', which is no bigint"),
        ({"lower": lambda s: s // 0}, r"query 'q1', v: f: lower\(.*\) raised ZeroDivisionError"),
        ({"lower": lambda s: 1 << 70}, "query 'q1', v: .* does not fit 64 bits"),
        ({"lift": lambda x: None}, r"f: lift\(\d\) gave None"),
        ({"lift": lambda x: [x], "combine": lambda a, b: a.append(b), "identity": []}, "gave None"),
        ({"lift": lambda x: [x], "combine": lambda a, b: a + 1, "identity": []}, r"combine\(\[.*TypeError"),
        ({"lift": lambda x: [lambda: x], "identity": []}, "f: its state cannot be kept"),
        ({"lift": lambda x: [Column("x")], "identity": []}, "Column is not plain data"),
    ],
)
def test_functions_that_fail_are_named(more: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"lift": lambda x: x, "lower": lambda s: s, "identity": 0}
    define("f", **(good | more))
    rows = table([{"ts": n * SECOND, "k": "a", "i": n, "x": 1.0} for n in range(3)])
    with pytest.raises((AggregateError, weft.AnswerOverflow), match=message):
        weft.run(weft.sql("SELECT f(i) AS v FROM s [RANGE '9 s']"), rows, time="ts")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("my_sum(i, x)", "line 1, column 8: my_sum takes 1 argument, not 2"),
        ("my_slope(x)", "line 1, column 8: my_slope takes 2 arguments, not 1"),
        ("my_summ(i)", "did you mean 'my_sum'"),
        ("my_sum(DISTINCT i)", "DISTINCT"),
    ],
)
def test_wrong_calls_are_refused_with_their_place(call: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        weft.sql(f"SELECT {call} AS v FROM s [RANGE '9 s']")


def test_without_an_inverse_some_techniques_are_refused() -> None:
    with pytest.raises(QueryError, match="subtract-on-evict needs an exact inverse, which my_max"):
        weft.run(windows("my_max(x) AS v"), sample(), time="ts", technique="soe")
    assert isinstance(parts_of("py_max(x)")[0], ObjectPart)


def test_a_nan_stays_in_its_group() -> None:
    define("loose", lambda x: x, lambda s: s, 0.0, "double", inverse=lambda t, o: t - o)
    rows = table(
        [{"ts": n * SECOND, "k": "ab"[n % 2], "i": 1, "x": [math.nan, 2.0][n % 2]} for n in range(20)]
    )
    found = weft.run(windows("loose(x) AS v, count(*) AS n"), rows, time="ts")["narrow"].to_pylist()
    assert all(math.isnan(r["v"]) if r["k"] == "a" else r["v"] == 2.0 * r["n"] for r in found)


@pytest.mark.parametrize("name", ["auto", "slideside"])
def test_states_that_are_arrays(name: str) -> None:
    weft.define_aggregate(
        "busiest",
        lift=lambda i: np.bincount([i % 4], minlength=4),
        combine=lambda a, b: a + b,
        lower=lambda s: int(s.argmax()),
        identity=np.zeros(4, dtype=np.int64),
        result="bigint",
        samples=[1, 2],
    )
    found = weft.run(windows("busiest(i) AS v, count(*) AS n"), sample(), time="ts", technique=name)
    assert all(row["v"] in range(4) for row in found["wide"].to_pylist())


@pytest.mark.slow
def test_windows_counted_in_rows() -> None:
    rows = table([{"ts": n * SECOND, "k": "ab"[n % 3 == 0], "i": n % 7, "x": n / 4} for n in range(60)])
    select = ", ".join(
        f"{mine} AS m{n}, {mine.replace('my_', 'py_')} AS p{n}, {other} AS o{n}"
        for n, (mine, other) in enumerate(AGAIN.items())
    )
    more = "mapped(i, i) AS maps, approx_median(i) AS median, approx_count_distinct(i) AS few, count(*) AS n"
    query = weft.sql(f"SELECT k, {select}, {more} FROM s [ROWS 9 SLIDE 2] GROUP BY k")
    batches = [rows.slice(at, 20).take(pa.array([*range(10, 20), *range(10)])) for at in (0, 20, 40)]
    found = weft.run(query, batches, time="ts", lateness="30 s")["q1"].to_pylist()
    assert found
    times, keys, values = (rows[c].to_pylist() for c in ("ts", "k", "i"))
    for row in found:
        for n in range(len(AGAIN)):
            assert row[f"m{n}"] == pytest.approx(row[f"o{n}"])
            assert row[f"p{n}"] == pytest.approx(row[f"o{n}"])
        inside = [
            (t, i)
            for t, k, i in zip(times, keys, values)
            if k == row["k"] and row["window_start"] <= t <= row["window_end"]
        ]
        assert row["n"] == len(inside)
        assert row["few"] == len({i for _, i in inside})
        assert row["median"] == sorted(i for _, i in inside)[(len(inside) + 1) // 2 - 1]
        assert row["maps"] == mapped([(n, i, i) for n, (_, i) in enumerate(inside)])
