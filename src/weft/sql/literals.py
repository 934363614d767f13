"""Constants of a query text: numbers, strings, booleans, NULL, dates and timestamps."""

from __future__ import annotations

import datetime
import math
import re

from sqlglot import exp

from weft.errors import QueryError
from weft.model.bounds import MAX_DIGITS
from weft.model.expression import Expr, Literal, Position

_MIN_BIGINT, _MAX_BIGINT = -(2**63), 2**63 - 1
_INTEGER = re.compile(r"[0-9]+")
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(
    _DATE.pattern + r"(?:[ T][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)? ?(?:Z|[+-][0-9]{2}:[0-9]{2})?)?"
)


def read(node: exp.Expr, position: Position | None, *, negative: bool = False) -> Literal:
    """The constant of a literal's tree, with the minus sign before it folded in.

    >>> read(exp.Literal.number("9223372036854775808"), None, negative=True).value
    -9223372036854775808
    """
    if isinstance(node, exp.Null):
        return Literal(None, "null", position)
    if isinstance(node, exp.Boolean):
        return Literal(bool(node.this), "boolean", position)
    if isinstance(node, exp.Concat):  # 'a' 'b' is 'ab'
        return Literal("".join(e.name for e in node.expressions), "string", position)
    if isinstance(node, exp.RawString) or node.is_string:
        if negative:
            raise QueryError("a minus sign before a string", position=position, hint="remove the quotes")
        return Literal(node.name, "string", position)
    return _number(("-" if negative else "") + node.name, position)


def negated(literal: Literal, position: Position | None) -> Literal:
    """A number with its sign changed."""
    assert isinstance(literal.value, (int, float))
    if literal.type == "bigint":
        return _integer(-int(literal.value), position)
    return Literal(-literal.value, "double", position)


def cast(value: Expr, kind: str, position: Position | None) -> Literal | None:
    """The constant that a cast of a constant gives, where that is known before anything runs.

    >>> print(cast(Literal("2024-01-01", "string"), "timestamp", None))
    TIMESTAMP '2024-01-01 00:00:00'
    """
    if not isinstance(value, Literal):
        return None
    if value.type == kind:
        return Literal(value.value, kind, position)
    if value.type == "bigint" and kind == "double":
        assert isinstance(value.value, int)
        return Literal(float(value.value), kind, position)
    if value.type == "string" and kind in ("date", "timestamp"):
        return _date(str(value.value), kind, position)
    return None


def _number(digits: str, position: Position | None) -> Literal:
    unsigned = digits.removeprefix("-")
    if len(unsigned) > MAX_DIGITS:
        raise QueryError(
            f"a number of {len(unsigned):,} digits, and the most is {MAX_DIGITS:,}",
            position=position,
            hint="write fewer: 64 bits hold 19, a double 17",
        )
    if _INTEGER.fullmatch(unsigned):
        return _integer(int(digits), position)
    if not _NUMBER.fullmatch(unsigned):
        raise QueryError(f"{digits[:40]!r} is not a number", position=position, hint="write 1, 1.5 or 1e3")
    value = float(digits)
    if math.isinf(value):
        raise QueryError("the number is too large", position=position, hint="the largest is 1.797e308")
    return Literal(value, "double", position)


def _integer(value: int, position: Position | None) -> Literal:
    if not _MIN_BIGINT <= value <= _MAX_BIGINT:
        raise QueryError(
            "the integer does not fit 64 bits", position=position, hint="write it with a decimal point"
        )
    return Literal(value, "bigint", position)


def _date(text: str, kind: str, position: Position | None) -> Literal:
    pattern = _DATE if kind == "date" else _TIMESTAMP
    example = "DATE '2024-01-31'" if kind == "date" else "TIMESTAMP '2024-01-31 12:30:00'"
    error = QueryError(f"{text[:40]!r} is not a {kind}", position=position, hint=f"write {example}")
    text = text.strip()
    if not pattern.fullmatch(text):
        raise error
    try:
        if kind == "date":
            return Literal(datetime.date.fromisoformat(text), kind, position)
        moment = datetime.datetime.fromisoformat(
            text.replace(" +", "+").replace(" -", "-").replace(" Z", "Z")
        )
        # Without a zone it is in that of the run, which is not known yet.
        return Literal(moment.astimezone(datetime.UTC) if moment.tzinfo else moment, kind, position)
    except (ValueError, OverflowError):
        raise error from None
