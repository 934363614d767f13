"""SELECT lists, hidden aggregates, HAVING, names and files of many queries."""

from __future__ import annotations

import pytest

import weft
from weft.model.expression import Call, Column, Literal
from weft.model.query import Aggregate, Output, Query
from weft.model.window import Window

FRAME = "FROM trades [RANGE '1 min']"


def one(text: str) -> Query:
    (query,) = weft.sql(text)
    return query


def test_the_example_of_the_design() -> None:
    busy, calm = weft.sql("""
      -- name: busy
      SELECT symbol, sum(price * volume) AS value, max(price) AS top
      FROM trades [RANGE '12 min' SLIDE '5 min'] WHERE volume > 500 GROUP BY symbol;
      -- name: calm
      SELECT symbol, avg(price) AS mean FROM trades GROUP BY symbol, window(ts, '1 hour', '10 minutes')
    """)
    price, volume = Column("price"), Column("volume")
    assert busy == Query(
        name="busy",
        source="trades",
        window=Window.ending_at_multiples(720_000_000, 300_000_000),
        aggregates=(
            Aggregate("sum", (Call("*", (price, volume)),), "value"),
            Aggregate("max", (price,), "top"),
        ),
        group_by=("symbol",),
        predicate=Call(">", (volume, Literal(500, "bigint"))),
    )
    assert calm == Query(
        name="calm",
        source="trades",
        window=Window(3_600_000_000, 600_000_000),
        aggregates=(Aggregate("avg", (price,), "mean"),),
        group_by=("symbol",),
        time="ts",
    )
    assert busy.predicate is not None and busy.predicate.position == (4, 56)
    assert busy.aggregates[1].position == (3, 52)


@pytest.mark.parametrize(
    ("item", "alias"),
    [
        ("sum(price)", "sum_price"),
        ("SUM(t.price)", "sum_price"),
        ("count(*)", "count"),
        ("count(price)", "count_price"),
        ("max_by(price, volume)", "max_by_price_volume"),
        ("sum(price  *  volume)", "sum(price * volume)"),
        ("sum(price /* each */ )", "sum_price"),
        ("sum(price)\n/ count(*)", "sum(price) / count(*)"),
        ("sum(price) AS `my total`", "my total"),
        ("sum(price) total", "total"),
        ("(sum(price)) AS total", "total"),
    ],
)
def test_names_of_result_columns(item: str, alias: str) -> None:
    assert one(f"SELECT {item} FROM trades [RANGE '1 min'] AS t").result_columns[-1] == alias


def test_columns_that_are_always_there_may_be_selected() -> None:
    plain = one(f"SELECT count(*) {FRAME} GROUP BY symbol")
    items = "symbol, trades.symbol AS symbol, window_start, WINDOW_END, window, window.end AS window_end"
    assert one(f"SELECT {items}, count(*) {FRAME} GROUP BY symbol") == plain
    assert plain.outputs == ()


def test_expressions_over_aggregates_hide_what_they_need() -> None:
    query = one(
        f"SELECT sum(price * volume) / sum(volume) AS vwap, sum(volume) AS v, max(price) AS _1 {FRAME}"
    )
    price, volume = Column("price"), Column("volume")
    assert query.aggregates == (
        Aggregate("sum", (volume,), "v"),
        Aggregate("max", (price,), "_1"),
        Aggregate("sum", (Call("*", (price, volume)),), "_2"),
    )
    assert query.outputs == (
        Output("vwap", Call("/", (Column("_2"), Column("v")))),
        Output("v", Column("v")),
        Output("_1", Column("_1")),
    )
    assert query.result_columns == ("window_start", "window_end", "vwap", "v", "_1")


def test_equal_aggregates_are_hidden_once() -> None:
    query = one(f"SELECT sum(x) / count(*) AS a, sum(x) * 2 AS b {FRAME} HAVING sum(x) > 1 AND count(*) > 2")
    assert [(a.function, a.alias) for a in query.aggregates] == [("sum", "_1"), ("count_star", "_2")]
    assert str(query.having) == "((_1 > 1) AND (_2 > 2))"


def test_expressions_over_group_columns() -> None:
    query = one(f"SELECT upper(symbol) AS u, symbol AS s, count(*) AS n {FRAME} GROUP BY symbol")
    assert [(o.alias, str(o.expr)) for o in query.outputs] == [
        ("u", "upper(symbol)"),
        ("s", "symbol"),
        ("n", "n"),
    ]
    assert [a.alias for a in query.aggregates] == ["n"]


def test_having_reads_aliases_aggregates_and_group_columns() -> None:
    query = one(
        f"SELECT sum(x) AS total, sum(x) / count(*) AS mean {FRAME} GROUP BY symbol"
        " HAVING total > 10 AND mean < 5 AND max(y) > 1 AND symbol <> 'A'"
    )
    expected = "(((total > 10) AND ((total / _1) < 5)) AND ((_2 > 1) AND (symbol <> 'A')))"
    assert str(query.having) == expected
    assert [a.alias for a in query.aggregates] == ["total", "_1", "_2"]


def test_having_alone_hides_its_aggregates() -> None:
    query = one(f"SELECT sum(x) AS total {FRAME} HAVING count(*) > 1")
    assert query.outputs == (Output("total", Column("total")),)
    assert [a.alias for a in query.aggregates] == ["total", "_1"]
    without = one(f"SELECT sum(x) AS total {FRAME} HAVING sum(x) > 1")
    assert (without.outputs, str(without.having)) == ((), "(total > 1)")


def test_an_alias_may_be_the_name_of_a_column() -> None:
    query = one(f"SELECT max(price) AS price {FRAME} HAVING price > 5 AND sum(price) > 9")
    assert str(query.having) == "((price > 5) AND (_1 > 9))"
    assert query.aggregates[1] == Aggregate("sum", (Column("price"),), "_1")


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("SELECT sum(t.price) AS a FROM trades [RANGE '1 s'] t WHERE T.price > 1", "trades"),
        ("SELECT sum(t.price) AS a FROM trades AS t [RANGE '1 s'] WHERE t.price > 1", "trades"),
        ("SELECT sum(trades.price) AS a FROM trades [RANGE '1 s'] WHERE price > 1", "trades"),
        ("SELECT sum(trades.price) AS a FROM db.trades [RANGE '1 s'] WHERE db.trades.price > 1", "db.trades"),
        ("SELECT sum(`price`) AS a FROM `my trades` [RANGE '1 s'] WHERE `price` > 1", "my trades"),
    ],
)
def test_tables_and_their_aliases(text: str, source: str) -> None:
    query = one(text)
    assert query.source == source
    assert query.aggregates == (Aggregate("sum", (Column("price"),), "a"),)
    assert str(query.predicate) == "(price > 1)"


def test_group_by() -> None:
    assert one(f"SELECT a, b, count(*) {FRAME} GROUP BY b, a").group_by == ("b", "a")
    assert one(f"SELECT a, count(*), b {FRAME} GROUP BY 3, 1").group_by == ("b", "a")
    assert one(f"SELECT count(*) {FRAME} GROUP BY (a), a, trades.b").group_by == ("a", "b")
    assert one("SELECT window_start, a, count(*) FROM t GROUP BY 1, 2, window(ts, '1 s')").group_by == ("a",)


def test_names() -> None:
    queries = weft.sql(f"""
        -- a file of queries
        SELECT count(*) {FRAME}; -- name: second
        SELECT count(*) {FRAME};;
        /* -- name: no */ SELECT '-- name: neither' AS x, count(*) {FRAME}
        ; --NAME:a.b-c_1
        -- a comment of the query
        SELECT count(*) {FRAME} ;
        ;
    """)
    assert [q.name for q in queries] == ["q1", "second", "q3", "a.b-c_1"]


def test_unnamed_queries_never_take_a_given_name() -> None:
    text = f"SELECT count(*) {FRAME}; -- name: q1\nSELECT count(*) {FRAME}; SELECT count(*) {FRAME}"
    assert [q.name for q in weft.sql(text)] == ["q1_", "q1", "q3"]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_of_any_system(newline: str) -> None:
    text = newline.join(["\ufeff-- name: a", f"SELECT count(*) {FRAME};", "", "-- name: b", "SELECT foo(x)"])
    with pytest.raises(weft.QueryError) as caught:
        weft.sql(text + f" {FRAME}")
    assert (caught.value.query, caught.value.position) == ("b", (5, 8))


def test_case_of_names_is_kept() -> None:
    query = one("SELECT Symbol, max(Price) AS Top FROM Trades [RANGE '1 s'] GROUP BY Symbol")
    assert (query.source, query.group_by) == ("Trades", ("Symbol",))
    assert query.aggregates == (Aggregate("max", (Column("Price"),), "Top"),)
