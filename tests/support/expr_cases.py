"""Random typed expressions and the rows to try them on: nulls, NaN, extremes, odd strings."""

from __future__ import annotations

import datetime as dt
import math
import random
from typing import Any

import pyarrow as pa

from weft.model.expression import Call, Column, Expr, Literal

MIN, MAX = -(2**63), 2**63 - 1

SCHEMA = pa.schema(
    {
        "i": pa.int64(),
        "j": pa.int16(),
        "x": pa.float64(),
        "y": pa.float32(),
        "b": pa.bool_(),
        "s": pa.string(),
        "k": pa.dictionary(pa.int32(), pa.string()),
        "t": pa.timestamp("us", "UTC"),
        "q": pa.date32(),
    }
)
TYPES = {
    "i": "bigint",
    "j": "bigint",
    "x": "double",
    "y": "double",
    "b": "boolean",
    "s": "string",
    "k": "string",
    "t": "timestamp",
    "q": "date",
}

INTS = (0, 1, -1, 2, 3, 7, -7, 10, 25, -25, 1000, 2**31, 2**53 + 1, MAX, MIN, MAX - 1, MIN + 1, 5 * 10**18)
FLOATS = (
    *(0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 2.675, 1.005, 0.1, 1e-3, 123456.789, 1e7, -1.25e-5, 1e15),
    *(1e16, 1e300, -1e300, 2.0**53, 1e19, -1e19, math.nan, math.inf, -math.inf),
)
STRINGS = (
    *(
        "",
        "a",
        "A",
        "abc",
        "aBc",
        " abc  ",
        "%",
        "_",
        "a%b",
        "a\nb",
        "\\",
        "straße",
        "İstanbul",
        "ΑΣ",
        "日本語",
    ),
    *("😀 b", "1", "-7", " 42 ", "1.5", "1e3", "nan", "Infinity", "-inf", "9223372036854775808", "true", "F"),
    *(
        "no",
        "2024-02-29",
        "2024-02-30",
        "2024-1-5 3:04:05.25",
        "2024-01-05T23:59:59.999999Z",
        "1999",
        "1e400",
    ),
    *("2024-01-05 03:04:05+02:30", "2024-01-05 3:4", "0x10", "+5", "5d", "."),
)
TIMES = tuple(
    dt.datetime(*fields, tzinfo=dt.UTC)
    for fields in (
        (1970, 1, 1),
        (1969, 12, 31, 23, 59, 59, 999_999),
        (2024, 2, 29, 12, 30, 15, 250_000),
        (2023, 12, 31, 23, 59, 59),
        (2100, 1, 1),
        (1900, 6, 15, 1, 2, 3, 4),
    )
)
DATES = tuple(t.date() for t in TIMES)
POOLS: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False),
    "bigint": INTS,
    "double": FLOATS,
    "string": STRINGS,
    "timestamp": TIMES,
    "date": DATES,
}
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
PARTS = ("year", "quarter", "month", "day", "dayofweek", "dayofyear")


def literal(value: Any) -> Literal:
    """A literal of the type its Python value has."""
    kinds = {bool: "boolean", int: "bigint", float: "double", str: "string", type(None): "null"}
    kinds |= {dt.datetime: "timestamp", dt.date: "date"}
    return Literal(value, kinds[type(value)])


def call(function: str, *args: Any) -> Call:
    """A call whose arguments may be plain Python values."""
    return Call(function, tuple(a if isinstance(a, Column | Literal | Call) else literal(a) for a in args))


def rows(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """Rows of ``SCHEMA`` as Python values."""
    return [{name: value(rng, name) for name in SCHEMA.names} for _ in range(count)]


def value(rng: random.Random, name: str) -> Any:
    """A value of a column, NULL now and then; small ones as often as extreme ones."""
    if rng.random() < 0.15:
        return None
    if name == "i" and rng.random() < 0.5:
        return rng.randint(-5, 5)
    if name == "j":
        return rng.choice((0, 1, -1, 3, 7, 300, -32768, 32767))
    if name == "x" and rng.random() < 0.4:
        return round(rng.uniform(-100, 100), rng.randint(0, 4))
    if name == "y":
        return rng.choice((0.0, 0.5, -1.25, 3.0, 1024.0, math.nan, math.inf))
    if name == "k":
        return rng.choice(("a", "A", "abc", "straße", "12", ""))
    return rng.choice(POOLS[TYPES[name]])


def batch_of(data: list[dict[str, Any]]) -> pa.RecordBatch:
    """Rows as one batch of ``SCHEMA``."""
    return pa.RecordBatch.from_pylist(data, SCHEMA)


def expression(rng: random.Random, kind: str, depth: int) -> Expr:
    """A random expression of a SQL type, nested at most so deep."""
    if depth <= 0 or rng.random() < 0.1:
        return leaf(rng, kind)
    if rng.random() < 0.25:
        return choice_of(rng, kind, depth - 1)
    return globals()[f"{kind}_expression"](rng, depth - 1)


def leaf(rng: random.Random, kind: str) -> Expr:
    if rng.random() < 0.75:
        return Column(rng.choice([name for name, type_ in TYPES.items() if type_ == kind]))
    return literal(rng.choice(POOLS[kind]))


def choice_of(rng: random.Random, kind: str, depth: int) -> Expr:
    """CASE, if, coalesce, nullif, greatest or least."""

    def branch() -> Expr:
        mixed = "bigint" if kind == "double" and rng.random() < 0.3 else kind
        return expression(rng, mixed, depth)

    name = rng.choice(("case", "if", "coalesce", "nullif", "greatest", "least"))
    if name == "case":
        count = rng.randint(1, 3)
        pairs = [e for _ in range(count) for e in (expression(rng, "boolean", depth), branch())]
        other = literal(None) if rng.random() < 0.3 else expression(rng, kind, depth)
        return call("case", *pairs[:-1], expression(rng, kind, depth), other)
    if name == "if":
        return call("if", expression(rng, "boolean", depth), expression(rng, kind, depth), branch())
    if name == "nullif":
        return call("nullif", expression(rng, kind, depth), branch())
    return call(name, expression(rng, kind, depth), *(branch() for _ in range(rng.randint(1, 2))))


def boolean_expression(rng: random.Random, depth: int) -> Expr:
    name = rng.choice(("compare", "compare", "and", "or", "not", "is_null", "in", "text", "cast", "isnan"))
    if name in ("and", "or"):
        return call(name, expression(rng, "boolean", depth), expression(rng, "boolean", depth))
    if name == "not":
        return call("not", expression(rng, "boolean", depth))
    if name == "is_null":
        return call("is_null", expression(rng, rng.choice(tuple(POOLS)), depth))
    if name == "isnan":
        return call("isnan", expression(rng, "double", depth))
    if name == "cast":
        return call("cast", expression(rng, rng.choice(("bigint", "double", "string")), depth), "boolean")
    if name == "text":
        return text_test(rng, expression(rng, "string", depth))
    kind = rng.choice(tuple(POOLS))
    left = expression(rng, kind, depth)
    if name == "in":
        items = [rng.choice(POOLS[kind]) for _ in range(rng.randint(1, 12))]
        return call("in", left, *items, *([None] if rng.random() < 0.2 else []))
    other = {"bigint": "double", "double": "bigint", "timestamp": "date", "date": "timestamp"}.get(kind, kind)
    if kind == "timestamp" and rng.random() < 0.2:
        return call(rng.choice(COMPARISONS), left, "2024-02-29 12:30:15.25")
    right = expression(rng, other if rng.random() < 0.3 else kind, depth)
    return call(rng.choice(COMPARISONS), left, right)


def text_test(rng: random.Random, subject: Expr) -> Expr:
    if rng.random() < 0.6:
        patterns = (
            "%",
            "_%",
            "a%",
            "%b",
            "%a%",
            "a_b",
            "",
            "a\\%b",
            "%\\\\%",
            "_",
            "__",
            "%日%",
            "a%b%c",
            ".*",
        )
        return call("like", subject, rng.choice(patterns))
    return call(
        rng.choice(("starts_with", "ends_with", "contains")), subject, rng.choice(("", "a", "ß", "日", "."))
    )


def bigint_expression(rng: random.Random, depth: int) -> Expr:
    name = rng.choice(
        ("+", "-", "*", "%", "div", "negate", "abs", "length", "floor", "ceil", "round", "cast", "part")
    )
    if name in ("negate", "abs"):
        return call(name, expression(rng, "bigint", depth))
    if name == "length":
        return call(name, expression(rng, "string", depth))
    if name in ("floor", "ceil"):
        return call(name, expression(rng, "double", depth))
    if name == "round":
        return call(name, expression(rng, "bigint", depth), rng.choice((-19, -18, -3, -1, 0, 2)))
    if name == "cast":
        source = rng.choice(("double", "string", "boolean", "timestamp"))
        return call("cast", expression(rng, source, depth), "bigint")
    if name == "part":
        if rng.random() < 0.5:
            return call(rng.choice(PARTS), expression(rng, rng.choice(("date", "timestamp")), depth))
        return call(rng.choice(("hour", "minute", "second")), expression(rng, "timestamp", depth))
    return call(name, expression(rng, "bigint", depth), expression(rng, "bigint", depth))


def double_expression(rng: random.Random, depth: int) -> Expr:
    name = rng.choice(("+", "-", "*", "/", "/", "%", "negate", "abs", "sqrt", "round", "sign", "cast"))
    if name in ("negate", "abs", "sqrt"):
        return call(name, expression(rng, "double", depth))
    if name == "sign":
        return call(name, expression(rng, rng.choice(("double", "bigint")), depth))
    if name == "round":
        return call(name, expression(rng, "double", depth), rng.choice((-2, -1, 0, 1, 2, 3, 6)))
    if name == "cast":
        source = rng.choice(("bigint", "string", "boolean", "timestamp"))
        return call("cast", expression(rng, source, depth), "double")
    kinds = ["double", rng.choice(("double", "bigint"))]
    rng.shuffle(kinds)
    return call(name, *(expression(rng, kind, depth) for kind in kinds))


def string_expression(rng: random.Random, depth: int) -> Expr:
    names = (
        "lower",
        "upper",
        "trim",
        "ltrim",
        "rtrim",
        "reverse",
        "substring",
        "left",
        "right",
        "concat",
        "replace",
        "cast",
    )
    name = rng.choice(names)
    if name == "cast":
        return call(
            "cast", expression(rng, rng.choice(("bigint", "boolean", "timestamp", "date")), depth), "string"
        )
    subject = expression(rng, "string", depth)
    if name == "substring":
        start, size = rng.randint(-4, 4), rng.randint(-1, 4)
        return call(name, subject, start) if rng.random() < 0.3 else call(name, subject, start, size)
    if name in ("left", "right"):
        return call(name, subject, rng.randint(-1, 4))
    if name == "replace":
        return call(name, subject, rng.choice(("a", "", "ß", " ")), rng.choice(("", "x", "日")))
    if name == "concat":
        return call(name, subject, expression(rng, "string", depth))
    return call(name, subject)


def timestamp_expression(rng: random.Random, depth: int) -> Expr:
    text = rng.random() < 0.5  # as it is: built up, it may name years that Python does not know
    return call("cast", leaf(rng, "string") if text else expression(rng, "date", depth), "timestamp")


def date_expression(rng: random.Random, depth: int) -> Expr:
    text = rng.random() < 0.5
    return call("cast", leaf(rng, "string") if text else expression(rng, "timestamp", depth), "date")
