"""Static tables joined to the stream: against brute force, where they come from, and how they change."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from support import oracle
from support.oracle import Row, assert_same
from support.strategies import TIME, splits, windows
from weft.errors import JobError, QueryError
from weft.io.files import Files
from weft.model.expression import Call, Column, Expr, Literal
from weft.model.query import Aggregate, Lookup, Query
from weft.operators.lookups.tables import LookupTables
from weft.operators.windows.compile import compile_plan

ALWAYS = f"{100 * 366 * 86_400_000_000} microseconds"
"""A lateness that keeps every window open to the end."""

KEYS = {
    "a": st.sampled_from([None, "p", "q", "r", ""]),
    "b": st.sampled_from([None, 0, 1, 2]),
    "f": st.sampled_from([None, 0.0, -0.0, float("nan"), 1.5]),
}
TYPES = {"a": pa.string(), "b": pa.int64(), "f": pa.float64(), "s": pa.string(), "v": pa.float64()}
SQL_TYPES = {
    TIME: "timestamp",
    **dict.fromkeys(("a", "c", "one.s", "other.s", "two.t", "last.name"), "string"),
    **dict.fromkeys(("b", "x", "two.w", "last.n"), "bigint"),
    **dict.fromkeys(("f", "one.v", "other.v", "three.z"), "double"),
}
JOINS = {
    "one": Lookup("one", ((Column("rows.a"), "a"),)),
    "other": Lookup("one", ((Column("c"), "a"),), alias="other"),
    "two": Lookup("two", ((Column("rows.a"), "a"), (Column("rows.b"), "b"))),
    "three": Lookup("three", ((Column("f"), "f"),)),
    "last": Lookup("last", ((Column("other.s"), "s"), (Literal(1, "bigint"), "b"))),
}
"""By alias; ``one`` is joined by two columns of the rows, ``last`` by a column of another table."""

GIVES = {"one": ("s", "v"), "other": ("s", "v"), "two": ("t", "w"), "three": ("z",), "last": ("name", "n")}
GROUPS = ("rows.a", "rows.b", "one.s", "other.s", "two.t", "last.name")


def one_of(*names: str) -> st.SearchStrategy[Expr]:
    return st.sampled_from([Column(name) for name in names])


@st.composite
def streams(draw: st.DrawFn) -> pa.Table:
    size = draw(st.integers(0, 25))
    rows = draw(
        st.lists(
            st.tuples(st.integers(-60, 60), KEYS["a"], KEYS["a"], KEYS["b"], KEYS["f"], st.integers(-5, 5)),
            min_size=size,
            max_size=size,
        )
    )
    columns = list(zip(*rows)) if rows else [[]] * 6
    text = draw(st.sampled_from([pa.string(), pa.dictionary(pa.int8(), pa.string()), pa.large_string()]))
    return pa.table(
        {
            TIME: pa.array([t * 1_000_000 for t in columns[0]], pa.int64()).cast(pa.timestamp("us")),
            "a": pa.array(columns[1], pa.string()).cast(text),
            "c": pa.array(columns[2], pa.string()),
            "b": pa.array(columns[3], draw(st.sampled_from([pa.int16(), pa.int64(), pa.uint64()]))),
            "f": pa.array(columns[4], pa.float64()),
            "x": pa.array(columns[5], pa.int64()),
        }
    )


@st.composite
def static(draw: st.DrawFn, keys: tuple[str, ...], columns: dict[str, Any]) -> pa.Table:
    """A table with unique keys; those with a null in them may come more than once."""

    def same(row: tuple[Any, ...]) -> object:
        key = tuple(map(oracle.key, row[: len(keys)]))
        return draw(st.uuids()) if None in key else key

    rows = draw(st.lists(st.tuples(*(KEYS[k] for k in keys), *columns.values()), max_size=8, unique_by=same))
    names = [*keys, *columns]
    types = {"t": pa.string(), "w": pa.int32(), "z": pa.float32(), "name": pa.large_string(), "n": pa.int64()}
    return pa.table({n: pa.array([row[i] for row in rows], (TYPES | types)[n]) for i, n in enumerate(names)})


@st.composite
def tables(draw: st.DrawFn) -> dict[str, pa.Table]:
    text = st.sampled_from([None, "u", "v", "p"])
    small = st.none() | st.integers(-3, 3)
    halves = st.none() | st.integers(-6, 6).map(lambda n: n / 2)
    last = draw(static(("a", "b"), {"name": text, "n": small})).rename_columns(["s", "b", "name", "n"])
    return {
        "one": draw(static(("a",), {"s": text, "v": halves})),
        "two": draw(static(("a", "b"), {"t": text, "w": small})),
        "three": draw(static(("f",), {"z": halves})),
        "last": last,
    }


@st.composite
def joined_queries(draw: st.DrawFn) -> list[Query]:
    queries = []
    for number in range(draw(st.integers(1, 4))):
        aliases = draw(st.lists(st.sampled_from(["one", "other", "two", "three"]), max_size=3, unique=True))
        aliases += ["last"] * ("other" in aliases and draw(st.booleans()))
        joins = tuple(replace(JOINS[a], how=draw(st.sampled_from(["inner", "left"]))) for a in aliases)
        there = {f"{a}.{column}" for a in aliases for column in GIVES[a]} | {"rows.b", "rows.a", "x"}
        numbers = one_of(*sorted(n for n in there if not _is_text(n)))
        texts = one_of(*sorted(n for n in there if _is_text(n)))
        conditions = st.one_of(
            st.builds(lambda x, y: Call(">", (x, y)), numbers, numbers),
            st.builds(lambda x, y: Call("=", (x, y)), texts, texts),
            st.builds(lambda x: Call("is_null", (x,)), texts | numbers),
        )
        either = st.builds(
            lambda f, x, y: Call(f, (x, y)), st.sampled_from(["and", "or"]), conditions, conditions
        )
        groups = tuple(
            draw(st.lists(st.sampled_from([g for g in GROUPS if g in there]), max_size=2, unique=True))
        )
        aggregates = (
            Aggregate("count_star", (), "n"),
            Aggregate("sum", (Call("+", (draw(numbers), Column("x"))),), "total"),
            Aggregate("max", (draw(texts | numbers),), "top"),
        )
        query = Query(
            f"q{number}", "rows", draw(windows()), aggregates, groups, draw(st.none() | conditions | either)
        )
        if joins:
            query = replace(query, lookups=joins, group_names=tuple(g.replace(".", "_") for g in groups))
        else:
            query = _stripped(query)
        queries.append(query)
    return queries


def _is_text(name: str) -> bool:
    return SQL_TYPES.get(name.removeprefix("rows.")) == "string"


def _stripped(query: Query) -> Query:
    """The query with the columns of the stream under their bare names."""

    def bare(expr: Expr) -> Expr:
        if isinstance(expr, Column):
            return Column(expr.name.removeprefix("rows."))
        return replace(expr, args=tuple(map(bare, expr.args))) if isinstance(expr, Call) else expr

    return replace(
        query,
        aggregates=tuple(replace(a, args=tuple(map(bare, a.args))) for a in query.aggregates),
        group_by=tuple(name.removeprefix("rows.") for name in query.group_by),
        predicate=None if query.predicate is None else bare(query.predicate),
    )


def brute_force(query: Query, rows: list[Row], tables: dict[str, list[Row]]) -> list[Row]:
    """The answers over rows that meet, one by one, the row of each table whose keys equal theirs."""
    enriched = []
    for row in rows:
        row = row | {f"rows.{name}": value for name, value in row.items()}
        for join in query.lookups:
            met = [other for other in tables[join.table] if _meets(row, join, other)]
            assert len(met) <= 1
            if not met and join.how == "inner":
                break
            for column in GIVES[join.alias]:
                row[f"{join.alias}.{column}"] = met[0][column] if met else None
        else:
            enriched.append(row | dict(zip(query.result_keys, (row[name] for name in query.group_by))))
    types = SQL_TYPES | {f"rows.{name}": kind for name, kind in SQL_TYPES.items()}
    return oracle.answer([unjoined(query)], enriched, TIME, types)[query.name]


def unjoined(query: Query) -> Query:
    """The query over rows that have everything, grouped by columns that are called as in the result."""
    return replace(query, lookups=(), group_by=query.result_keys, group_names=())


def _meets(row: Row, join: Lookup, other: Row) -> bool:
    for expr, column in join.keys:
        ours = expr.value if isinstance(expr, Literal) else row[expr.name]  # type: ignore[union-attr]
        theirs = other[column]
        if ours is None or theirs is None or oracle.key(ours) != oracle.key(theirs):
            return False
    return True


@pytest.mark.slow
@given(st.data(), streams(), tables(), joined_queries())
def test_joins_are_those_of_brute_force(
    data: st.DataObject, rows: pa.Table, tables: dict[str, pa.Table], queries: list[Query]
) -> None:
    batches = data.draw(splits(rows, max_batches=3), "batches")
    results = weft.run(queries, iter(batches), TIME, ALWAYS, tables=tables, threads=2)
    plain = {name: table.to_pylist() for name, table in tables.items()}
    for query in queries:
        assert_same(unjoined(query), results[query.name], brute_force(query, rows.to_pylist(), plain))


# Trades of one minute each, and two tables beside them.

TRADES = pa.table(
    {
        "ts": pa.array([60_000_000 * m for m in (1, 4, 7, 8, 9)]).cast(pa.timestamp("us")),
        "symbol": ["A", "B", "A", "Z", None],
        "price": [10.0, 12.0, 11.0, 3.0, 4.0],
    }
)
CLOSE = pa.table({"symbol": ["A", "B", None], "cp": [10.0, 10.0, 1.0], "sector": ["x", "y", "z"]})
BY_SECTOR = """
SELECT sector, count(*) AS n, sum(price - cp) AS moved FROM trades [RANGE '10 min']
JOIN close USING (symbol) GROUP BY sector
"""


def sectors(tables: dict[str, Any], text: str = BY_SECTOR) -> dict[Any, tuple[Any, ...]]:
    found = weft.run(weft.sql(text), TRADES, time="ts", tables=tables)["q1"].to_pylist()
    return {row["sector"]: (row["n"], row["moved"]) for row in found}


MOVED = {"x": (2, 1.0), "y": (1, 2.0)}


def test_the_example_of_the_docs() -> None:
    queries = weft.sql("""
        SELECT close.sector, count(*) AS n FROM trades [RANGE '10 min' SLIDE '5 min']
        JOIN close ON trades.symbol = close.symbol WHERE abs(price - cp) / cp > 0.02 GROUP BY close.sector
    """)
    result = weft.run(queries, TRADES, time="ts", tables={"close": CLOSE})["q1"]
    assert result.column_names == ["sector", "window_start", "window_end", "n"]
    assert sorted(zip(*(result[c].to_pylist() for c in ("sector", "n")))) == [
        ("x", 1),
        ("x", 1),
        ("y", 1),
        ("y", 1),
    ]


def _write_csv(folder: Path) -> Path:
    pa.csv.write_csv(CLOSE, folder / "close.csv")
    return folder / "close.csv"


def _write_json(folder: Path) -> str:
    lines = [str(row).replace("'", '"').replace("None", "null") for row in CLOSE.to_pylist()]
    (folder / "close.jsonl").write_text("\n".join(lines))
    return str(folder / "close.jsonl")


def _write_folder(folder: Path) -> Path:
    (folder / "close").mkdir()
    pq.write_table(CLOSE.slice(0, 1), folder / "close" / "a.parquet")
    pq.write_table(CLOSE.slice(1), folder / "close" / "b.parquet")
    return folder / "close"


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: CLOSE,
        lambda folder: CLOSE.to_batches()[0],
        lambda folder: pa.table({**dict(zip(CLOSE.column_names, CLOSE.columns)), "list": [[1], [2], [3]]}),
        lambda folder: CLOSE.set_column(0, "symbol", CLOSE["symbol"].dictionary_encode()),
        lambda folder: pa.concat_tables([CLOSE.slice(i, 1) for i in range(3)]),
        lambda folder: CLOSE.to_pandas(),
        lambda folder: polars.from_arrow(CLOSE),
        lambda folder: lambda: CLOSE,
        lambda folder: lambda: _write_csv(folder),
        _write_csv,
        _write_json,
        _write_folder,
        lambda folder: Files(_write_csv(folder), format="csv"),
    ],
)
def test_tables_of_every_kind(make: Callable[[Path], Any], tmp_path: Path) -> None:
    assert sectors({"close": make(tmp_path), "unused": "/nowhere"}) == MOVED


def test_an_empty_table() -> None:
    for empty in (
        CLOSE.slice(0, 0),
        pa.table({"symbol": pa.nulls(0), "cp": pa.nulls(0), "sector": pa.nulls(0)}),
    ):
        assert sectors({"close": empty}) == {}
        assert sectors({"close": empty}, BY_SECTOR.replace("JOIN", "LEFT JOIN")) == {None: (5, None)}


def test_keys_of_other_widths_and_units_meet() -> None:
    ours = pa.table({"ts": TRADES["ts"], "k": pa.array([1, 2, 3, None, 5], pa.uint8())})
    at = pa.array([60, 240, 60 * 7, 1, 2], pa.int64()).cast(pa.timestamp("s"))
    theirs = pa.table({"k": pa.array([1, 2, 3, 4, 7], pa.int64()), "at": at})
    queries = weft.sql("SELECT count(*) AS n FROM s [RANGE '10 min'] JOIN u ON s.k = u.k AND s.ts = u.at")
    assert weft.run(queries, ours, time="ts", tables={"u": theirs})["q1"]["n"].to_pylist() == [3]


def test_whole_numbers_meet_doubles() -> None:
    ours = pa.table({"ts": TRADES["ts"], "k": pa.array([1, 2, 3, None, 2**62])})
    theirs = pandas.DataFrame({"k": [1, None, 3, 2**62], "v": [1, 2, 4, 8]})
    queries = weft.sql("SELECT sum(v) AS v FROM s [RANGE '10 min'] JOIN u USING (k)")
    assert weft.run(queries, ours, time="ts", tables={"u": theirs})["q1"]["v"].to_pylist() == [13]
    turned = ours.set_column(1, "k", ours["k"].cast(pa.float64(), safe=False))
    whole = pa.table({"k": pa.array([1, 3, 2**62 + 1]), "v": [1, 4, 8]})
    assert weft.run(queries, turned, time="ts", tables={"u": whole})["q1"]["v"].to_pylist() == [13]
    once = weft.sql("SELECT sum(v) AS v FROM s [RANGE '10 min'] JOIN u ON s.k = u.k AND u.v = 4.0")
    assert weft.run(once, ours, time="ts", tables={"u": whole})["q1"]["v"].to_pylist() == [4]


def test_times_of_other_zones_meet() -> None:
    ours = pa.table({"ts": TRADES["ts"].cast(pa.timestamp("us", "Europe/Paris"))})
    theirs = pa.table({"at": TRADES["ts"].cast(pa.timestamp("ns", "UTC")), "v": [1, 2, 4, 8, 16]})
    queries = weft.sql("SELECT sum(v) AS v FROM s [RANGE '10 min'] JOIN u ON s.ts = u.at")
    assert weft.run(queries, ours, time="ts", tables={"u": theirs})["q1"]["v"].to_pylist() == [31]


def test_equal_joins_share_a_bit_and_a_look_up() -> None:
    text = """
    SELECT count(*) AS n FROM t [RANGE '1 min'] JOIN close ON t.symbol = close.symbol WHERE cp > 1;
    SELECT sum(c.cp) AS n FROM t [RANGE '2 min'] JOIN close c USING (symbol) WHERE c.cp > 1;
    SELECT count(*) AS n FROM t [RANGE '1 min'] LEFT JOIN close USING (symbol) WHERE sector = 'x';
    SELECT count(*) AS n FROM t [RANGE '1 min'] LEFT JOIN close USING (symbol)
    """
    program = compile_plan(weft.plan(weft.sql(text)), TRADES.schema, "ts", tables={"close": CLOSE.schema})
    assert len(program.predicates) == 3
    assert [join.name for join in program.lookups] == ["close[symbol]"]
    assert [column for _, column, _ in program.lookups[0].columns] == ["symbol", "cp", "sector"]
    assert program.columns == ("ts", "symbol")


def test_windows_in_rows_that_are_spelled_differently() -> None:
    text = """
    SELECT c.sector, count(*) AS n FROM t [ROWS 2] JOIN close c USING (symbol)
    WHERE c.cp > 1 GROUP BY c.sector;
    SELECT sector, count(*) AS n FROM t [ROWS 4 SLIDE 2] JOIN close USING (symbol)
    WHERE cp > 1 GROUP BY sector
    """
    results = weft.run(weft.sql(text), TRADES, time="ts", tables={"close": CLOSE})
    assert [r["sector"].to_pylist() for r in results.values()] == [["x"], ["x"]]


def test_keys_that_cannot_be_computed_are_counted_and_meet_nothing() -> None:
    queries = weft.sql(
        "SELECT count(*) AS n FROM t [RANGE '10 min'] "
        "LEFT JOIN u ON CAST(symbol AS bigint) = u.k WHERE w IS NULL"
    )
    table = pa.table({"k": [1], "w": [2]})
    run = weft.LocalRun(queries, TRADES.schema, "ts", tables={"u": table})
    run.step(TRADES)
    assert run.close()["q1"]["n"].to_pylist() == [5]
    assert run.seen.bad == 4
    with pytest.raises(QueryError, match=r"cast"):
        weft.run(queries, TRADES, time="ts", tables={"u": table}, strict=True)


@pytest.mark.parametrize(
    ("text", "position", "message", "hint"),
    [
        ("SELECT sum(cpp) AS v FROM t [RANGE '1 s'] JOIN close USING (symbol)", (1, 12), "'cpp'", "'cp'"),
        (
            "SELECT sum(close.cpp) AS v FROM t [RANGE '1 s'] JOIN close USING (symbol)",
            (1, 12),
            "unknown column 'cpp' of 'close'",
            "'cp'",
        ),
        (
            "SELECT sum(t.cp) AS v FROM t [RANGE '1 s'] JOIN close USING (symbol)",
            (1, 12),
            "'cp'",
            "columns are",
        ),
        (
            "SELECT max(symbol) AS v FROM t [RANGE '1 s'] JOIN close ON t.symbol = close.symbol",
            (1, 12),
            "the column 'symbol' is in 't' and in 'close'",
            "close.symbol",
        ),
        (
            "SELECT sum(cp) FROM t [RANGE '1 s'] JOIN close c USING (symbol) JOIN close d ON price = d.cp",
            (1, 12),
            "the column 'cp' is in 'c' and in 'd'",
            "d.cp",
        ),
        (
            "SELECT count(*) AS v FROM t [RANGE '1 s'] JOIN close c USING (symbol) GROUP BY prise",
            (1, 80),
            "unknown column 'prise'",
            "'price'",
        ),
        (
            "SELECT max(cp) FROM t [RANGE '1 s'] JOIN close USING (symbol) GROUP BY sector, close.sector",
            (1, 80),
            "'sector' and 'close.sector' are one column",
            "once",
        ),
        (
            "SELECT sum(cp) AS v FROM t [RANGE '1 s'] JOIN clos USING (symbol)",
            (1, 47),
            "no table 'clos'",
            "'close'",
        ),
        (
            "SELECT sum(cp) AS v FROM t [RANGE '1 s'] JOIN fx USING (symbol)",
            (1, 47),
            "no table 'fx'",
            "are close",
        ),
        (
            "SELECT sum(cp) AS v FROM t [RANGE '1 s'] JOIN close ON t.symbol = close.sym",
            (1, 47),
            "the table 'close' has no column 'sym'",
            "'symbol'",
        ),
        (
            "SELECT sum(cp) AS v FROM t [RANGE '1 s'] JOIN close ON t.price = close.symbol",
            (1, 56),
            "price is double and close.symbol is string",
            "CAST(price AS string)",
        ),
        (
            "SELECT sum(cp) AS v FROM t [RANGE '1 s'] JOIN close USING (cp)",
            (1, 60),
            "unknown column 'cp'",
            "the columns are",
        ),
    ],
)
def test_names_that_mean_nothing_or_too_much(
    text: str, position: tuple[int, int], message: str, hint: str
) -> None:
    with pytest.raises(QueryError) as found:
        weft.run(weft.sql(text), TRADES, time="ts", tables={"close": CLOSE})
    assert found.value.position == position, found.value
    assert message in found.value.message
    assert hint in (found.value.hint or "")


def test_a_table_that_is_not_given() -> None:
    with pytest.raises(QueryError, match=r"no table 'close' is given; give it with tables=\{'close': ...\}"):
        weft.run(weft.sql(BY_SECTOR), TRADES, time="ts")
    program = compile_plan(
        weft.plan(weft.sql(BY_SECTOR)), TRADES.schema, "ts", tables={"close": CLOSE.schema}
    )
    with pytest.raises(JobError, match="no table 'close' is given"):
        LookupTables().refresh(program.lookups)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            pa.concat_tables([CLOSE, CLOSE]),
            "more than one row with symbol = 'A'; a row of the stream meets one",
        ),
        (5, "table 'close': int is not a table"),
        ("/no/such/folder", "table 'close': '/no/such/folder' does not exist"),
        (lambda: 1 / 0, "table 'close' cannot be read: ZeroDivisionError"),
    ],
)
def test_tables_that_cannot_be_used(given: Any, message: str) -> None:
    with pytest.raises(JobError, match=message):
        sectors({"close": given})


def test_duplicates_of_several_keys() -> None:
    table = pa.table({"a": ["p", "p", "q", None, None], "b": [1, 2, 1, 1, 1]})
    queries = weft.sql("SELECT count(*) AS n FROM t [RANGE '1 s'] JOIN u ON t.symbol = u.a AND 1 = u.b")
    weft.run(queries, TRADES, time="ts", tables={"u": table})
    twice = pa.concat_tables([table, table.slice(2, 1)])
    with pytest.raises(JobError, match="more than one row with a = 'q', b = 1"):
        weft.run(queries, TRADES, time="ts", tables={"u": twice})


def with_prices(*prices: float) -> pa.Table:
    return pa.table({"symbol": ["A", "B"][: len(prices)], "cp": list(prices)})


MOVES = "SELECT sum(price - cp) AS moved FROM trades [RANGE '1 min'] JOIN close USING (symbol)"


def trade(minute: int, symbol: str) -> pa.Table:
    """One trade at 100."""
    ts = pa.array([60_000_000 * minute]).cast(pa.timestamp("us"))
    return pa.table({"ts": ts, "symbol": [symbol], "price": [100.0]})


class Moves:
    """A run in this process, and the answers so far."""

    def __init__(self, source: Any) -> None:
        queries = weft.sql(MOVES)
        self.run = weft.LocalRun(queries, TRADES.schema, "ts", threads=1, tables={"close": source})
        self.minute = 0

    def next(self) -> float:
        """What a trade at 100 moved by, in a minute of its own; one that meets nothing closes its window."""
        self.minute += 2
        self.run.step(trade(self.minute, "A"))
        (moved,) = self.run.step(trade(self.minute + 1, "none"))["q1"]["moved"].to_pylist()
        return float(moved)


def test_a_table_replaced_between_batches() -> None:
    moves = Moves(with_prices(90.0))
    assert moves.next() == 10.0
    moves.run.replace_table("close", with_prices(80.0))
    assert moves.next() == 20.0
    moves.run.replace_table("close", pa.table({"symbol": ["A"], "cp": [70], "more": ["x"]}))
    assert moves.next() == 30.0, "integers that fit are taken as numbers"
    for bad, message in (
        (pa.table({"symbol": ["A"]}), "has no column 'cp', which queries need"),
        (pa.table({"symbol": ["A"], "cp": ["x"]}), "the column 'cp' is string now, and was double"),
        (with_prices(1.0).slice(0, 1).rename_columns(["sym", "cp"]), "has no column 'symbol'"),
        (pa.concat_tables([with_prices(1.0)] * 2), "more than one row"),
    ):
        with pytest.raises(JobError, match=message):
            moves.run.replace_table("close", bad)
        assert moves.next() == 30.0
    with pytest.raises(JobError, match="no table 'fx' is joined; the tables of this run are close"):
        moves.run.replace_table("fx", with_prices(1.0))


def test_keys_of_another_type() -> None:
    queries = weft.sql(
        "SELECT sum(w) AS w FROM t [RANGE '10 min'] LEFT JOIN u ON CAST(price AS bigint) = u.k"
    )
    given = pa.table({"k": pa.array([1], pa.int32()), "w": [1]})
    run = weft.LocalRun(queries, TRADES.schema, "ts", tables={"u": given})
    run.replace_table("u", pa.table({"k": [10.0, 11.0], "w": [1, 2]}))
    run.step(TRADES)
    assert run.close()["q1"]["w"].to_pylist() == [3], "doubles that are whole numbers are taken as such"
    for keys in (["10"], [10.5], [True]):
        with pytest.raises(JobError, match=r"the column 'k' is \w+ now, and was int64"):
            run.replace_table("u", pa.table({"k": keys, "w": [1]}))


def test_a_function_is_called_before_each_batch() -> None:
    prices = [90.0]
    moves = Moves(lambda: with_prices(*prices))
    assert moves.next() == 10.0
    prices[0] = 60.0
    assert moves.next() == 40.0


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_files_that_change_are_read_again(
    suffix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "close"
    folder.mkdir()
    write = pq.write_table if suffix == "parquet" else pa.csv.write_csv
    write(with_prices(90.5), folder / f"a.{suffix}")
    moves = Moves(folder)
    assert moves.next() == 9.5
    write(with_prices(80.0), folder / f"a.{suffix}")
    assert moves.next() == 20.0, "other types of numbers, found in the file, are converted"
    (folder / f"a.{suffix}").unlink()
    with caplog.at_level(logging.WARNING):
        assert moves.next() == 20.0
        assert moves.next() == 20.0
        (folder / "b.parquet").write_bytes(b"PAR1 half")
        assert moves.next() == 20.0
    assert len(caplog.records) == 2, "one warning for each reason"
    assert "last good version of table 'close' stays in use" in caplog.text
    (folder / "b.parquet").unlink()
    write(with_prices(70.0), folder / f"c.{suffix}")
    assert moves.next() == 30.0


def test_files_that_stay_are_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "close.parquet"
    pq.write_table(with_prices(90.0), path)
    queries = weft.sql(MOVES)
    tables = LookupTables({"close": path})
    program = compile_plan(weft.plan(queries), TRADES.schema, "ts", tables=tables.schemas(queries))

    def indexes() -> tuple[Any, ...]:
        tables.refresh(program.lookups)
        return tables.lookups(program.lookups).indexes

    first = indexes()
    assert indexes() == first
    version = tables.versions(program.lookups)["close"].id
    os.utime(path, (1, 1))
    assert indexes() == first, "the same rows are the same version"
    assert tables.versions(program.lookups)["close"].id == version
    pq.write_table(with_prices(91.0), path)
    assert tables.lookups(program.lookups).indexes == first, "until they are asked for anew"
    assert indexes() != first


def test_nan_and_zero_are_keys() -> None:
    ours = pa.table({"ts": TRADES["ts"], "f": [math.nan, -0.0, 0.0, 1.0, None]})
    theirs = pa.table({"f": [0.0, math.nan], "v": [1, 10]})
    queries = weft.sql("SELECT sum(v) AS v FROM s [RANGE '10 min'] JOIN u USING (f)")
    assert weft.run(queries, ours, time="ts", tables={"u": theirs})["q1"]["v"].to_pylist() == [12]
    with pytest.raises(JobError, match=r"more than one row with f = -0\.0"):
        weft.run(queries, ours, time="ts", tables={"u": pa.table({"f": [0.0, -0.0], "v": [1, 2]})})


def test_pandas_tables_with_missing_values() -> None:
    close = pandas.DataFrame(
        {"symbol": ["A", None, "B"], "cp": [10.0, None, 10.0], "sector": ["x", "w", "y"]}
    )
    assert sectors({"close": close}) == MOVED


@pytest.mark.parametrize("reverse", [False, True])
def test_a_table_joined_on_two_columns_gives_the_row_of_these_keys(reverse: bool) -> None:
    rows = [("A", 1, 10), ("B", 1, 20), ("A", 2, 30), ("B", 2, 40)]
    symbols, days, prices = zip(*(rows[::-1] if reverse else rows))
    close = pa.table({"symbol": symbols, "day": days, "price": prices})
    stream = pa.table(
        {
            TIME: pa.array(range(4), pa.int64()).cast(pa.timestamp("us")),
            "symbol": [row[0] for row in rows],
            "day": [row[1] for row in rows],
        }
    )
    queries = weft.sql(
        "SELECT symbol, day, max(price) AS price FROM s [RANGE '1 s'] JOIN close USING (symbol, day) "
        "GROUP BY symbol, day"
    )
    results = weft.run(queries, stream, time=TIME, tables={"close": close})["q1"].to_pylist()
    assert sorted((r["symbol"], r["day"], r["price"]) for r in results) == sorted(rows)


@pytest.mark.parametrize("second", range(4))
def test_the_key_that_comes_twice_is_named(second: int) -> None:
    rows = [("p", 1), ("q", 1), ("p", 2), ("q", 2)]
    rows.insert(3, rows[min(second, 2)])
    table = pa.table({"a": [a for a, _ in rows], "b": [b for _, b in rows]})
    queries = weft.sql("SELECT count(*) AS n FROM t [RANGE '1 s'] JOIN u ON t.symbol = u.a AND 1 = u.b")
    named = f"more than one row with a = '{rows[3][0]}', b = {rows[3][1]};"
    with pytest.raises(JobError, match=named):
        weft.run(queries, TRADES, time="ts", tables={"u": table})


def test_keys_in_a_dictionary_of_unsigned_places_with_nulls() -> None:
    symbols = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.uint8()), pa.array(["A", "B"]))
    stream = pa.table({TIME: pa.array(range(3), pa.int64()).cast(pa.timestamp("us")), "symbol": symbols})
    queries = weft.sql("SELECT sum(p) AS p FROM s [RANGE '1 s'] LEFT JOIN u ON s.symbol = u.name")
    table = pa.table({"name": ["A", "B"], "p": [1, 2]})
    assert weft.run(queries, stream, time=TIME, tables={"u": table})["q1"]["p"].to_pylist() == [3]
