"""The dumbest evaluator: one expression over one row of Python values, None for NULL.

    >>> from weft.model.expression import Call, Column, Literal
    >>> evaluate_row(Call("/", (Column("x"), Literal(2, "bigint"))), {"x": 3})
    1.5

It follows Spark's ANSI SQL, except that a bad value (x/0, overflow, bad cast) is NULL; pass a set as
``bad`` to collect the sub-expressions that were bad. ``types`` gives the columns' SQL types; without
it they are those of the row's values. Timestamps are ``datetime``. Those with a zone are instants, whose
local time is that of ``zone``, the run's; naive ones are local times, read in the run's zone where they
meet an instant. Without a ``zone`` no column has one, and it is UTC.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import math
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from weft.model.expression import Call, Column, Expr, Literal
from weft.testing.brute_force.casts import (
    MAX,
    BadValue,
    cast,
    in_zone,
    instant,
    type_of_value,
    whole,
    within,
    zoned,
)


def evaluate_row(
    expr: Expr,
    row: Mapping[str, Any],
    types: Mapping[str, str] | None = None,
    bad: set[Expr] | None = None,
    zone: str | None = None,
) -> Any:
    """Return the value of ``expr`` for ``row``."""
    if types is None:
        types = {name: type_of_value(value) for name, value in row.items()}
    with in_zone(zone) if zone else nullcontext():
        return _Row(row, types, set() if bad is None else bad).value(expr)


def holds(expr: Expr | None, row: Mapping[str, Any], types: Mapping[str, str] | None = None) -> bool:
    """Return whether a predicate keeps the row: only TRUE does, NULL does not; no predicate keeps all."""
    return expr is None or evaluate_row(expr, row, types) is True


class _Row:
    def __init__(self, row: Mapping[str, Any], types: Mapping[str, str], bad: set[Expr]) -> None:
        self.row, self.types, self.bad = row, types, bad

    def value(self, expr: Expr) -> Any:
        if isinstance(expr, Column):
            value = self.row[expr.name]
            return zoned(value) if isinstance(value, dt.datetime) and value.tzinfo else value
        if isinstance(expr, Literal):
            return zoned(expr.value) if isinstance(expr.value, dt.datetime) else expr.value
        lazy = getattr(self, f"_{expr.function}", None)
        if lazy is not None:
            return lazy(expr)
        args = [self.value(a) for a in expr.args]
        try:
            if expr.function in NULL_AWARE:
                return NULL_AWARE[expr.function](*args)
            return None if None in args else STRICT[expr.function](*args)
        except BadValue:
            self.bad.add(expr)
            return None

    def _and(self, expr: Call) -> bool | None:
        values = []
        for arg in expr.args:
            values.append(self.value(arg))
            if values[-1] is False:
                return False
        return None if None in values else True

    def _or(self, expr: Call) -> bool | None:
        values = []
        for arg in expr.args:
            values.append(self.value(arg))
            if values[-1] is True:
                return True
        return None if None in values else False

    def _case(self, expr: Call) -> Any:
        *branches, otherwise = expr.args
        dtype = common_type([type_of(a, self.types) for a in (*branches[1::2], otherwise)])
        for condition, value in zip(branches[::2], branches[1::2]):
            if self.value(condition) is True:
                return convert(self.value(value), dtype)
        return convert(self.value(otherwise), dtype)

    def _if(self, expr: Call) -> Any:
        return self._case(Call("case", expr.args))

    def _coalesce(self, expr: Call) -> Any:
        wanted = type_of(expr, self.types)
        values = (self.value(a) for a in expr.args)
        return convert(next((v for v in values if v is not None), None), wanted)

    def _in(self, expr: Call) -> bool | None:
        value, *items = (self.value(a) for a in expr.args)
        if value is None:
            return None
        if any(type_of(a, self.types) == "double" for a in expr.args):
            value, items = convert(value, "double"), [convert(i, "double") for i in items]
        if any(i is not None and compare(value, i) == 0 for i in items):
            return True
        return None if None in items else False

    def _greatest(self, expr: Call) -> Any:
        wanted = type_of(expr, self.types)
        values = [convert(self.value(a), wanted) for a in expr.args]
        present = [v for v in values if v is not None]
        return max(present, key=functools.cmp_to_key(compare), default=None)

    def _least(self, expr: Call) -> Any:
        wanted = type_of(expr, self.types)
        values = [convert(self.value(a), wanted) for a in expr.args]
        present = [v for v in values if v is not None]
        return min(present, key=functools.cmp_to_key(compare), default=None)

    def _nullif(self, expr: Call) -> Any:
        left, right = (self.value(a) for a in expr.args)
        return None if left is not None and right is not None and compare(left, right) == 0 else left


def type_of(expr: Expr, types: Mapping[str, str]) -> str:
    """Return the SQL type of an expression (as far as values depend on it)."""
    if isinstance(expr, Column):
        return types[expr.name]
    if isinstance(expr, Literal):
        return expr.type
    name, args = expr.function, expr.args
    if name in ("+", "-", "*", "%", "coalesce", "greatest", "least", "negate", "abs", "round"):
        return common_type([type_of(a, types) for a in (args[:1] if name == "round" else args)])
    if name in ("case", "if"):
        *branches, otherwise = args
        return common_type([type_of(a, types) for a in (*branches[1::2], otherwise)])
    if name == "nullif":
        return type_of(args[0], types)
    if name == "cast":
        return str(args[1].value)  # type: ignore[union-attr]
    return RESULTS.get(name, "boolean")


def common_type(names: list[str]) -> str:
    """Return the type that values of all these types become where they meet."""
    kinds = [n for n in dict.fromkeys(names) if n != "null"]
    if not kinds:
        return "null"
    if "timestamp" in kinds:
        return "timestamp"
    if "date" in kinds:
        return "date"
    return "double" if "double" in kinds else kinds[0]


def convert(value: Any, dtype: str) -> Any:
    """Apply the implicit casts to a value: bigint to double, date and text to what they meet."""
    if value is not None and type_of_value(value) != dtype and dtype in ("double", "timestamp", "date"):
        return cast(value, dtype)
    return value


def compare(left: Any, right: Any) -> int:
    """Return -1, 0 or 1; NaN equals NaN and is larger than every number."""
    if isinstance(left, (dt.date, str)) and isinstance(right, (dt.date, str)):
        left, right = meet(left, right)
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
        if math.isnan(left) or math.isnan(right):
            return int(math.isnan(left)) - int(math.isnan(right))
    return int(left > right) - int(left < right)


def meet(left: Any, right: Any) -> tuple[Any, Any]:
    """Return text, dates and timestamps as values Python can compare."""
    wanted = common_type([type_of_value(left), type_of_value(right)])
    left, right = convert(left, wanted), convert(right, wanted)
    if wanted == "timestamp" and (left.tzinfo or right.tzinfo):
        # As instants: of two local times in one zone Python compares what clocks show.
        left, right = (instant(v).astimezone(dt.UTC) for v in (left, right))
    return left, right


def arithmetic(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(left: Any, right: Any) -> Any:
        if isinstance(left, float) or isinstance(right, float):
            return operation(float(left), float(right))
        return within(operation(left, right))

    return apply


def divide(left: Any, right: Any) -> float:
    if right == 0:
        raise BadValue
    return float(left) / float(right)


def div(left: int, right: int) -> int:
    if right == 0:
        raise BadValue
    quotient = abs(left) // abs(right)
    return within(quotient if (left < 0) == (right < 0) else -quotient)


def remainder(left: Any, right: Any) -> Any:
    if right == 0:
        raise BadValue
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
        return math.nan if math.isinf(left) or math.isnan(right) else math.fmod(left, right)
    return left - right * (abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1))


def round_half_up(value: Any, digits: int = 0) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return value
    with decimal.localcontext(prec=2000):
        unit = decimal.Decimal(1).scaleb(-digits)
        exact = decimal.Decimal(repr(value))
        result = (
            exact.quantize(unit, decimal.ROUND_HALF_UP) if int(exact.as_tuple().exponent) < -digits else exact
        )
    return float(result) + 0.0 if isinstance(value, float) else within(int(result))


def real(function: Callable[[float], float]) -> Callable[[Any], float]:
    def apply(value: Any) -> float:
        try:
            return function(float(value))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return apply


def logarithm(function: Callable[[float], float]) -> Callable[[Any], float | None]:
    return lambda value: None if float(value) <= 0 else function(float(value))


def power(base: Any, exponent: Any) -> float:
    base, exponent = float(base), float(exponent)
    if exponent != 0 and (math.isnan(exponent) or (abs(base) == 1 and math.isinf(exponent))):
        return math.nan
    try:
        return math.pow(base, exponent)
    except ValueError:  # 0 to a negative power, or a fraction of a negative base
        if base != 0:
            return math.nan
        odd = exponent.is_integer() and exponent % 2 == 1
        return math.copysign(math.inf, base) if odd else math.inf
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf


def sign(value: Any) -> float:
    value = float(value)
    return value if value == 0 or math.isnan(value) else math.copysign(1.0, value)


def like(text: str, pattern: str, escape: str = "\\") -> bool:
    regex, characters = "", iter(pattern)
    for c in characters:
        if c == escape:
            regex += re.escape(next(characters))
        else:
            regex += {"%": ".*", "_": "."}.get(c, re.escape(c))
    return re.fullmatch(regex, text, re.DOTALL) is not None


def substring(text: str, start: int, length: int = MAX) -> str:
    first = start - 1 if start > 0 else start + len(text) if start < 0 else 0
    return text[max(first, 0) : max(first + length, 0)] if length > 0 else ""


def part(field: Callable[[dt.datetime], int]) -> Callable[[Any], int]:
    return lambda value: field(cast(value, "timestamp"))


def day_part(field: Callable[[dt.date], int]) -> Callable[[Any], int]:
    return lambda value: field(value if isinstance(value, dt.date) else cast(value, "timestamp"))


NULL_AWARE: dict[str, Callable[..., Any]] = {
    "is_null": lambda x: x is None,
    "isnan": lambda x: x is not None and math.isnan(x),
    "<=>": lambda a, b: a is b if a is None or b is None else compare(a, b) == 0,
}

STRICT: dict[str, Callable[..., Any]] = {
    "+": arithmetic(lambda a, b: a + b),
    "-": arithmetic(lambda a, b: a - b),
    "*": arithmetic(lambda a, b: a * b),
    "/": divide,
    "%": remainder,
    "div": div,
    "negate": lambda a: -a if isinstance(a, float) else within(-a),
    "abs": lambda a: abs(a) if isinstance(a, float) else within(abs(a)),
    "=": lambda a, b: compare(a, b) == 0,
    "<>": lambda a, b: compare(a, b) != 0,
    "<": lambda a, b: compare(a, b) < 0,
    "<=": lambda a, b: compare(a, b) <= 0,
    ">": lambda a, b: compare(a, b) > 0,
    ">=": lambda a, b: compare(a, b) >= 0,
    "not": lambda a: not a,
    "like": like,
    "cast": cast,
    "round": round_half_up,
    "floor": whole(math.floor),
    "ceil": whole(math.ceil),
    "sqrt": real(math.sqrt),
    "exp": real(math.exp),
    "ln": logarithm(math.log),
    "log10": logarithm(math.log10),
    "log2": logarithm(math.log2),
    "power": power,
    "sign": sign,
    "length": len,
    "lower": str.lower,
    "upper": str.upper,
    "trim": lambda s: s.strip(" "),
    "ltrim": lambda s: s.lstrip(" "),
    "rtrim": lambda s: s.rstrip(" "),
    "reverse": lambda s: s[::-1],
    "substring": substring,
    "left": lambda s, n: s[: max(n, 0)],
    "right": lambda s, n: s[-n:] if n > 0 else "",
    "concat": lambda *s: "".join(s),
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": lambda s, t: t in s,
    "replace": lambda s, t, u="": s.replace(t, u) if t else s,
    "year": day_part(lambda t: t.year),
    "quarter": day_part(lambda t: (t.month + 2) // 3),
    "month": day_part(lambda t: t.month),
    "day": day_part(lambda t: t.day),
    "dayofweek": day_part(lambda t: t.isoweekday() % 7 + 1),
    "dayofyear": day_part(lambda t: t.timetuple().tm_yday),
    "hour": part(lambda t: t.hour),
    "minute": part(lambda t: t.minute),
    "second": part(lambda t: t.second),
}

RESULTS: dict[str, str] = {
    **dict.fromkeys(("/", "sqrt", "exp", "ln", "log10", "log2", "power", "sign"), "double"),
    **dict.fromkeys(("div", "floor", "ceil", "length"), "bigint"),
    **dict.fromkeys(("year", "quarter", "month", "day", "dayofweek", "dayofyear"), "bigint"),
    **dict.fromkeys(("hour", "minute", "second"), "bigint"),
    **dict.fromkeys(("lower", "upper", "trim", "ltrim", "rtrim", "reverse", "substring"), "string"),
    **dict.fromkeys(("left", "right", "concat", "replace"), "string"),
}
