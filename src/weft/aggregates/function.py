"""Aggregate functions: which parts each needs, and how the parts' states become the answer.

One entry per function; ``FUNCTIONS`` is the registry that the SQL reader, the checker and the tests read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from weft.aggregates.lower import (
    lower_avg,
    lower_by,
    lower_count,
    lower_geometric_mean,
    lower_product,
    lower_range,
    lower_squares,
    lower_sum,
    lower_value,
    lower_variance,
)
from weft.aggregates.part import Part, States, part
from weft.errors import QueryError
from weft.model.expression import Call, Expr, Literal

Exprs: TypeAlias = tuple[Expr, ...]
Types: TypeAlias = tuple[str, ...]

NUMBER_TYPES = frozenset(("bigint", "double", "null"))
ORDERED_TYPES = frozenset(("bigint", "double", "string", "timestamp", "date", "boolean", "null"))
TRUTH_TYPES = frozenset(("boolean", "null"))
ALL_TYPES = ORDERED_TYPES | {"decimal"}


@dataclass(frozen=True, slots=True)
class Constant:
    """An argument that is a number for all rows: what it is called, its bounds, and what stands for it."""

    name: str
    least: float
    most: float
    default: float | None = None

    def read(self, given: Expr, function: str) -> float:
        """The number; raises QueryError where it is none, or out of bounds."""
        number = given.value if isinstance(given, Literal) else None
        bounds = f"a number from {self.least:g} to {self.most:g}"
        if isinstance(number, bool) or not isinstance(number, int | float):
            message = f"the {self.name} of {function} must be a constant, not {given}"
            raise QueryError(message, position=given.position, hint=f"write {bounds}")
        if not self.least <= number <= self.most:
            raise QueryError(
                f"the {self.name} of {function} is {number}", position=given.position, hint=f"write {bounds}"
            )
        return float(number)


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate's algebra: lift and combine live in its parts, ``lower`` makes the answer.

    ``invertible`` says whether its states can be taken back exactly (integers yes, floats no).
    """

    name: str
    accepts: tuple[frozenset[str], ...]
    parts: Callable[[Exprs, Types], tuple[Part, ...]]
    result: Callable[[Types], str]
    lower: Callable[..., pa.Array]
    summary: str
    keeps_type: bool = False
    constants: tuple[Constant, ...] = ()

    def __reduce__(self) -> tuple[Callable[..., AggregateFunction], tuple[Any, ...]]:
        # A program travels to tasks; what every process has travels by name, the rest by value.
        if FUNCTIONS.get(self.name) is self:
            return _named, (self.name,)
        return AggregateFunction, tuple(getattr(self, f.name) for f in fields(self))

    @property
    def arity(self) -> int:
        """The number of arguments that differ from row to row."""
        return len(self.accepts)

    @property
    def arities(self) -> tuple[int, int]:
        """The fewest and the most arguments it takes, constants included."""
        needed = sum(c.default is None for c in self.constants)
        return self.arity + needed, self.arity + len(self.constants)

    def bound(self, args: Exprs) -> AggregateFunction:
        """The function for these arguments, its constants read: its ``lower`` then takes none.

        >>> FUNCTIONS["avg"].bound((Literal(1, "bigint"),)).name
        'avg'
        """
        fewest, most = self.arities
        if not fewest <= len(args) <= most:
            wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
            raise QueryError(f"{self.name} takes {wanted} argument(s), not {len(args)}")
        if not self.constants:
            return self
        numbers = self.numbers(args)
        return replace(self, constants=(), lower=partial(self.lower, constants=numbers))

    def numbers(self, args: Exprs) -> tuple[float, ...]:
        """The constants among the arguments, or what stands for those left out."""
        given = args[self.arity :]
        left_out = (c.default or 0.0 for c in self.constants[len(given) :])
        return (*(c.read(a, self.name) for c, a in zip(self.constants, given)), *left_out)

    def check(self, types: Types) -> str:
        """Return the SQL type of the answer; raise QueryError where an argument's type is wrong.

        >>> FUNCTIONS["avg"].check(("bigint",))
        'double'
        """
        for position, (given, accepted) in enumerate(zip(types, self.accepts)):
            if given not in accepted:
                place = "" if self.arity == 1 else f" as argument {position + 1}"
                raise QueryError(
                    f"{self.name} takes {' or '.join(sorted(accepted - {'null'}))}{place}, not {given}",
                    hint="cast the argument to one of these types",
                )
        return self.result(types)


def _named(name: str) -> AggregateFunction:
    return FUNCTIONS[name]


def _with_count(kind: str) -> Callable[[Exprs, Types], tuple[Part, ...]]:
    """The part of this kind, and the count of its last argument, which says whether there is an answer."""
    return lambda args, types: (part(kind, args, types), part("count", args[-1:], types[-1:]))


def _number(types: Types) -> Types:
    return ("double",) if types == ("null",) else types


def _sum_parts(args: Exprs, types: Types) -> tuple[Part, ...]:
    return part("sum", args, _number(types)), part("count", args, types)


def _squares(args: Exprs, types: Types) -> tuple[Part, ...]:
    square = Call("*", (args[0], args[0]))
    return *_sum_parts((square,), types), part("count", args, types)


def _moments(args: Exprs, types: Types) -> tuple[Part, ...]:
    return (part("moments", args, ("double",)),)


def _same(types: Types) -> str:
    return types[0]


def _always(dtype: str) -> Callable[[Types], str]:
    return lambda types: dtype


def _sum_type(types: Types) -> str:
    return "bigint" if types == ("bigint",) else "double"


def _function(
    name: str,
    accepts: tuple[frozenset[str], ...],
    parts: Callable[[Exprs, Types], tuple[Part, ...]],
    result: Callable[[Types], str],
    lower: Callable[[Sequence[Part], Sequence[States]], pa.Array],
    summary: str,
    keeps_type: bool = False,
) -> tuple[str, AggregateFunction]:
    return name, AggregateFunction(name, accepts, parts, result, lower, summary, keeps_type)


def _range_parts(args: Exprs, types: Types) -> tuple[Part, ...]:
    types = _number(types)
    return part("max", args, types), part("min", args, types), part("count", args, types)


def _product_parts(args: Exprs, types: Types) -> tuple[Part, ...]:
    return part("product", args, ("double",)), part("count", args, types)


def _log_parts(args: Exprs, types: Types) -> tuple[Part, ...]:
    return part("sum_ln", args, ("double",)), part("count", args, types)


FUNCTIONS: dict[str, AggregateFunction] = dict(
    (
        _function(
            "count_star", (), lambda a, t: (part("rows", (), ()),), _always("bigint"), lower_count, "rows"
        ),
        _function(
            "count",
            (ALL_TYPES,),
            lambda a, t: (part("count", a, t),),
            _always("bigint"),
            lower_count,
            "values that are not null",
        ),
        _function(
            "count_if",
            (TRUTH_TYPES,),
            lambda a, t: (part("count_if", a, t),),
            _always("bigint"),
            lower_count,
            "rows for which the condition is true",
        ),
        _function("sum", (NUMBER_TYPES,), _sum_parts, _sum_type, lower_sum, "sum; exact for integers"),
        _function("avg", (NUMBER_TYPES,), _sum_parts, _always("double"), lower_avg, "mean"),
        _function("sum_of_squares", (NUMBER_TYPES,), _squares, _sum_type, lower_squares, "sum of x*x"),
        _function("min", (ORDERED_TYPES,), _with_count("min"), _same, lower_value, "smallest value", True),
        _function("max", (ORDERED_TYPES,), _with_count("max"), _same, lower_value, "largest value", True),
        _function("range", (NUMBER_TYPES,), _range_parts, _sum_type, lower_range, "max minus min"),
        _function(
            "first",
            (ORDERED_TYPES,),
            _with_count("first"),
            _same,
            lower_value,
            "value of the earliest event time, the smallest such",
            True,
        ),
        _function(
            "last",
            (ORDERED_TYPES,),
            _with_count("last"),
            _same,
            lower_value,
            "value of the latest event time, the largest such",
            True,
        ),
        _function(
            "min_by",
            (ORDERED_TYPES, ORDERED_TYPES),
            _with_count("min_by"),
            _same,
            lower_by,
            "x where y is smallest; ties go to the smallest (event time, x)",
            True,
        ),
        _function(
            "max_by",
            (ORDERED_TYPES, ORDERED_TYPES),
            _with_count("max_by"),
            _same,
            lower_by,
            "x where y is largest; ties go to the largest (event time, x)",
            True,
        ),
        _function(
            "bool_and",
            (TRUTH_TYPES,),
            _with_count("min"),
            _always("boolean"),
            lower_value,
            "true if all are",
            True,
        ),
        _function(
            "bool_or",
            (TRUTH_TYPES,),
            _with_count("max"),
            _always("boolean"),
            lower_value,
            "true if any is",
            True,
        ),
        *(
            _function(
                name, (NUMBER_TYPES,), _moments, _always("double"), lower_variance(sample, root), summary
            )
            for name, sample, root, summary in (
                ("var_pop", False, False, "variance of the population"),
                ("var_samp", True, False, "variance of a sample; null for one value"),
                ("stddev_pop", False, True, "standard deviation of the population"),
                ("stddev_samp", True, True, "standard deviation of a sample; null for one value"),
            )
        ),
        _function(
            "product", (NUMBER_TYPES,), _product_parts, _always("double"), lower_product, "product, as double"
        ),
        _function(
            "geometric_mean",
            (NUMBER_TYPES,),
            _log_parts,
            _always("double"),
            lower_geometric_mean,
            "exp of the mean logarithm; 0 with a zero, NaN with a negative value",
        ),
    )
)

ALIASES: dict[str, str] = {
    "mean": "avg",
    "variance": "var_samp",
    "stddev": "stddev_samp",
    "std": "stddev_samp",
    "sumsq": "sum_of_squares",
    "geomean": "geometric_mean",
    "first_value": "first",
    "last_value": "last",
    "arg_min": "min_by",
    "argmin": "min_by",
    "arg_max": "max_by",
    "argmax": "max_by",
    "every": "bool_and",
    "logical_and": "bool_and",
    "some": "bool_or",
    "any": "bool_or",
    "logical_or": "bool_or",
    "countif": "count_if",
    "percentile_approx": "approx_percentile",
    "approx_quantile": "approx_percentile",
}
