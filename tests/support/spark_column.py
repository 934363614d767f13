"""The checked expression tree as a Spark column: the same whitelist, the same answers.

Only functions of the table below are called, and only with columns and literals: no text of a query
ever reaches Spark's parser. Where Spark's ANSI mode raises on a row, the column is NULL, as it is in
``weft.expr``. Local times are those of the session's time zone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_, or_
from types import MappingProxyType
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from weft.expr.check import compiler_for
from weft.expr.node import Node
from weft.expr.types import UTC
from weft.model.expression import Expr

Build: TypeAlias = Callable[[Node, list[Column]], Column]
"""From a checked node and the columns of its arguments to its own column."""

_MIN_BIGINT, _MAX_BIGINT = -(2**63), 2**63 - 1


def to_column(expr: Expr, schema: pa.Schema, zone: str = UTC) -> Column:
    """The Spark column of an expression over a DataFrame with this (Arrow) schema, in the session's zone.

    Integers are bigint and floats double, as in ``weft.expr``; QueryError says what is wrong with an
    expression that does not fit the schema.
    """
    return _column(compiler_for(schema, zone).compile(expr), {})


def _column(node: Node, columns: dict[Node, Column]) -> Column:
    if node not in columns:
        if node.function == "literal":
            columns[node] = _literal(node)
        else:
            columns[node] = SPARK[node.function](node, [_column(a, columns) for a in node.args])
    return columns[node]


def spark_type(sql_type: str, tz: str | None) -> str:
    """Return Spark's name of a SQL type; timestamps without a time zone are ``timestamp_ntz``."""
    if sql_type == "timestamp":
        return "timestamp" if tz else "timestamp_ntz"
    return {"null": "void"}.get(sql_type, sql_type)


def _read(node: Node, args: list[Column]) -> Column:
    column = F.col("`" + node.param.replace("`", "``") + "`")
    return column.cast(node.type) if node.type in ("bigint", "double", "string") else column


def _literal(node: Node) -> Column:
    kind = spark_type(node.type, node.tz)
    if node.is_null:
        return F.lit(None).cast(kind)
    if node.type == "timestamp":
        if node.tz is None:
            return F.lit(node.value.isoformat(" ")).cast(kind)
        return F.timestamp_micros(F.lit(node.param.value))
    if node.type == "date":
        return F.date_from_unix_date(F.lit(node.param.value))
    return F.lit(node.value).cast(kind)


def _safe(checked: Callable[..., Column], plain: Callable[..., Column]) -> Build:
    """One function for integers, which may overflow, and one for doubles."""

    def build(node: Node, args: list[Column]) -> Column:
        return (checked if node.type == "bigint" else plain)(*args)

    return build


def _negate(node: Node, args: list[Column]) -> Column:
    return F.try_subtract(F.lit(0), args[0]) if node.type == "bigint" else F.negative(args[0])


def _abs(node: Node, args: list[Column]) -> Column:
    return F.when(args[0] != _MIN_BIGINT, F.abs(args[0])) if node.type == "bigint" else F.abs(args[0])


def _div(node: Node, args: list[Column]) -> Column:
    left, right = args
    fits = (right != 0) & ((left != _MIN_BIGINT) | (right != -1))
    return F.when(fits, F.call_function("div", left, right))


def _round(node: Node, args: list[Column]) -> Column:
    digits = node.param
    if node.type == "double":
        return F.round(args[0], digits)
    unit = 10**-digits
    high = min(_MAX_BIGINT, _MAX_BIGINT // unit * unit + unit // 2 - 1)
    low = max(_MIN_BIGINT, -(-_MIN_BIGINT // unit * unit) - unit // 2 + 1)
    return F.when(args[0].between(low, high), F.round(args[0], digits))


def _whole(function: Callable[[Column], Column]) -> Build:
    return lambda node, args: F.when(_in_bigint(args[0]), function(args[0]))


def _in_bigint(double: Column) -> Column:
    return (double >= -(2.0**63)) & (double < 2.0**63)


def _in(node: Node, args: list[Column]) -> Column:
    items = [F.lit(None).cast(spark_type(node.args[0].type, node.args[0].tz))] if node.param.has_null else []
    return args[0].isin([*map(_constant_of(node.args[0]), node.param.values), *items])


def _constant_of(subject: Node) -> Callable[[object], Column]:
    def build(value: object) -> Column:
        scalar = pa.scalar(value, subject.arrow)
        return _literal(Node("literal", (), subject.type, subject.tz, scalar, subject.source, frozenset()))

    return build


def _like(node: Node, args: list[Column]) -> Column:
    return F.like(args[0], F.lit(node.param.text), F.lit(node.param.escape))


def _case(node: Node, args: list[Column]) -> Column:
    *pairs, otherwise = args
    column = F.when(pairs[0], pairs[1])
    for condition, value in zip(pairs[2::2], pairs[3::2]):
        column = column.when(condition, value)
    return column.otherwise(otherwise)


def _cast(node: Node, args: list[Column]) -> Column:
    (column,), source = args, node.args[0].type
    kind = spark_type(node.type, node.tz)
    if (source, node.type) == ("double", "bigint"):  # Spark takes 2^63 for the largest bigint
        return F.when(_in_bigint(column), column.try_cast(kind))
    if (source, node.type) == ("double", "timestamp"):  # and times out of range for the last there is
        return F.when(_in_bigint(column * 1e6), column.try_cast("timestamp")).cast(kind)
    if (source, node.type) == ("bigint", "timestamp"):
        limit = _MAX_BIGINT // 1_000_000
        return F.when(column.between(-limit, limit), column.try_cast("timestamp")).cast(kind)
    if (source, node.args[0].tz) == ("timestamp", None) and node.type in ("bigint", "double"):
        return column.cast("timestamp").cast(kind)
    return column.try_cast(kind)


def _substring(node: Node, args: list[Column]) -> Column:
    start, *size = (max(-(2**31) + 1, min(2**31 - 1, n)) for n in node.param)
    return F.substring(args[0], start, size[0] if size else 2**31 - 1)


def _plain(function: Callable[..., Column]) -> Build:
    """A function of the columns alone, as the SQL type of the node."""
    return lambda node, args: function(*args).cast(spark_type(node.type, node.tz))


def _given(function: Callable[..., Column]) -> Build:
    """A function of the columns and the node's constants."""
    return lambda node, args: function(*args, *map(F.lit, node.param))


SPARK: Mapping[str, Build] = MappingProxyType(
    {
        "column": _read,
        "+": _safe(F.try_add, lambda a, b: a + b),
        "-": _safe(F.try_subtract, lambda a, b: a - b),
        "*": _safe(F.try_multiply, lambda a, b: a * b),
        "/": _plain(F.try_divide),
        "%": _plain(F.try_mod),
        "div": _div,
        "negate": _negate,
        "abs": _abs,
        "round": _round,
        "floor": _whole(F.floor),
        "ceil": _whole(F.ceil),
        "sqrt": _plain(F.sqrt),
        "exp": _plain(F.exp),
        "ln": _plain(F.ln),
        "log10": _plain(F.log10),
        "log2": _plain(F.log2),
        "power": _plain(F.pow),
        "sign": _plain(F.signum),
        "isnan": _plain(F.isnan),
        "=": _plain(lambda a, b: a == b),
        "<>": _plain(lambda a, b: a != b),
        "<": _plain(lambda a, b: a < b),
        "<=": _plain(lambda a, b: a <= b),
        ">": _plain(lambda a, b: a > b),
        ">=": _plain(lambda a, b: a >= b),
        "<=>": _plain(lambda a, b: a.eqNullSafe(b)),
        "is_null": _plain(lambda a: a.isNull()),
        "in": _in,
        "greatest": _plain(F.greatest),
        "least": _plain(F.least),
        "and": _plain(lambda *a: reduce(and_, a)),
        "or": _plain(lambda *a: reduce(or_, a)),
        "not": _plain(lambda a: ~a),
        "case": _case,
        "coalesce": _plain(F.coalesce),
        "cast": _cast,
        "like": _like,
        "length": _plain(F.length),
        "lower": _plain(F.lower),
        "upper": _plain(F.upper),
        "trim": _plain(F.trim),
        "ltrim": _plain(F.ltrim),
        "rtrim": _plain(F.rtrim),
        "reverse": _plain(F.reverse),
        "substring": _substring,
        "left": _given(F.left),
        "right": _given(F.right),
        "concat": _plain(F.concat),
        "starts_with": _given(F.startswith),
        "ends_with": _given(F.endswith),
        "contains": _given(F.contains),
        "replace": _given(F.replace),
        "year": _plain(F.year),
        "quarter": _plain(F.quarter),
        "month": _plain(F.month),
        "day": _plain(F.dayofmonth),
        "dayofweek": _plain(F.dayofweek),
        "dayofyear": _plain(F.dayofyear),
        "hour": _plain(F.hour),
        "minute": _plain(F.minute),
        "second": _plain(F.second),
    }
)
"""How each operation of a checked expression is written in Spark; if and nullif are CASE by then."""
