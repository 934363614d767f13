"""The operators, types and functions that query text may use, and remedies for the rest."""

from __future__ import annotations

import difflib

from sqlglot import exp

from weft import aggregates
from weft.expr.functions import ALIASES, FUNCTIONS

BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.And: "and",
    exp.Or: "or",
}
COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
# Conditions that bind less tightly than the operators above.
PREDICATES = (exp.In, exp.Like, exp.Escape, exp.Between, exp.Is, exp.Not, exp.NullSafeNEQ)
# Functions of the whitelist that have a syntax of their own, and are not called by name.
SYNTAX = frozenset(("and", "or", "not", "in", "like", "case", "cast"))
EXTRACT = ("year", "quarter", "month", "day", "hour", "minute")
TYPES = {
    exp.DType.BOOLEAN: "boolean",
    exp.DType.BIGINT: "bigint",
    exp.DType.DOUBLE: "double",
    exp.DType.TEXT: "string",
    exp.DType.VARCHAR: "string",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.TIMESTAMPTZ: "timestamp",
    exp.DType.DATE: "date",
}
_BIGINT, _DOUBLE = "integers have 64 bits: cast to BIGINT", "floats have 64 bits: cast to DOUBLE"
TYPE_HINTS = {
    exp.DType.TINYINT: _BIGINT,
    exp.DType.SMALLINT: _BIGINT,
    exp.DType.INT: _BIGINT,
    exp.DType.FLOAT: _DOUBLE,
    exp.DType.DECIMAL: _DOUBLE,
}
_CLOCK = "an answer depends on the rows alone; compare with a literal"
REFUSED_NODES: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Window: ("a window function (OVER)", "use an aggregate; the query's window says over which rows"),
    exp.Select: ("a subquery", "write a query of its own"),
    exp.Subquery: ("a subquery", "write a query of its own"),
    exp.Exists: ("a subquery", "write a query of its own"),
    exp.Star: ("*", "name the columns; * is for count(*)"),
    exp.Interval: ("an interval", "compare with a literal, as in ts >= TIMESTAMP '2024-01-01 00:00:00'"),
    exp.CurrentDate: ("the current date", _CLOCK),
    exp.CurrentTimestamp: ("the current time", _CLOCK),
    exp.Distinct: ("DISTINCT", "leave it out"),
    exp.ILike: ("ILIKE", "write lower(x) LIKE 'pattern'"),
    exp.RegexpLike: ("a regular expression", "use LIKE"),
    exp.Tuple: ("a list of values", "compare the columns one by one"),
    exp.Bracket: ("[...]", "use plain columns"),
    exp.Dot: ("a field of a struct", "use plain columns"),
    exp.RespectNulls: ("RESPECT NULLS", "aggregates skip nulls; leave it out"),
}
HINTS = {
    **dict.fromkeys(("now", "current_timestamp", "current_date", "rand", "random", "uuid"), _CLOCK),
    "window": "window(...) belongs in GROUP BY; its result is always there as window_start and window_end",
    "session_window": "use window(ts, range, slide)",
    "hop": "write FROM TABLE(HOP(TABLE trades, DESCRIPTOR(ts), slide, size))",
    "tumble": "write FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(ts), size))",
}


def similar(called: str) -> str:
    """Return what to write instead of a function that is not on the list.

    >>> similar("lenght")
    "did you mean 'length'?"
    """
    if called in HINTS:
        return HINTS[called]
    names = [n for n in (*FUNCTIONS, *ALIASES, *aggregates.names()) if n.isidentifier()]
    close = difflib.get_close_matches(called, set(names) - SYNTAX - {"count_star"}, n=1, cutoff=0.8)
    if close:
        return f"did you mean {close[0]!r}?"
    return "only functions of the documented list, and aggregates defined before, can be called"
