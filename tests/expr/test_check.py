"""What the checker accepts, what it refuses, and how it says so: what, where, remedy."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from support.expr_cases import call, literal
from weft.errors import QueryError
from weft.expr.check import check, check_predicate, result_type
from weft.expr.functions import ALIASES, FUNCTIONS
from weft.expr.types import arrow_type, sql_type
from weft.model.expression import Call, Column, Expr, Literal

SCHEMA = pa.schema(
    {
        "price": pa.float64(),
        "volume": pa.int32(),
        "symbol": pa.dictionary(pa.int32(), pa.string()),
        "ts": pa.timestamp("ns", "Europe/Paris"),
        "day": pa.date32(),
        "open": pa.bool_(),
        "amount": pa.decimal128(12, 2),
        "blob": pa.binary(),
        "nothing": pa.null(),
    }
)
PRICE, VOLUME, SYMBOL, TS, DAY, OPEN, AMOUNT, BLOB, NOTHING = map(Column, SCHEMA.names)
ITEMS = 10_000


@pytest.mark.parametrize(
    ("expr", "kind"),
    [
        (call("+", VOLUME, 1), "bigint"),
        (call("+", VOLUME, 1.5), "double"),
        (call("/", VOLUME, 2), "double"),
        (call("%", VOLUME, 2), "bigint"),
        (call("div", VOLUME, 2), "bigint"),
        (call("floor", PRICE), "bigint"),
        (call("round", PRICE), "double"),
        (call("round", VOLUME, -1), "bigint"),
        (call("sign", VOLUME), "double"),
        (call("=", SYMBOL, "a"), "boolean"),
        (call(">", TS, "2024-01-01"), "boolean"),
        (call("<", DAY, TS), "boolean"),
        (call("in", VOLUME, 1, 2.5, None), "boolean"),
        (call("case", OPEN, 1, None), "bigint"),
        (call("case", OPEN, 1, 2.5), "double"),
        (call("coalesce", NOTHING, SYMBOL), "string"),
        (call("nullif", VOLUME, 0), "bigint"),
        (call("greatest", VOLUME, PRICE), "double"),
        (call("cast", AMOUNT, "double"), "double"),
        (call("is_null", AMOUNT), "boolean"),
        (call("+", NOTHING, 1), "bigint"),
        (call("=", None, None), "boolean"),
        (NOTHING, "null"),
        (AMOUNT, "decimal"),
        (TS, "timestamp"),
    ],
    ids=str,
)
def test_types(expr: Expr, kind: str) -> None:
    assert check(expr, SCHEMA) == kind


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (Column("prise"), "unknown column 'prise'; did you mean 'price'?"),
        (Column("PRICE"), "unknown column 'PRICE'; did you mean 'price'?"),
        (Column("zzz"), "unknown column 'zzz'; the columns are price, volume, symbol, ts, day, open, amount"),
        (BLOB, "column 'blob' is binary, which expressions cannot read; numbers, booleans, strings"),
        (call("sleep", PRICE), "unknown function 'sleep'"),
        (call("lenght", SYMBOL), "unknown function 'lenght'; did you mean 'length'?"),
        (call("pow", PRICE, 2), "unknown function 'pow'; it is called power here"),
        (call("=", SYMBOL, VOLUME), "cannot compare string with bigint in (symbol = volume)"),
        (
            call("=", VOLUME, "12"),
            "cannot compare bigint with string in (volume = '12'); write cast('12' AS bigint)",
        ),
        (call("=", OPEN, 1), "cannot compare boolean with bigint"),
        (call(">", TS, SYMBOL), "cannot compare timestamp with string"),
        (call(">", TS, "yesterday"), "'yesterday' is not a timestamp; write it like '2024-01-31 12:30:00'"),
        (call("=", DAY, "2024-02-30"), "'2024-02-30' is not a date; write it like '2024-01-31'"),
        (call("in", TS, "2024-01-01", "x"), "'x' is not a timestamp"),
        (call("in", SYMBOL, 1), "cannot compare string with bigint"),
        (call("in", VOLUME, PRICE), "IN takes constants, and price is not one; write volume = price OR ..."),
        (call("+", SYMBOL, 1), "+ takes a number, and symbol is string; write cast(symbol AS bigint)"),
        (call("+", TS, 1), "+ takes a number, and ts is timestamp"),
        (call("-", 1, OPEN), "- takes a number, and open is boolean; write cast(open AS bigint)"),
        (call("div", PRICE, 2), "div takes a bigint, and price is double"),
        (call("length", VOLUME), "length takes a string, and volume is bigint; write cast(volume AS string)"),
        (
            call("concat", SYMBOL, PRICE),
            "concat takes a string, and price is double; write cast(price AS string)",
        ),
        (
            call("year", SYMBOL),
            "year takes a timestamp, and symbol is string; write cast(symbol AS timestamp)",
        ),
        (call("and", OPEN, VOLUME), "AND takes a boolean, and volume is bigint"),
        (call("not", VOLUME), "NOT takes a boolean"),
        (call("case", VOLUME, 1, 2), "a CASE condition is a boolean, and volume is bigint"),
        (call("case", OPEN, 1, "a"), "cannot mix in one CASE bigint with string"),
        (call("case", OPEN, 1, OPEN, 2), "CASE needs a value for each condition and one for ELSE"),
        (call("coalesce", SYMBOL, 0), "cannot mix in one coalesce() string with bigint"),
        (call("abs"), "abs takes 1 argument, not 0"),
        (call("substring", SYMBOL), "substring takes 2 to 3 arguments, not 1"),
        (call("greatest", PRICE), "greatest takes at least 2 arguments, not 1"),
        (call("round", PRICE, VOLUME), "round needs a constant here, and volume is not one"),
        (call("like", SYMBOL, SYMBOL), "like needs a constant here, and symbol is not one"),
        (call("like", SYMBOL, "a\\b"), "the escape \\ is not before %, _ or itself"),
        (call("like", SYMBOL, "a", "xy"), "the ESCAPE of a LIKE is one character, not 'xy'"),
        (
            call("+", AMOUNT, 1),
            "amount is decimal, which only cast(), IS NULL and count() take; write cast(amount AS",
        ),
        (call("=", AMOUNT, AMOUNT), "amount is decimal"),
        (
            call("cast", DAY, "bigint"),
            "cannot cast date to bigint in cast(day AS bigint); date casts to timestamp, string",
        ),
        (call("cast", AMOUNT, "timestamp"), "cannot cast decimal to timestamp"),
        (call("cast", PRICE, "int"), "cannot cast to int; the types are boolean, bigint"),
        (Literal(2**63, "bigint"), "9223372036854775808 is not a bigint"),
        (Literal("a", "bigint"), "'a' is not a bigint"),
        (Literal(1, "money"), "unknown type money"),
    ],
    ids=lambda v: str(v)[:60],
)
def test_refusals(expr: Expr, message: str) -> None:
    with pytest.raises(QueryError) as error:
        check(expr, SCHEMA)
    assert message in str(error.value)


def test_errors_carry_the_position_of_the_part() -> None:
    price, symbol = Column("price", (1, 7)), Column("symbol", (3, 15))
    expr = Call("*", (price, Call("+", (symbol, literal(1)), (3, 22))), (2, 1))
    with pytest.raises(QueryError, match=r"^line 3, column 15: \+ takes a number") as error:
        check(expr, SCHEMA)
    assert error.value.position == (3, 15)


def test_positions_are_those_of_this_spelling() -> None:
    """Equal parts of several queries are one node, but each error is about its own text."""
    check(Call("=", (Column("symbol", (9, 9)), Literal("a", "string", (9, 18)))), SCHEMA)
    for line in (1, 2):
        with pytest.raises(QueryError) as error:
            check(Call("abs", (Column("symbol", (line, 5)),)), SCHEMA)
        assert error.value.position == (line, 5)


def test_predicates_are_boolean() -> None:
    check_predicate(call(">", PRICE, 1), SCHEMA)
    check_predicate(literal(None), SCHEMA)
    with pytest.raises(
        QueryError, match=r"a condition is boolean, and \(price \+ 1\) is double; compare it with"
    ):
        check_predicate(call("+", PRICE, 1), SCHEMA)


def test_ambiguous_columns_are_refused() -> None:
    schema = pa.schema([("x", pa.int64()), ("x", pa.string())])
    with pytest.raises(QueryError, match="the stream has 2 columns named 'x'; rename them"):
        check(Column("x"), schema)


def test_deep_nesting_is_an_error_and_not_a_crash() -> None:
    deep: Expr = PRICE
    for _ in range(5000):
        deep = Call("abs", (deep,))
    with pytest.raises(QueryError, match="nested more than 200 deep; split it into several"):
        check(deep, SCHEMA)


@pytest.mark.parametrize("name", ["and", "or"])
def test_long_chains_are_not_deep(name: str) -> None:
    left = right = call("<", PRICE, 0)
    for n in range(3000):
        left = call(name, left, call("<", PRICE, n))
        right = call(name, call("<", PRICE, n), right)
    assert check(left, SCHEMA) == check(right, SCHEMA) == "boolean"


def test_huge_expressions_are_refused() -> None:
    with pytest.raises(QueryError, match="more than 100,000 parts"):
        check(call("in", VOLUME, *range(100_001)), SCHEMA)


def test_long_lists_are_checked_fast() -> None:
    expr = call("in", SYMBOL, *(f"s{n}" for n in range(ITEMS)))
    start = time.perf_counter()
    assert check(expr, SCHEMA) == "boolean"
    assert time.perf_counter() - start < 5


def test_the_smallest_bigint_can_be_written() -> None:
    assert check(call("negate", Literal(2**63, "bigint")), SCHEMA) == "bigint"


def test_aliases_name_functions() -> None:
    assert set(ALIASES.values()) <= set(FUNCTIONS)
    assert not set(ALIASES) & set(FUNCTIONS)


def test_arrow_types() -> None:
    for arrow in (pa.int8(), pa.uint64(), pa.float16(), pa.large_string(), pa.date64(), pa.bool_()):
        assert sql_type(arrow_type(sql_type(arrow))) == sql_type(arrow)
    for expr in (TS, call("cast", SYMBOL, "timestamp")):
        assert result_type(expr, SCHEMA) == pa.timestamp("us", "UTC")
        assert result_type(expr, SCHEMA, "Asia/Tokyo") == pa.timestamp("us", "Asia/Tokyo")
    assert result_type(AMOUNT, SCHEMA) == pa.decimal128(12, 2)
    for arrow in (pa.binary(), pa.list_(pa.int64()), pa.struct({"a": pa.int64()}), pa.duration("s")):
        with pytest.raises(QueryError, match="cannot be used in an expression"):
            sql_type(arrow)
