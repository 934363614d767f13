"""Static tables in FROM: what is read, and what is wrong, where, and what to do."""

from __future__ import annotations

import pytest

import weft
from support.sql_errors import caught
from weft.model.expression import Call, Column, Literal
from weft.model.query import Lookup

T = "FROM trades t [RANGE '1 s']"
SYMBOL = Column("symbol")
OURS = Column("trades.symbol")


def read(joins: str, rest: str = "", select: str = "count(*) AS n", source: str = T) -> weft.Query:
    return weft.sql(f"SELECT {select} {source} {joins} {rest}")[0]


@pytest.mark.parametrize(
    ("text", "joins"),
    [
        ("JOIN close USING (symbol)", [Lookup("close", ((SYMBOL, "symbol"),))]),
        ("INNER JOIN close AS c USING (symbol)", [Lookup("close", ((SYMBOL, "symbol"),), alias="c")]),
        ("LEFT JOIN close c ON t.symbol = c.sym", [Lookup("close", ((OURS, "sym"),), "left", "c")]),
        (
            "LEFT OUTER JOIN close c ON (c.sym = T.symbol)",
            [Lookup("close", ((OURS, "sym"),), "left", "c")],
        ),
        (
            "JOIN close c ON upper(symbol) = c.sym AND t.day = c.day",
            [Lookup("close", ((Call("upper", (SYMBOL,)), "sym"), (Column("trades.day"), "day")), alias="c")],
        ),
        (
            "JOIN close c ON t.symbol = c.symbol AND c.market = 'NYSE'",
            [Lookup("close", ((OURS, "symbol"), (Literal("NYSE", "string"), "market")), alias="c")],
        ),
        (
            "JOIN close c USING (symbol, day) LEFT JOIN sectors s ON c.sector = s.id",
            [
                Lookup("close", ((SYMBOL, "symbol"), (Column("day"), "day")), alias="c"),
                Lookup("sectors", ((Column("c.sector"), "id"),), "left", "s"),
            ],
        ),
        ("JOIN db.close ON t.symbol = close.symbol", [Lookup("db.close", ((OURS, "symbol"),))]),
    ],
)
def test_joins_are_read(text: str, joins: list[Lookup]) -> None:
    assert read(text).lookups == tuple(joins)


def test_columns_keep_the_name_before_them() -> None:
    query = read(
        "JOIN close c USING (symbol)",
        "WHERE t.price > C.cp AND cp > 0 GROUP BY c.sector, exchange HAVING sector <> 'x'",
        "c.sector, exchange, sum(t.price) AS total, upper(c.sector) AS up",
    )
    assert str(query.predicate) == "((trades.price > c.cp) AND (cp > 0))"
    assert query.group_by == ("c.sector", "exchange")
    assert query.result_columns == (
        "sector",
        "exchange",
        "window_start",
        "window_end",
        "total",
        "up",
    )
    assert query.aggregates[0].args == (Column("trades.price"),)


def test_names_before_the_columns_of_the_stream_are_taken_off_where_nothing_is_joined() -> None:
    query = read("", "WHERE t.price > 1 GROUP BY t.symbol", "t.symbol, count(*) AS n")
    assert str(query.predicate) == "(price > 1)"
    assert (query.group_by, query.group_names) == (("symbol",), ())


def test_clashing_group_columns_are_told_by_their_table() -> None:
    query = read(
        "LEFT JOIN close c ON t.symbol = c.symbol",
        "GROUP BY t.symbol, c.symbol, c.sector",
        "t.symbol, c.symbol, sector, max(c.cp) AS top",
    )
    assert query.result_keys == ("symbol", "c_symbol", "sector")


def test_every_spelling_of_a_window() -> None:
    for text in (
        "FROM trades [RANGE '5 min'] AS t JOIN close ON t.symbol = close.symbol",
        "FROM trades t JOIN close ON t.symbol = close.symbol GROUP BY window(t.ts, '5 minutes')",
        "FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) t "
        "JOIN close ON t.symbol = close.symbol GROUP BY window_start, window_end",
    ):
        query = weft.sql(f"SELECT count(*) AS n {text}")[0]
        assert query.window.range == 300_000_000
        assert query.lookups == (Lookup("close", ((OURS, "symbol"),)),)


def test_the_papers_spelling_with_commas() -> None:
    query = weft.sql("""
        SELECT sum(T.price * T.vol) FROM Trades T [RANGE '600 s' SLIDE '300 s'], Close C, Index X
        WHERE T.symbol = C.symbol AND X.symbol = T.symbol AND C.market = X.market AND X.r3000 AND C.lot = 5
    """)[0]
    ours = Column("Trades.symbol")
    assert query.lookups == (
        Lookup("Close", ((ours, "symbol"),), alias="C"),
        Lookup("Index", ((ours, "symbol"), (Column("C.market"), "market")), alias="X"),
    )
    assert str(query.predicate) == "(X.r3000 AND (C.lot = 5))"


def test_the_builder_says_the_same() -> None:
    begun = weft.query("q1").source("trades").window("1 s", ends_at_multiples=True)
    built = begun.join("close", on="symbol").join("sectors", {"close.sector": "id"}, how="left", alias="s")
    built = built.where("close.cp > 1").group_by("s.name").aggregate(n="count(*)").build()
    said = read(
        "JOIN close USING (symbol) LEFT JOIN sectors s ON close.sector = s.id",
        "WHERE close.cp > 1 GROUP BY s.name",
        source="FROM trades [RANGE '1 s']",
    )
    assert built == said
    several = begun.join("close", on=["symbol", "day"]).aggregate(n="count(*)").build()
    assert several.lookups == (Lookup("close", ((SYMBOL, "symbol"), (Column("day"), "day"))),)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on": "symbol", "how": "right"}, "how must be 'inner' or 'left'"),
        ({"on": []}, "nothing says which row of 'close'"),
        ({"on": "a -"}, "on 'a -': something is missing"),
        ({"on": {"other.symbol": "symbol"}}, "unknown table 'other'"),
        ({"on": "symbol", "alias": "trades"}, "two tables are called 'trades'"),
    ],
)
def test_the_builder_refuses(options: dict[str, object], message: str) -> None:
    begun = weft.query("q1").source("trades").window("1 s").aggregate(n="count(*)")
    with pytest.raises(weft.QueryError, match=message) as found:
        begun.join("close", **options).build()  # type: ignore[arg-type]
    assert found.value.query == "q1"


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        (f"SELECT count(*) {T} JOIN ^u", "a JOIN without ON"),
        (f"SELECT count(*) {T} CROSS JOIN ^u", "nothing says which row of 'u' to join"),
        (f"SELECT count(*), max(y) {T}, ^u", "nothing says which row of 'u' to join"),
        (f"SELECT count(*), max(y) {T}, ^u WHERE u.a > t.a", "nothing says which row of 'u' to join"),
        (f"SELECT count(*) {T} RIGHT JOIN ^u ON t.a = u.a", "RIGHT JOIN is not supported"),
        (f"SELECT count(*) {T} FULL OUTER JOIN ^u ON t.a = u.a", "FULL OUTER JOIN is not supported"),
        (f"SELECT count(*) {T} LEFT SEMI JOIN ^u ON t.a = u.a", "LEFT SEMI JOIN is not supported"),
        (f"SELECT count(*) {T} LEFT ANTI JOIN ^u ON t.a = u.a", "LEFT ANTI JOIN is not supported"),
        (f"SELECT count(*) {T} NATURAL JOIN ^u", "NATURAL JOIN is not supported"),
        (f"SELECT count(*) {T} JOIN (SELECT ^1) u ON t.a = u.a", "JOIN takes the name of a table"),
        (f"SELECT count(*) {T} JOIN u ON ^t.a < u.a", "ON takes equalities"),
        (f"SELECT count(*) {T} JOIN u ON t.a = u.a AND ^t.b > 3", "ON takes equalities"),
        (f"SELECT count(*) {T} JOIN u ON ^t.a = u.a OR t.b = u.b", "ON takes equalities"),
        (f"SELECT count(*) {T} JOIN u ON ^t.a <=> u.a", "ON takes equalities"),
        (f"SELECT count(*) {T} JOIN u ON ^t.a = t.b", "ON takes equalities"),
        (f"SELECT count(*) {T} JOIN u ON ^u.a = u.b", "ON takes equalities"),
        (f"SELECT count(*) {T} JOIN u ON ^t.a = u.a + 1", "ON takes equalities"),
        (f"SELECT count(*) {T} JOIN u ON ^v.a = u.a JOIN v ON t.a = v.a", "ON takes equalities"),
        (f"SELECT count(*) {T} JOIN u ON ^max(t.a) = u.a", "an aggregate is not allowed in ON"),
        (f"SELECT count(*) {T} JOIN u ON ^w.a = u.a", "unknown table 'w'"),
        (f"SELECT count(*) {T} JOIN u USING (a) JOIN ^u USING (b)", "two tables are called 'u'"),
        (f"SELECT count(*) {T} JOIN ^trades USING (a)", "two tables are called 'trades'"),
        (
            f"SELECT ^count(*) {T} JOIN u [RANGE '1 s'] ON t.a = u.a",
            "an aggregate over a join needs a window",
        ),
        (f"SELECT sum(^w.x) {T} JOIN u USING (a)", "unknown table 'w'"),
        (f"SELECT ^u.b, count(*) {T} JOIN u USING (a) GROUP BY b", "neither grouped nor aggregated"),
    ],
)
def test_errors(marked: str, message: str) -> None:
    assert message in caught(marked).message
