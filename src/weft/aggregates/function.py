"""Aggregate functions: which parts each needs, and how the parts' states become the answer.

One entry per function; ``FUNCTIONS`` is the registry that the SQL reader, the checker and the tests read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from weft.aggregates.monoid import BEYOND, SUM_INT
from weft.aggregates.part import Part, States, part
from weft.aggregates.word import array_of
from weft.errors import AnswerOverflow, QueryError
from weft.query import Call, Expr, Literal

Exprs: TypeAlias = tuple[Expr, ...]
Types: TypeAlias = tuple[str, ...]

NUMBERS = frozenset(("bigint", "double", "null"))
ORDERED = frozenset(("bigint", "double", "string", "timestamp", "date", "boolean", "null"))
TRUTHS = frozenset(("boolean", "null"))
ANY = ORDERED | {"decimal"}


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
        """How many arguments it takes that differ from row to row."""
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
        """The SQL type of the answer; raises QueryError where an argument's type is wrong.

        >>> FUNCTIONS["avg"].check(("bigint",))
        'double'
        """
        for position, (given, wanted) in enumerate(zip(types, self.accepts)):
            if given not in wanted:
                which = "" if self.arity == 1 else f" as argument {position + 1}"
                raise QueryError(
                    f"{self.name} takes {' or '.join(sorted(wanted - {'null'}))}{which}, not {given}",
                    hint="cast the argument to one of these types",
                )
        return self.result(types)

    def properties(self, args: Exprs, types: Types) -> tuple[bool, bool, bool]:
        """(invertible, commutative, selective) for arguments of these types."""
        monoids = [p.monoid for p in self.parts(args, types)]
        values = [m for m in monoids if m.selective] or monoids
        return (
            all(m.invertible for m in monoids),
            all(m.commutative for m in monoids),
            len(values) == 1 and values[0].selective and self.keeps_type,
        )


def _named(name: str) -> AggregateFunction:
    return FUNCTIONS[name]


def _counts(states: States) -> np.ndarray:
    return states.words[:, 0]


def _masked(values: np.ndarray, counts: np.ndarray) -> pa.Array:
    nothing = counts == 0
    return pa.array(values, mask=nothing if nothing.any() else None)


def _divided(part: Part, states: States, divisor: np.ndarray | int) -> np.ndarray:
    """A sum divided by a count, as float: finite where the sum alone would not be."""
    if part.monoid.code == SUM_INT:
        return (states.words[:, 0] * 4294967296.0 + states.words[:, 1]) / np.maximum(divisor, 1)
    high, low = states.words.view(np.float64).T
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(
            np.isinf(low), high / np.maximum(divisor, 1) * BEYOND, (high + low) / np.maximum(divisor, 1)
        )


def _with_count(kind: str) -> Callable[[Exprs, Types], tuple[Part, ...]]:
    """The part of this kind, and the count of its last argument, which says whether there is an answer."""
    return lambda args, types: (part(kind, args, types), part("count", args[-1:], types[-1:]))


def _number(types: Types) -> Types:
    return ("double",) if types == ("null",) else types


def _sum_parts(args: Exprs, types: Types) -> tuple[Part, ...]:
    return part("sum", args, _number(types)), part("count", args, types)


def _lower_count(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
    return pa.array(_counts(states[0]))


def _lower_sum(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
    if parts[0].monoid.code != SUM_INT:
        return _masked(_divided(parts[0], states[0], 1), _counts(states[1]))
    high, low = states[0].words[:, 0], states[0].words[:, 1]
    if ((high < -(2**31)) | (high >= 2**31)).any():
        raise AnswerOverflow(
            "an integer sum does not fit 64 bits; sum(cast(... AS double)) gives a rounded one"
        )
    return _masked((high << 32) + low, _counts(states[1]))


def _lower_avg(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
    counts = _counts(states[1])
    return _masked(_divided(parts[0], states[0], counts), counts)


def _lower_value(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
    """The last word of a selective state."""
    words, nothing = states[0].words, _counts(states[1]) == 0
    return array_of(
        parts[0].words[-1][1],
        np.ascontiguousarray(words[:, -1]),
        states[0].dictionary,
        nothing if nothing.any() else None,
    )


def _lower_by(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
    words = states[0].words
    missing = (_counts(states[1]) == 0) | (words[:, 2] == 0)
    return array_of(
        parts[0].words[-1][1],
        np.ascontiguousarray(words[:, -1]),
        states[0].dictionary,
        missing if missing.any() else None,
    )


def _lower_range(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
    counts = _counts(states[2])
    if parts[0].types == ("double",):
        largest, smallest = (
            array_of(p.words[0][1], np.ascontiguousarray(s.words[:, 0]), None, None).to_numpy()
            for p, s in zip(parts[:2], states[:2])
        )
        with np.errstate(invalid="ignore"):
            return _masked(largest - smallest, counts)
    largest = np.where(counts == 0, 0, states[0].words[:, 0])
    smallest = np.where(counts == 0, 0, states[1].words[:, 0])
    difference = largest - smallest
    if (difference < 0).any():
        raise AnswerOverflow("an integer range does not fit 64 bits; cast the argument to double")
    return _masked(difference, counts)


def _lower_variance(sample: bool, root: bool) -> Callable[[Sequence[Part], Sequence[States]], pa.Array]:
    def lower(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
        counts, m2 = states[0].words[:, 0], states[0].words.view(np.float64)[:, 3]
        freedom = counts - 1 if sample else counts
        variance = np.maximum(m2, 0.0) / np.maximum(freedom, 1)
        variance = np.where(np.isnan(m2), np.nan, variance)
        return _masked(np.sqrt(variance) if root else variance, freedom * (freedom > 0))

    return lower


def _lower_product(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
    mantissa, exponent = states[0].words.view(np.float64)[:, 0], states[0].words[:, 1]
    with np.errstate(over="ignore", under="ignore"):
        return _masked(
            np.ldexp(mantissa, np.clip(exponent, -5000, 5000).astype(np.int32)), _counts(states[1])
        )


def _lower_geometric_mean(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
    counts = _counts(states[1])
    with np.errstate(over="ignore"):
        return _masked(np.exp(_divided(parts[0], states[0], counts)), counts)


def _squares(args: Exprs, types: Types) -> tuple[Part, ...]:
    square = Call("*", (args[0], args[0]))
    return *_sum_parts((square,), types), part("count", args, types)


def _lower_squares(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
    if (_counts(states[1]) != _counts(states[2])).any():
        raise AnswerOverflow("the square of an integer does not fit 64 bits; cast the argument to double")
    return _lower_sum(parts, states)


def _moments(args: Exprs, types: Types) -> tuple[Part, ...]:
    return (part("moments", args, ("double",)),)


def _same(types: Types) -> str:
    return types[0]


def _always(type: str) -> Callable[[Types], str]:
    return lambda types: type


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
            "count_star", (), lambda a, t: (part("rows", (), ()),), _always("bigint"), _lower_count, "rows"
        ),
        _function(
            "count",
            (ANY,),
            lambda a, t: (part("count", a, t),),
            _always("bigint"),
            _lower_count,
            "values that are not null",
        ),
        _function(
            "count_if",
            (TRUTHS,),
            lambda a, t: (part("count_if", a, t),),
            _always("bigint"),
            _lower_count,
            "rows for which the condition is true",
        ),
        _function("sum", (NUMBERS,), _sum_parts, _sum_type, _lower_sum, "sum; exact for integers"),
        _function("avg", (NUMBERS,), _sum_parts, _always("double"), _lower_avg, "mean"),
        _function("sum_of_squares", (NUMBERS,), _squares, _sum_type, _lower_squares, "sum of x*x"),
        _function("min", (ORDERED,), _with_count("min"), _same, _lower_value, "smallest value", True),
        _function("max", (ORDERED,), _with_count("max"), _same, _lower_value, "largest value", True),
        _function("range", (NUMBERS,), _range_parts, _sum_type, _lower_range, "max minus min"),
        _function(
            "first",
            (ORDERED,),
            _with_count("first"),
            _same,
            _lower_value,
            "value of the earliest event time, the smallest such",
            True,
        ),
        _function(
            "last",
            (ORDERED,),
            _with_count("last"),
            _same,
            _lower_value,
            "value of the latest event time, the largest such",
            True,
        ),
        _function(
            "min_by",
            (ORDERED, ORDERED),
            _with_count("min_by"),
            _same,
            _lower_by,
            "x where y is smallest; ties go to the smallest (event time, x)",
            True,
        ),
        _function(
            "max_by",
            (ORDERED, ORDERED),
            _with_count("max_by"),
            _same,
            _lower_by,
            "x where y is largest; ties go to the largest (event time, x)",
            True,
        ),
        _function(
            "bool_and",
            (TRUTHS,),
            _with_count("min"),
            _always("boolean"),
            _lower_value,
            "true if all are",
            True,
        ),
        _function(
            "bool_or", (TRUTHS,), _with_count("max"), _always("boolean"), _lower_value, "true if any is", True
        ),
        *(
            _function(name, (NUMBERS,), _moments, _always("double"), _lower_variance(sample, root), summary)
            for name, sample, root, summary in (
                ("var_pop", False, False, "variance of the population"),
                ("var_samp", True, False, "variance of a sample; null for one value"),
                ("stddev_pop", False, True, "standard deviation of the population"),
                ("stddev_samp", True, True, "standard deviation of a sample; null for one value"),
            )
        ),
        _function(
            "product", (NUMBERS,), _product_parts, _always("double"), _lower_product, "product, as double"
        ),
        _function(
            "geometric_mean",
            (NUMBERS,),
            _log_parts,
            _always("double"),
            _lower_geometric_mean,
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
