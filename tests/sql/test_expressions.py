"""Every operator, function, aggregate and literal that query text may use, and what it becomes."""

from __future__ import annotations

import datetime

import pytest

import weft
from weft import aggregates
from weft.expr import functions
from weft.model.expression import Call, Column, Expr, Literal
from weft.model.query import Aggregate

A, B, C, D, X, Y = (Column(n) for n in "abcdxy")
NULL = Literal(None, "null")


def where(text: str) -> Expr:
    (query,) = weft.sql(f"SELECT count(*) FROM t [RANGE '1 s'] WHERE {text}")
    assert query.predicate is not None
    return query.predicate


def aggregate(text: str) -> Aggregate:
    (query,) = weft.sql(f"SELECT {text} AS r FROM t [RANGE '1 s']")
    (found,) = query.aggregates
    assert query.outputs == ()
    return found


def number(value: int) -> Literal:
    return Literal(value, "bigint")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((f"a {o} b", Call(o, (A, B))) for o in ("+", "-", "*", "/", "%")),
        *((f"a {o} b", Call(o, (A, B))) for o in ("=", "<>", "<", "<=", ">", ">=", "<=>")),
        ("a == b", Call("=", (A, B))),
        ("a != b", Call("<>", (A, B))),
        ("a DIV b", Call("div", (A, B))),
        ("a || b || c", Call("concat", (A, B, C))),
        ("-a", Call("negate", (A,))),
        ("+a", A),
        ("NOT a", Call("not", (A,))),
        ("!a", Call("not", (A,))),
        ("a AND b", Call("and", (A, B))),
        ("a OR b", Call("or", (A, B))),
        ("a IS NULL", Call("is_null", (A,))),
        ("a IS NOT NULL", Call("not", (Call("is_null", (A,)),))),
        ("a IS TRUE", Call("<=>", (A, Literal(True, "boolean")))),
        ("a IS NOT FALSE", Call("not", (Call("<=>", (A, Literal(False, "boolean"))),))),
        ("a IS DISTINCT FROM b", Call("not", (Call("<=>", (A, B)),))),
        ("a IS NOT DISTINCT FROM b", Call("<=>", (A, B))),
        ("a IN (1, -2)", Call("in", (A, number(1), number(-2)))),
        ("a IN (1, NULL)", Call("in", (A, number(1), NULL))),
        ("a NOT IN ('x')", Call("not", (Call("in", (A, Literal("x", "string"))),))),
        ("a IN (b, 1)", Call("or", (Call("=", (A, B)), Call("=", (A, number(1)))))),
        ("a BETWEEN b AND c", Call("and", (Call(">=", (A, B)), Call("<=", (A, C))))),
        ("a NOT BETWEEN b AND c", Call("not", (Call("and", (Call(">=", (A, B)), Call("<=", (A, C)))),))),
        ("a LIKE 'x%'", Call("like", (A, Literal("x%", "string")))),
        ("a LIKE 'x/_' ESCAPE '/'", Call("like", (A, Literal("x/_", "string"), Literal("/", "string")))),
        ("a NOT LIKE 'x'", Call("not", (Call("like", (A, Literal("x", "string"))),))),
        (
            "a NOT LIKE 'x' ESCAPE '/'",
            Call("not", (Call("like", (A, Literal("x", "string"), Literal("/", "string"))),)),
        ),
        ("CASE WHEN a THEN b END", Call("case", (A, B, NULL))),
        ("CASE WHEN a THEN b WHEN c THEN d ELSE x END", Call("case", (A, B, C, D, X))),
        (
            "CASE a WHEN b THEN c WHEN 1 THEN d ELSE x END",
            Call("case", (Call("=", (A, B)), C, Call("=", (A, number(1))), D, X)),
        ),
        ("CAST(a AS BIGINT)", Call("cast", (A, Literal("bigint", "string")))),
        ("CAST(a AS LONG)", Call("cast", (A, Literal("bigint", "string")))),
        ("a::double", Call("cast", (A, Literal("double", "string")))),
        ("CAST(a AS STRING)", Call("cast", (A, Literal("string", "string")))),
        ("CAST(a AS VARCHAR(9))", Call("cast", (A, Literal("string", "string")))),
        ("CAST(a AS BOOLEAN)", Call("cast", (A, Literal("boolean", "string")))),
        ("CAST(a AS TIMESTAMP)", Call("cast", (A, Literal("timestamp", "string")))),
        ("CAST(a AS DATE)", Call("cast", (A, Literal("date", "string")))),
        ("EXTRACT(YEAR FROM a)", Call("year", (A,))),
        ("IF(a, b, c)", Call("if", (A, B, C))),
    ],
)
def test_operators(text: str, expected: Expr) -> None:
    assert where(text) == expected


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a + b * c", "a + (b * c)"),
        ("a - b - c", "(a - b) - c"),
        ("a / b * c % d", "((a / b) * c) % d"),
        ("-a * b", "(-a) * b"),
        ("a + b < c * d", "(a + b) < (c * d)"),
        ("a OR b AND c", "a OR (b AND c)"),
        ("NOT a AND b", "(NOT a) AND b"),
        ("NOT a = b", "NOT (a = b)"),
        ("NOT a IS NULL", "NOT (a IS NULL)"),
        ("a AND b BETWEEN c AND d AND x", "a AND (b BETWEEN c AND d) AND x"),
        ("a || b = c", "(a || b) = c"),
        ("a + b IN (1)", "(a + b) IN (1)"),
        ("a::double / b", "(a::double) / b"),
        ("a = b IS NULL", "(a = b) IS NULL"),
        ("!a = b", "NOT (a = b)"),
    ],
)
def test_precedence(text: str, same: str) -> None:
    assert where(text) == where(same)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", number(1)),
        ("-1", number(-1)),
        ("- -1", number(1)),
        ("-(1)", number(-1)),
        ("10L", number(10)),
        ("-10L", number(-10)),
        ("9223372036854775807", number(2**63 - 1)),
        ("-9223372036854775808", number(-(2**63))),
        ("1.5", Literal(1.5, "double")),
        (".5", Literal(0.5, "double")),
        ("2.", Literal(2.0, "double")),
        ("1e3", Literal(1000.0, "double")),
        ("-1.5E-3", Literal(-0.0015, "double")),
        ("3D", Literal(3.0, "double")),
        ("CAST(3 AS DOUBLE)", Literal(3.0, "double")),
        ("'x'", Literal("x", "string")),
        ("''", Literal("", "string")),
        ("'it''s'", Literal("it's", "string")),
        (r"'it\'s'", Literal("it's", "string")),
        (r"'a\nb'", Literal("a\nb", "string")),
        (r"r'a\nb'", Literal("a\\nb", "string")),
        ("'a' 'b'", Literal("ab", "string")),
        ("'-- name: x; é'", Literal("-- name: x; é", "string")),
        ("TRUE", Literal(True, "boolean")),
        ("false", Literal(False, "boolean")),
        ("NULL", NULL),
        ("DATE '2024-01-31'", Literal(datetime.date(2024, 1, 31), "date")),
        ("CAST('2024-01-31' AS DATE)", Literal(datetime.date(2024, 1, 31), "date")),
        *(
            (f"TIMESTAMP '{text}'", Literal(datetime.datetime(*parts), "timestamp"))
            for text, parts in {
                "2024-01-31": (2024, 1, 31),
                "2024-01-31 12:30": (2024, 1, 31, 12, 30),
                "2024-01-31 12:30:05": (2024, 1, 31, 12, 30, 5),
                "2024-01-31T12:30:05.5": (2024, 1, 31, 12, 30, 5, 500_000),
            }.items()
        ),
        *(
            (f"TIMESTAMP '{text}'", Literal(datetime.datetime(*parts, tzinfo=datetime.UTC), "timestamp"))
            for text, parts in {
                "2024-01-31 12:30:05.000001Z": (2024, 1, 31, 12, 30, 5, 1),
                "2024-01-31 12:30:05 +01:00": (2024, 1, 31, 11, 30, 5),
                "2024-01-31 12:30:05-05:30": (2024, 1, 31, 18, 0, 5),
            }.items()
        ),
    ],
)
def test_literals(text: str, expected: Literal) -> None:
    found = where(f"a = {text}")
    assert found == Call("=", (A, expected))
    assert isinstance(found, Call) and type(found.args[1].value) is type(expected.value)  # type: ignore[union-attr]


SYNTAX = ("and", "or", "not", "in", "like", "case", "cast")
CALLED = [n for n in (*functions.FUNCTIONS, *functions.ALIASES) if n.isidentifier() and n not in SYNTAX]


@pytest.mark.parametrize("name", CALLED)
def test_every_function_is_called_by_its_name(name: str) -> None:
    real = functions.ALIASES.get(name, name)
    function = functions.FUNCTIONS[real]
    args = tuple(Column(f"c{n}") for n in range(function.min_args))
    for spelled in (name, name.upper()):
        assert where(f"{spelled}({', '.join(map(str, args))})") == Call(real, args)


@pytest.mark.parametrize(
    "name",
    [n for n in (*aggregates.FUNCTIONS, *aggregates.SKETCHES, *aggregates.ALIASES) if n != "count_star"],
)
def test_every_aggregate_is_called_by_its_name(name: str) -> None:
    function = aggregates.named(name)
    assert function is not None
    args: tuple[Expr, ...] = tuple(Column(f"c{n}") for n in range(function.arity))
    args += tuple(Literal(1.0, "double") for c in function.constants if c.default is None)
    for spelled in (name, name.upper()):
        assert aggregate(f"{spelled}({', '.join(map(str, args))})") == Aggregate(function.name, args, "r")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count(*)", Aggregate("count_star", (), "r")),
        ("count(1)", Aggregate("count_star", (), "r")),
        ("count(a)", Aggregate("count", (A,), "r")),
        ("count(NULL)", Aggregate("count", (NULL,), "r")),
        ("sum(ALL a)", Aggregate("sum", (A,), "r")),
        ("sum(a + b)", Aggregate("sum", (Call("+", (A, B)),), "r")),
        ("first(a) IGNORE NULLS", Aggregate("first", (A,), "r")),
        ("last(a IGNORE NULLS)", Aggregate("last", (A,), "r")),
        ("sum(a) FILTER (WHERE b)", Aggregate("sum", (Call("case", (B, A, NULL)),), "r")),
        ("count(a) FILTER (WHERE b)", Aggregate("count", (Call("case", (B, A, NULL)),), "r")),
        ("count(*) FILTER (WHERE b)", Aggregate("count_if", (B,), "r")),
        ("count_if(a) FILTER (WHERE b)", Aggregate("count_if", (Call("case", (B, A, NULL)),), "r")),
        ("max_by(a, b) FILTER (WHERE c)", Aggregate("max_by", (A, Call("case", (C, B, NULL))), "r")),
    ],
)
def test_aggregates(text: str, expected: Aggregate) -> None:
    assert aggregate(text) == expected


def test_a_long_list_of_conditions_nests_little() -> None:
    predicate = where(" OR ".join(f"a = {n} AND b <> {n}" for n in range(3000)))
    depth = 0
    while isinstance(predicate, Call):
        predicate, depth = predicate.args[0], depth + 1
    assert depth < 20


def test_every_expression_knows_its_position() -> None:
    prefix = len("SELECT count(*) FROM t [RANGE '1 s'] WHERE ")
    found = where("a > 1 AND\n  lower(b) = 'x' AND NOT -c < CASE WHEN d THEN 1 END")
    assert isinstance(found, Call) and found.position == (1, prefix + 1)
    both, negation = found.args
    assert isinstance(both, Call) and isinstance(negation, Call)
    lower = both.args[1]
    assert isinstance(lower, Call) and lower.position == (2, 3)
    assert [p.position for p in lower.args] == [(2, 3), (2, 14)]
    assert negation.position == (2, 22)
    less = negation.args[0]
    assert isinstance(less, Call)
    assert [p.position for p in less.args] == [(2, 26), (2, 31)]
