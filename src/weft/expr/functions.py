"""The whitelist: every operator and function an expression may use, its arity, type rule and kernel.

Nothing outside this table is reachable from query text, here or on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow.compute as pc

from weft.expr import rules
from weft.expr.arrays import Result
from weft.expr.kernels import calendar, casting, comparing, logic, numeric, rounding, text
from weft.expr.like import like, matches
from weft.expr.rules import Rule, takes
from weft.expr.sets import membership
from weft.model.bounds import MAX_VALUE_BYTES


@dataclass(frozen=True, slots=True)
class Function:
    """One operator or function; ``max_args`` None means any number.

    ``failure`` says what a bad value of it means. ``lazy`` functions do not need all arguments in
    all rows and have a kernel over values; ``strict`` ones give NULL wherever an argument is NULL.
    """

    name: str
    min_args: int
    max_args: int | None
    rule: Rule
    kernel: Callable[..., Result] | None = None
    lazy: logic.Lazy | None = None
    strict: bool = True
    failure: str = "bad value"


def _table() -> dict[str, Function]:
    overflow, by_zero = "out of the range of bigint", "division by zero"
    too_long = f"text longer than {MAX_VALUE_BYTES:,} bytes"
    number, string = takes("double", gives="double"), takes("string", gives="string")
    part = calendar.part
    functions = [
        Function("+", 2, 2, rules.arithmetic, numeric.add, failure=overflow),
        Function("-", 2, 2, rules.arithmetic, numeric.subtract, failure=overflow),
        Function("*", 2, 2, rules.arithmetic, numeric.multiply, failure=overflow),
        Function("/", 2, 2, takes("double", gives="double"), numeric.divide, failure=by_zero),
        Function("%", 2, 2, rules.arithmetic, numeric.remainder, failure=by_zero),
        Function("div", 2, 2, takes("bigint", gives="bigint"), numeric.integer_divide, failure=by_zero),
        Function("negate", 1, 1, rules.arithmetic, numeric.negate, failure=overflow),
        Function("abs", 1, 1, rules.arithmetic, numeric.absolute, failure=overflow),
        Function("round", 1, 2, rules.rounding, rounding.round_half_up, failure=overflow),
        Function("floor", 1, 1, rules.whole, numeric.floor, failure=overflow),
        Function("ceil", 1, 1, rules.whole, numeric.ceil, failure=overflow),
        Function("sqrt", 1, 1, number, numeric.square_root),
        Function("exp", 1, 1, number, numeric.exponential),
        Function("ln", 1, 1, number, numeric.ln),
        Function("log10", 1, 1, number, numeric.log10),
        Function("log2", 1, 1, number, numeric.log2),
        Function("power", 2, 2, number, numeric.power),
        Function("sign", 1, 1, number, numeric.sign),
        Function("isnan", 1, 1, takes("double", gives="boolean"), numeric.is_nan, strict=False),
        *(
            Function(n, 2, 2, rules.comparison, comparing.comparison(n))
            for n in ("=", "<>", "<", "<=", ">", ">=")
        ),
        Function("<=>", 2, 2, rules.null_safe_equal, comparing.null_safe_equal, strict=False),
        Function("is_null", 1, 1, rules.is_null, comparing.is_null, strict=False),
        Function("in", 2, None, membership, comparing.belongs),
        Function("greatest", 2, None, rules.extreme, comparing.extreme("max"), strict=False),
        Function("least", 2, None, rules.extreme, comparing.extreme("min"), strict=False),
        Function("and", 2, None, takes("boolean", gives="boolean"), lazy=logic.conjunction),
        Function("or", 2, None, takes("boolean", gives="boolean"), lazy=logic.disjunction),
        Function("not", 1, 1, takes("boolean", gives="boolean"), logic.negation),
        Function("case", 3, None, rules.case, lazy=logic.case),
        Function("if", 3, 3, rules.case),
        Function("coalesce", 1, None, rules.coalesce, lazy=logic.coalesce),
        Function("nullif", 2, 2, rules.nullif),
        Function("cast", 2, 2, rules.casting, casting.cast, failure="value that cannot be converted"),
        Function("like", 2, 3, like, matches),
        Function("length", 1, 1, takes("string", gives="bigint"), text.length),
        Function("lower", 1, 1, string, text.lower),
        Function("upper", 1, 1, string, text.upper),
        Function("trim", 1, 1, string, text.trim("")),
        Function("ltrim", 1, 1, string, text.trim("l")),
        Function("rtrim", 1, 1, string, text.trim("r")),
        Function("reverse", 1, 1, string, text.reverse),
        Function("substring", 2, 3, rules.slicing, text.substring),
        Function("left", 2, 2, rules.slicing, text.left),
        Function("right", 2, 2, rules.slicing, text.right),
        Function("concat", 1, None, string, text.concat, failure=too_long),
        Function("starts_with", 2, 2, rules.strings(1, "boolean"), text.starts_with),
        Function("ends_with", 2, 2, rules.strings(1, "boolean"), text.ends_with),
        Function("contains", 2, 2, rules.strings(1, "boolean"), text.contains),
        Function("replace", 2, 3, rules.strings(2, "string"), text.replace, failure=too_long),
        Function("year", 1, 1, rules.date_part, part(pc.year)),
        Function("quarter", 1, 1, rules.date_part, part(pc.quarter)),
        Function("month", 1, 1, rules.date_part, part(pc.month)),
        Function("day", 1, 1, rules.date_part, part(pc.day)),
        Function("dayofweek", 1, 1, rules.date_part, part(calendar.day_of_week)),
        Function("dayofyear", 1, 1, rules.date_part, part(pc.day_of_year)),
        Function("hour", 1, 1, rules.date_part, part(pc.hour)),
        Function("minute", 1, 1, rules.date_part, part(pc.minute)),
        Function("second", 1, 1, rules.date_part, part(pc.second)),
    ]
    return {f.name: f for f in functions}


FUNCTIONS: Mapping[str, Function] = MappingProxyType(_table())

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "==": "=",
        "!=": "<>",
        "mod": "%",
        "negative": "negate",
        "isnull": "is_null",
        "ceiling": "ceil",
        "pow": "power",
        "log": "ln",
        "signum": "sign",
        "ifnull": "coalesce",
        "nvl": "coalesce",
        "iff": "if",
        "char_length": "length",
        "character_length": "length",
        "len": "length",
        "lcase": "lower",
        "ucase": "upper",
        "substr": "substring",
        "startswith": "starts_with",
        "endswith": "ends_with",
        "dayofmonth": "day",
    }
)
"""Other names of the same functions; the parser replaces them."""
