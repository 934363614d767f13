"""The builder: the same question as in SQL is the same Query, and errors name the query and the snippet."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import pyarrow as pa
import pytest

import weft
from weft.errors import QueryError
from weft.model.query import Query
from weft.model.window import Window

QUESTIONS = {
    "cql": (
        """
        -- name: busy
        SELECT symbol, sum(price * volume) AS value, max(price) AS top
        FROM trades [RANGE '12 min' SLIDE '5 min' OFFSET '1 min'] WHERE volume > 500 GROUP BY symbol
        """,
        weft.query("busy")
        .source("trades")
        .where("volume > 500")
        .group_by("symbol")
        .window("12 min", "5 min", offset="1 min", ends_at_multiples=True)
        .aggregate(value="sum(price * volume)", top="max(price)"),
    ),
    "spark": (
        """
        -- name: busy
        SELECT symbol, sum(price * volume) / sum(volume) AS vwap, sum(volume) AS volume
        FROM trades AS t WHERE t.volume > 500 AND symbol IN ('A', 'B')
        GROUP BY symbol, side, window(ts, '12 minutes', '5 minutes', '1 minute')
        HAVING vwap > 10 AND count(*) > 2
        """,
        weft.query("busy")
        .aggregate(vwap="sum(price * volume) / sum(volume)")
        .aggregate(volume="sum(trades.volume)")
        .having("vwap > 10")
        .having("count(*) > 2")
        .window("12 min", datetime.timedelta(minutes=5), offset=datetime.timedelta(minutes=1), time="ts")
        .where("trades.volume > 500")
        .where("symbol IN ('A', 'B')")
        .group_by("symbol")
        .group_by("side", "symbol")
        .source("trades"),
    ),
    "flink": (
        """
        -- name: busy
        SELECT window_start, window_end, count(*) FILTER (WHERE price IS NULL) AS missing
        FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end
        """,
        weft.query("busy")
        .source("trades")
        .window(datetime.timedelta(days=1), time="ts")
        .aggregate(missing="count(*) FILTER (WHERE price IS NULL)"),
    ),
}


@pytest.mark.parametrize("spelling", QUESTIONS)
def test_sql_and_builder_give_equal_queries(spelling: str) -> None:
    text, builder = QUESTIONS[spelling]
    (query,) = weft.sql(text)
    assert query == builder.build()
    assert hash(query) == hash(builder.build())


def test_every_step_gives_a_new_builder() -> None:
    start = weft.query("q").source("t").window("1 min")
    one, other = start.aggregate(a="count(*)"), start.aggregate(b="max(x)")
    assert [a.alias for a in one.build().aggregates] == ["a"]
    assert [a.alias for a in other.build().aggregates] == ["b"]
    assert start.items == ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        start.name = "r"  # type: ignore[misc]


def test_a_built_query_runs_like_one_from_sql() -> None:
    seconds = pa.array([0, 1_000_000, 65_000_000], pa.timestamp("us"))
    table = pa.table({"ts": seconds, "symbol": ["a", "b", "a"], "price": [1.0, 2.0, 3.0]})
    built = weft.query("q").source("t").window("1 min", time="ts").aggregate(top="max(price)", n="count(*)")
    (text,) = weft.sql(
        "-- name: q\nSELECT max(price) AS top, count(*) AS n FROM t GROUP BY window(ts, '1 min')"
    )
    found = weft.run([built.build()], table, time="ts")
    assert found == weft.run([text], table, time="ts")
    assert found["q"].select(["top", "n"]).to_pylist() == [{"top": 2.0, "n": 2}, {"top": 3.0, "n": 1}]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("12 min", "5 min"), Window(720_000_000, 300_000_000)),
        (("12 min",), Window(720_000_000, 720_000_000)),
        (("5 min", "12 min"), Window(300_000_000, 720_000_000)),
        ((datetime.timedelta(weeks=1), "1 day"), Window(604_800_000_000, 86_400_000_000)),
    ],
)
def test_windows(arguments: tuple[str, ...], expected: Window) -> None:
    assert weft.query("q").window(*arguments).frame == expected


def build(**items: str) -> Query:
    return weft.query("q").source("t").group_by("g").window("1 min").aggregate(**items).build()


@pytest.mark.parametrize(
    ("make", "position", "message"),
    [
        (lambda: weft.query("a b"), None, "'a b' is not a query name"),
        (
            lambda: weft.query("q").window("1 min").build(),
            None,
            "query 'q': no source; call .source('trades')",
        ),
        (lambda: weft.query("q").source("t").build(), None, "query 'q': no window; call .window("),
        (lambda: build(), None, "query 'q': the query has no aggregate"),
        (lambda: weft.query("q").window("1 month"), None, "query 'q': range: '1 month' uses months"),
        (lambda: weft.query("q").window("1 min", "-1 s"), None, "query 'q': slide: a negative duration"),
        (lambda: weft.query("q").window("0 s"), None, "query 'q': the window's range must be positive"),
        (
            lambda: weft.query("q").where("volume >"),
            (1, 8),
            "where 'volume >': something is missing after '>'",
        ),
        (lambda: weft.query("q").where(""), None, "where '': an empty expression"),
        (lambda: weft.query("q").where("a;b"), (1, 2), "where 'a;b': unexpected ';'"),
        (lambda: weft.query("q").where("a, b"), (1, 1), "where 'a, b': not one expression"),
        (lambda: weft.query("q").where("a AS b"), (1, 1), "where 'a AS b': not one expression"),
        (lambda: weft.query("q").where("a FROM b"), (1, 1), "where 'a FROM b': not one expression"),
        (lambda: weft.query("q").where("a UNION SELECT b"), (1, 3), "UNION is not supported"),
        (lambda: weft.query("q").having("(a"), (1, 1), "having '(a': '(' is never closed"),
        (lambda: weft.query("q").aggregate(v="sum('a"), (1, 5), "' is never closed"),
        (
            lambda: build(v="sum(foo(x))"),
            (1, 5),
            "query 'q', line 1, column 5: v 'sum(foo(x))': function 'foo'",
        ),
        (lambda: build(v="x + sum(y)"), (1, 1), "v 'x + sum(y)': the column 'x' is neither grouped"),
        (lambda: build(v="upper(g)"), None, "query 'q': the query has no aggregate"),
        (lambda: build(g="count(*)"), None, "the result column 'g' has the name of the group-by column 'g'"),
        (lambda: build(a="count(*)", A="count(*)"), None, "the result column 'A' has the name of another"),
        (lambda: build(s="window_start"), None, "window_start cannot be renamed to 's'"),
        (lambda: build(v="sum(u.x)"), (1, 5), "v 'sum(u.x)': unknown table 'u'"),
        (lambda: build(v="sum(sum(x))"), (1, 5), "an aggregate is not allowed in the arguments of sum"),
    ],
)
def test_errors(make: object, position: tuple[int, int] | None, message: str) -> None:
    assert callable(make)
    with pytest.raises(weft.QueryError) as caught:
        make()
    assert caught.value.position == position
    assert message in str(caught.value)
    assert caught.value.hint


def test_errors_in_where_and_having_name_their_snippet() -> None:
    start = weft.query("q").source("t").window("1 min").aggregate(n="count(*)")
    with pytest.raises(weft.QueryError, match=r"where 'sum\(x\) > 1': an aggregate is not allowed in WHERE"):
        start.where("sum(x) > 1").build()
    with pytest.raises(
        weft.QueryError, match="having 'x > 1': the column 'x' is neither grouped nor aggregated"
    ):
        start.having("x > 1").build()


def test_windows_counted_in_rows_are_the_same_as_in_sql() -> None:
    (written,) = weft.sql("-- name: q\nSELECT sum(x) AS s FROM t [ROWS 100 SLIDE 10 OFFSET 3]")
    built = weft.query("q").source("t").rows(100, 10, offset=3).aggregate(s="sum(x)").build()
    assert built == written


@pytest.mark.parametrize("rows", [(0,), (10, 0), (-1,), (1.5,), ("10",), (10, True)])
def test_a_number_of_rows_is_checked(rows: tuple[Any, ...]) -> None:
    with pytest.raises(QueryError, match="q"):
        weft.query("q").rows(*rows)
