"""The promises of the design, one test each: time, late rows, nulls, integers, floats, empty windows."""

from __future__ import annotations

import datetime
import math
from typing import Any

import pyarrow as pa
import pytest

import weft
from support import oracle
from support.engine_driver import drive
from support.oracle import assert_same, rows_of
from support.seeds import seeded_random
from weft.aggregates import FUNCTIONS
from weft.errors import AnswerOverflow
from weft.model.expression import Call, Column, Expr, Literal
from weft.model.query import Aggregate, Query
from weft.model.window import Window

INF, NAN = math.inf, math.nan


def ask(
    *aggregates: str,
    name: str = "q",
    range: int = 10,  # noqa: A002
    slide: int = 10,
    **parts: Any,
) -> Query:
    """A query over microseconds; an aggregate is written ``function`` or ``function column column``."""
    chosen = []
    for text in aggregates:
        function, *columns = text.split()
        chosen.append(Aggregate(function, tuple(Column(c) for c in columns), text.replace(" ", "_")))
    window = Window(range, slide, parts.pop("offset", 0))
    return Query(name, "rows", window, tuple(chosen), **parts)


def rows(ts: list[int | None], **columns: Any) -> pa.Table:
    """A table with its times in microseconds."""
    return pa.table({"ts": pa.array(ts, pa.int64()).cast(pa.timestamp("us")), **columns})


def run(query: Query, *batches: pa.Table, lateness: int = 0) -> list[dict[str, Any]]:
    """The result rows in order of window, windows in microseconds."""
    result = weft.run([query], list(batches), time="ts", lateness=f"{lateness} microseconds")
    return sorted(rows_of(result.get(query.name)), key=lambda row: row["window_start"])


def values(query: Query, *batches: pa.Table, lateness: int = 0) -> list[Any]:
    """The first aggregate of each window, in order."""
    return [row[query.aggregates[0].alias] for row in run(query, *batches, lateness=lateness)]


def starts(query: Query, *batches: pa.Table, lateness: int = 0) -> list[int]:
    """The start of each window answered, in order."""
    return [row["window_start"] for row in run(query, *batches, lateness=lateness)]


# Time


def test_windows_are_half_open() -> None:
    #  0         10        20
    #  [---------)[--------)
    #  x         x
    assert run(ask("count_star"), rows([0, 10])) == [
        {"window_start": 0, "window_end": 10, "count_star": 1},
        {"window_start": 10, "window_end": 20, "count_star": 1},
    ]


def test_windows_overlap_where_the_range_is_larger_than_the_slide() -> None:
    #  -10  -5   0    5    10   15
    #   [---------)
    #        [---------)
    #            x
    #             [---------)   does not contain x
    assert starts(ask("count_star", range=10, slide=5), rows([-1])) == [-10, -5]


def test_rows_between_windows_belong_to_none_where_the_range_is_smaller() -> None:
    #  0  3      10 13
    #  [--)      [--)
    #  x  x  x   x
    assert run(ask("count_star", range=3), rows([0, 3, 7, 10])) == [
        {"window_start": 0, "window_end": 3, "count_star": 1},
        {"window_start": 10, "window_end": 13, "count_star": 1},
    ]


def test_an_offset_shifts_every_window() -> None:
    #  -7        3         13
    #  [---------)[--------)
    #         x   x
    assert starts(ask("count_star", offset=3), rows([2, 3])) == [-7, 3]


def test_windows_before_1970_are_aligned_the_same_way() -> None:
    #  -20       -10       0
    #  [---------)[--------)[--------)
    #           x x       x x
    assert starts(ask("count_star"), rows([-11, -10, -1, 0])) == [-20, -10, 0]


def test_a_microsecond_is_a_window() -> None:
    assert starts(ask("count_star", range=1, slide=1), rows([5, 7, 5])) == [5, 7]


def test_a_window_may_be_prime_and_its_slide_another_prime() -> None:
    query, table = ask("count_star", range=17, slide=5), rows(list(range(60)))
    assert_same(
        query,
        weft.run([query], table, time="ts")["q"],
        oracle.answer([query], table.to_pylist(), "ts")["q"],
    )


@pytest.mark.timeout(60)
def test_years_between_two_rows_cost_nothing() -> None:
    year = 365 * 86_400_000_000
    queries = [
        ask("count_star", name="tiny", range=1, slide=1),
        ask("count_star", name="second", range=2_000_000, slide=1_000_000),
    ]
    table = rows([0, 50 * year, -20 * year])
    for batches in ([table], [table.slice(i, 1) for i in (2, 0, 1)]):
        results = weft.run(queries, batches, time="ts")
        assert sorted(row["window_start"] for row in rows_of(results["tiny"])) == [-20 * year, 0, 50 * year]
        assert results["second"].num_rows == 6


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Athens"])
def test_windows_are_microseconds_in_the_zone_of_the_time_column(unit: str, zone: str | None) -> None:
    instants = pa.array([0, 59, 60, 61], pa.int64()).cast(pa.timestamp("s")).cast(pa.timestamp(unit))
    table = pa.table({"ts": instants.cast(pa.timestamp(unit, zone))})
    query = ask("count_star", range=60_000_000, slide=60_000_000)
    result = weft.run([query], table, time="ts")["q"]
    assert result.schema.field("window_start").type == pa.timestamp("us", zone)
    assert result.schema.field("window_end").type == pa.timestamp("us", zone)
    assert sorted(row["window_start"] for row in rows_of(result)) == [0, 60_000_000]


# Watermark and late rows


def test_a_window_is_answered_once_when_the_watermark_reaches_its_end() -> None:
    #  0         10        20
    #  [---------)[--------)
    #  x        x |              watermark 9: nothing is due
    #             x              watermark 10: [0, 10) is due
    driven = drive([ask("count_star")], [rows([0, 9]), rows([10])], "ts")
    assert [sorted(answers) for answers in driven.rounds] == [[], ["q"], ["q"]]
    assert [row["window_start"] for answers in driven.rounds for row in rows_of(answers.get("q"))] == [0, 10]


def test_the_lateness_holds_a_window_open() -> None:
    #  0         10        20        30
    #  [---------)[--------)[--------)
    #  1 . . . . . . . . . .2              lateness 15: watermark 14 - 15 = -1
    #     3                                still in time
    query, batches = ask("count_star"), [rows([1]), rows([14]), rows([3])]
    assert values(query, *batches, lateness=15) == [2, 1]
    assert values(query, *batches, lateness=0) == [1, 1]


def test_a_row_can_be_late_for_a_short_window_and_in_time_for_a_longer_one() -> None:
    #  0         10        20        30
    #  [---------)                          answered at watermark 12
    #  [-------------------)                still open
    #  x          x
    #     late
    short, long = ask("count_star", name="short"), ask("count_star", name="long", range=20, slide=20)
    batches = [rows([0]), rows([12]), rows([3, 4])]
    results = weft.run([short, long], batches, time="ts", lateness="0 s")
    assert sorted(row["count_star"] for row in rows_of(results["short"])) == [1, 1]
    assert [row["count_star"] for row in rows_of(results["long"])] == [4]
    assert drive([short, long], batches, "ts").seen.late == 2


def test_a_row_at_the_watermark_is_in_time() -> None:
    #  0         10        20
    #  [---------)[--------)
    #             x              watermark 10
    #             x              in time: its window ends at 20
    #            x               late
    batches = [rows([10]), rows([10, 9])]
    assert values(ask("count_star"), *batches) == [2]
    assert drive([ask("count_star")], batches, "ts").seen.late == 1


def test_the_watermark_never_goes_back() -> None:
    batches = [rows([25]), rows([21]), rows([9, 22])]
    driven = drive([ask("count_star")], batches, "ts")
    assert driven.seen.late == 1
    assert values(ask("count_star"), *batches) == [3]


def test_rows_of_one_batch_are_never_late_for_each_other() -> None:
    assert values(ask("count_star"), rows([95, 3, 51, 4])) == [2, 1, 1]


def test_rows_without_a_time_are_dropped_and_counted() -> None:
    batches = [rows([None, 1, None]), rows([None])]
    assert values(ask("count_star"), *batches) == [1]
    assert drive([ask("count_star")], batches, "ts").seen.untimed == 3


def test_a_batch_without_rows_changes_nothing() -> None:
    assert values(ask("count_star"), rows([]), rows([1]), rows([]), rows([2])) == [2]


def test_every_bucket_answers_its_due_windows_in_a_round_that_brought_it_nothing() -> None:
    query = ask("count_star", group_by=("g",))
    batches = [rows(list(range(8)), g=list("abcdefgh")), rows([50], g=["a"])]
    driven = drive([query], batches, "ts", buckets=4)
    assert driven.rounds[1]["q"].num_rows == 8


def test_state_is_bounded_by_the_longest_window() -> None:
    query = ask("sum x", "max x", range=50, slide=5, group_by=("g",))
    batches = [
        rows(list(range(t, t + 20)), x=[1.0] * 20, g=[f"k{t // 200}"] * 20) for t in range(0, 4_000, 20)
    ]
    sizes = drive([query], batches, "ts", lateness=5).sizes
    assert max(sizes[len(sizes) // 2 :]) <= max(sizes[: len(sizes) // 2])


# Nulls and groups


def test_aggregates_skip_nulls_and_only_count_star_does_not() -> None:
    query = ask("count_star", "count x", "sum x", "avg x", "min x", "max x", "first x", "last x", "product x")
    (row,) = run(query, rows([1, 2, 3], x=[None, 4.0, None]))
    assert [*row.values()][2:] == [3, 1, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0]


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_over_nothing_but_nulls_counts_are_0_and_everything_else_is_null(function: str) -> None:
    arity = FUNCTIONS[function].arity
    numbers = "double" in "".join(FUNCTIONS[function].accepts[0]) if arity else True
    nulls = pa.nulls(2, pa.float64() if numbers else pa.bool_())
    query = ask(" ".join([function, *["x"] * arity]))
    expected = 2 if function == "count_star" else 0 if function.startswith("count") else None
    assert values(query, rows([1, 2], x=nulls)) == [expected]


def test_a_null_predicate_keeps_no_row() -> None:
    positive = Call(">", (Column("x"), Literal(0, "bigint")))
    table = rows([1, 2, 3], x=[1, None, -1])
    assert values(ask("count_star", predicate=positive), table) == [1]
    assert values(ask("count_star", predicate=Call("not", (positive,))), table) == [1]


def test_null_is_a_group_of_its_own_and_so_is_the_empty_string() -> None:
    result = run(ask("count_star", group_by=("g",)), rows([1, 2, 3, 4], g=[None, "", None, "a"]))
    assert {row["g"]: row["count_star"] for row in result} == {None: 2, "": 1, "a": 1}


def test_nan_is_one_group_and_so_are_both_zeros() -> None:
    other_nan = -NAN
    table = rows([1, 2, 3, 4, 5], g=[NAN, other_nan, 0.0, -0.0, None])
    result = run(ask("count_star", group_by=("g",)), table.slice(0, 3), table.slice(3), lateness=10)
    assert sorted(row["count_star"] for row in result) == [1, 2, 2]


def test_a_group_of_several_columns_is_their_combination() -> None:
    table = rows([1, 2, 3, 4], g=["a", "a", None, None], h=[1, None, 1, None], d=[True, True, True, True])
    assert len(run(ask("count_star", group_by=("g", "h", "d")), table)) == 4


# Empty windows


def test_a_window_without_rows_has_no_result() -> None:
    #  0         10        20        30
    #  [---------)[--------)[--------)
    #  x                       x
    assert starts(ask("count_star"), rows([1, 23])) == [0, 20]


def test_a_group_without_rows_in_a_window_has_no_result() -> None:
    table = rows([1, 2, 13], g=["a", "b", "a"])
    result = run(ask("count_star", group_by=("g",)), table)
    assert [
        (row["window_start"], row["g"]) for row in sorted(result, key=lambda r: (r["window_start"], r["g"]))
    ] == [
        (0, "a"),
        (0, "b"),
        (10, "a"),
    ]


def test_a_window_with_no_row_left_by_the_predicate_has_no_result_even_beside_a_query_that_has() -> None:
    never = Call("<", (Column("x"), Literal(0, "bigint")))
    queries = [ask("count_star", name="all"), ask("count_star", name="none", predicate=never)]
    results = weft.run(queries, rows([1, 2], x=[1, 2]), time="ts")
    assert rows_of(results["all"])[0]["count_star"] == 2
    assert not rows_of(results.get("none"))


def test_no_rows_at_all_give_empty_tables_with_the_right_columns() -> None:
    query = ask("sum x", "min s", group_by=("g",))
    empty = rows([], x=pa.array([], pa.int64()), s=pa.array([], pa.string()), g=pa.array([], pa.int16()))
    result = weft.run([query], empty, time="ts")["q"]
    assert result.num_rows == 0
    assert result.column_names == ["g", "window_start", "window_end", "sum_x", "min_s"]


# Integers


def test_integer_sums_are_exact_beyond_the_doubles() -> None:
    assert values(ask("sum x"), rows([1, 2], x=[2**53, 1])) == [2**53 + 1]


def test_a_sum_that_does_not_fit_is_an_error_that_names_query_and_aggregate() -> None:
    query = ask("count_star", "sum x", name="too_much")
    with pytest.raises(AnswerOverflow, match=r"too_much.*sum_x|sum_x.*too_much"):
        run(query, rows([1, 2], x=[2**63 - 1, 1]))
    with pytest.raises(AnswerOverflow):
        run(query, rows([1], x=[-(2**63)]), rows([2], x=[-1]), lateness=5)


def test_an_intermediate_overflow_that_cancels_is_no_error() -> None:
    large = 2**63 - 1
    table = rows([1, 2, 13, 14, 25, 26], x=[large, large, -large, -large, 5, 6])
    assert values(ask("sum x", range=20, slide=20), table.slice(0, 4)) == [0]
    #  0         10        20        30     each [10 k, 10 k + 10) alone overflows or not; the
    #   L L        -L -L      5 6           whole [0, 30) does not
    assert values(ask("sum x", range=30, slide=30), table) == [11]
    assert values(ask("sum x", range=30, slide=30), *(table.slice(i, 1) for i in range(6)), lateness=30) == [
        11
    ]


def test_the_limits_themselves_fit() -> None:
    assert values(ask("sum x"), rows([1, 2], x=[2**63 - 1, 0])) == [2**63 - 1]
    assert values(ask("min x", "max x"), rows([1, 2], x=[2**63 - 1, None])) == [2**63 - 1]
    assert values(ask("max x"), rows([1, 2], x=[-(2**63), None])) == [-(2**63)]


def test_a_mean_of_integers_comes_from_their_exact_sum() -> None:
    assert values(ask("avg x"), rows([1, 2], x=[2**62 + 1, -(2**62)])) == [0.5]
    assert values(ask("avg x"), rows([1, 2], x=[2**63 - 1, 2**63 - 1])) == [float(2**63 - 1)]


def test_a_range_or_a_sum_of_squares_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(AnswerOverflow, match="range_x"):
        run(ask("range x"), rows([1, 2], x=[2**63 - 1, -1]))
    with pytest.raises(AnswerOverflow, match="sum_of_squares_x"):
        run(ask("sum_of_squares x"), rows([1, 2], x=[2**31, 2**32]))
    assert values(ask("sum_of_squares x"), rows([1, 2], x=[2**31, 1 - 2**31])) == [2**63 - 2**32 + 1]


def test_a_row_whose_expression_overflows_is_null_and_counted_and_does_not_stop_the_stream() -> None:
    double: Expr = Call("*", (Column("x"), Literal(2, "bigint")))
    query = Query("q", "rows", Window(10, 10), (Aggregate("sum", (double,), "total"),))
    table = rows([1, 2], x=[2**62, 21])
    assert values(query, table) == [42]
    assert drive([query], [table], "ts").seen.bad == 1


# Floats


def test_a_huge_value_that_cancels_within_the_window_leaves_the_small_ones() -> None:
    table = rows([1, 2, 3, 4], x=[1.0, 1e16, -1e16, 0.25])
    assert values(ask("sum x"), table) == [1.25]
    assert values(ask("sum x"), *(table.slice(i, 1) for i in range(4)), lateness=5) == [1.25]
    assert values(ask("avg x"), table) == [1.25 / 4]


def test_many_magnitudes_in_one_window() -> None:
    numbers = seeded_random(5)
    x = [numbers.choice((-1, 1)) * 10.0 ** numbers.uniform(-9, 16) for _ in range(500)]
    x += [-v for v in x[:499]]
    numbers.shuffle(x)
    (total,) = values(ask("sum x", range=2_000, slide=2_000), rows(list(range(len(x))), x=x))
    assert math.isclose(total, math.fsum(x), rel_tol=1e-9)


def test_a_long_stream_with_huge_values_nan_and_infinity_keeps_later_windows_right() -> None:
    numbers = seeded_random(7)
    x = [numbers.uniform(-1, 1) * 10.0 ** numbers.randrange(-3, 3) for _ in range(20_000)]
    for place, value in (
        (500, 1e16),
        (503, -1e16),
        (3_000, NAN),
        (5_000, INF),
        (5_050, -INF),
        (9_000, 1e300),
    ):
        x[place] = value
    functions = ("sum", "avg", "min", "max", "range", "var_pop", "stddev_samp", "sum_of_squares")
    query = ask(*(f"{function} x" for function in functions), range=60, slide=25)
    table = rows(list(range(len(x))), x=x)
    expected = oracle.answer([query], table.to_pylist(), "ts")["q"]
    batches = [table.slice(i, 1_111) for i in range(0, len(x), 1_111)]
    assert_same(query, weft.run([query], batches, time="ts")["q"], expected)


def test_nan_and_infinity_in_one_window() -> None:
    query = ask("sum x", "avg x", "min x", "max x", "var_pop x", "product x")
    table = rows([1, 2, 11, 12, 21, 22, 31, 32], x=[INF, -INF, 1.0, NAN, INF, 1.0, NAN, NAN])
    expected = oracle.answer([query], table.to_pylist(), "ts")["q"]
    assert [row["min_x"] for row in expected][:3] == [-INF, 1.0, 1.0]
    assert_same(query, weft.run([query], table, time="ts")["q"], expected)


@pytest.mark.parametrize("middle", [0.0, 1e6, 1e9, 1e12, 1e16])
def test_a_variance_far_from_zero_is_as_right_as_any(middle: float) -> None:
    numbers = seeded_random(11)
    x = [middle + 2.0 * numbers.randrange(5) for _ in range(300)]
    query = ask("var_pop x", "var_samp x", "stddev_pop x", "stddev_samp x", range=70, slide=30)
    table = rows(list(range(len(x))), x=x)
    expected = oracle.answer([query], table.to_pylist(), "ts")["q"]
    assert_same(query, weft.run([query], table, time="ts")["q"], expected)
    batches = [table.slice(i, 13) for i in range(0, len(x), 13)]
    assert_same(query, weft.run([query], batches, time="ts")["q"], expected)


def test_a_product_may_leave_the_doubles_on_the_way() -> None:
    x = [1e200, 1e200, 1e-200, 1e-200, 3.0]
    assert values(ask("product x"), rows(list(range(5)), x=x)) == [pytest.approx(3.0, rel=1e-9)]


def test_a_float_sum_may_leave_the_doubles_on_the_way() -> None:
    x = [1.5e308, 1.5e308, -1.5e308, -1e308]
    assert values(ask("sum x"), rows(list(range(4)), x=x)) == [pytest.approx(5e307, rel=1e-9)]


def test_the_variance_of_one_row_is_0_for_a_population_and_null_for_a_sample() -> None:
    query = ask("var_pop x", "stddev_pop x", "var_samp x", "stddev_samp x")
    (row,) = run(query, rows([1], x=[3.5]))
    assert [*row.values()][2:] == [0.0, 0.0, None, None]


def test_geometric_mean_of_zero_and_of_negative_values() -> None:
    table = rows([1, 2, 11, 12, 21, 22], x=[2.0, 8.0, 0.0, 5.0, -1.0, 5.0])
    assert values(ask("geometric_mean x"), table) == [
        pytest.approx(4.0),
        0.0,
        pytest.approx(NAN, nan_ok=True),
    ]


# Order among equals, and types


def test_first_and_last_break_ties_by_value() -> None:
    table = rows([5, 3, 3, 5, 1, 9], x=[7, 2, 1, 8, None, None])
    (row,) = run(ask("first x", "last x"), table)
    assert (row["first_x"], row["last_x"]) == (1, 8)


def test_min_by_and_max_by_break_ties_by_time_then_value_null_first() -> None:
    table = rows([1, 2, 2, 3, 4], x=["late", "b", None, "early", "no key"], y=[5, 1, 1, 5, None])
    (row,) = run(ask("min_by x y", "max_by x y"), table)
    assert (row["min_by_x_y"], row["max_by_x_y"]) == (None, "early")


@pytest.mark.parametrize("function", ["min", "max", "first", "last", "min_by", "max_by"])
@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        ([3, 1, None], pa.int16()),
        ([3, 1, None], pa.uint8()),
        ([0.1, -0.5, None], pa.float32()),
        (["b", "a", None], pa.string()),
        (["b", "a", None], pa.large_string()),
        ([True, False, None], pa.bool_()),
        ([datetime.date(1969, 1, 1), datetime.date(2024, 2, 29), None], pa.date32()),
        ([datetime.datetime(1969, 1, 1), datetime.datetime(2024, 2, 29), None], pa.timestamp("ms")),
        ([datetime.datetime(1969, 1, 1), datetime.datetime(2024, 2, 29), None], pa.timestamp("us", "UTC")),
    ],
)
def test_a_selected_value_keeps_its_type(function: str, column: list[Any], dtype: pa.DataType) -> None:
    table = rows([1, 2, 3], x=pa.array(column, dtype))
    query = ask(" ".join([function, *["x"] * FUNCTIONS[function].arity]))
    result = weft.run([query], table, time="ts")["q"]
    in_microseconds = pa.timestamp("us", dtype.tz) if pa.types.is_timestamp(dtype) else dtype
    assert result.schema.field(query.aggregates[0].alias).type == in_microseconds
    assert_same(query, result, oracle.answer([query], table.to_pylist(), "ts")["q"])
