"""Access paths: how the partners of a row are found among kept rows without looking at all of them.

An equality gives each row a code, and partners have the same code; a band ``abs(a - b) < c`` gives each row a
value, and partners lie within c of it; without either, partners are those whose times are near enough. Rows
that have no code or value (it is NULL) can have no partner.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.aggregates.word import order_floats
from weft.errors import QueryError
from weft.expr.arrays import as_mask, values_of
from weft.expr.check import result_type
from weft.expr.evaluate import Evaluator
from weft.expr.hashing import hash_values
from weft.model.expression import Call, Expr, Literal, columns_of, with_columns


@dataclass(frozen=True)
class Access:
    """The path of one condition: what is computed of each side's rows, and how far apart partners may be.

    ``values`` are expressions per side (none: by time alone), over the side's own columns. ``width`` is 0 for
    equalities. ``exact`` are the conditions that need no further test.
    """

    values: tuple[tuple[Expr, ...], ...] = ()
    width: float = 0.0
    exact: frozenset[Expr] = frozenset()

    @property
    def by_time(self) -> bool:
        """Return whether there is nothing to look up but the time."""
        return not self.values

    def residual(self, conditions: Sequence[Expr]) -> list[Expr]:
        """The conditions still to be tested."""
        return [c for c in conditions if c not in self.exact]

    def look_up(self, side: int, rows: Evaluator) -> tuple[np.ndarray, np.ndarray]:
        """The code or value of each row, and which rows have one (empty: all)."""
        arrays = [rows.evaluate(e) for e in self.values[side]]
        valid = np.zeros(0, np.bool_)
        for array in arrays:
            if array.null_count:
                here = as_mask(pc.is_valid(array))
                valid = here & valid if valid.size else here
        if self.width:
            return values_of(as_doubles(arrays[0])), valid
        codes = codes_of(arrays[0])
        for array in arrays[1:]:
            codes = mixed(codes, codes_of(array))
        return codes, valid

    def bounds(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The least and largest code or value that a partner can have; a little more where floats round."""
        if not self.width:
            return values, values
        with np.errstate(
            invalid="ignore"
        ):  # infinity has no partner: its bounds are NaN, which is past the end
            reach = reach_of(values, self.width)
            return values - reach, values + reach


def choose_access(conditions: Sequence[Expr], sides: Sequence[str], schemas: Sequence[pa.Schema]) -> Access:
    """All equalities between the two sides if there is one, else the first band, else by time.

    >>> from weft.model.expression import Column
    >>> schema = pa.schema({"x": pa.int64()})
    >>> equal = Call("=", (Column("a.x"), Column("b.x")))
    >>> choose_access([equal], ["a", "b"], [schema, schema]).residual([equal])
    []
    """
    joined, first = pair_schema(sides, schemas), sides[0]
    equal = [(c, terms) for c in conditions if (terms := equality_of(c, first, joined))]
    if equal:
        values = (
            tuple(bare(terms.own, first) for _, terms in equal),
            tuple(bare(terms.other, sides[1]) for _, terms in equal),
        )
        # A hash may deceive, so such conditions are tested again.
        exact = len(equal) == 1 and equal[0][1].exact
        return Access(values, 0.0, frozenset(c for c, _ in equal) if exact else frozenset())
    for condition in conditions:
        if terms := band_of(condition, first):
            return Access(((bare(terms.own, first),), (bare(terms.other, sides[1]),)), terms.width)
    return Access()


def pair_schema(sides: Sequence[str], schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The schema of joined rows: every column under ``side.column``."""
    fields = [f.with_name(f"{side}.{f.name}") for side, schema in zip(sides, schemas) for f in schema]
    return pa.schema(fields)


class Meeting(NamedTuple):
    """Expressions that one condition compares: one of one side, and one of other sides.

    ``exact`` says that equal codes are equal values.
    """

    own: Expr
    other: Expr
    width: float = 0.0
    exact: bool = False


def equality_of(condition: Expr, side: str, schema: pa.Schema | None) -> Meeting | None:
    """Return what has to be equal on a side and on others, in the same type; without a schema, in any."""
    if not isinstance(condition, Call) or condition.function != "=":
        return None
    terms = _split(condition.args, side)
    if terms is None or schema is None:
        return None if terms is None else Meeting(*terms)
    try:
        types = [result_type(expr, schema) for expr in terms]
    except QueryError:
        return None  # a string literal, say, that only the whole condition gives a type
    if types[0] == types[1]:
        if pa.types.is_decimal(types[0]) or pa.types.is_null(types[0]):
            return None
        return Meeting(*terms, exact=not pa.types.is_string(types[0]))
    if {str(t) for t in types} == {"int64", "double"}:
        double = Literal("double", "string")
        return Meeting(Call("cast", (terms[0], double)), Call("cast", (terms[1], double)), exact=True)
    return None


def band_of(condition: Expr, side: str, schema: pa.Schema | None = None) -> Meeting | None:
    """Return how far apart an expression of a side and one of others may be for a condition to be TRUE.

    ``abs(x - y) < c`` says it; ``sqrt((x - y) * (x - y) + ...) < c`` and the same without the root imply it,
    since no square is negative.

    >>> from weft.model.expression import Column
    >>> apart = Call("-", (Column("a.x"), Column("b.x")))
    >>> squares = Call("+", (Call("*", (apart, apart)), Call("power", (Column("a.y"), Literal(2, "bigint")))))
    >>> band_of(Call("<", (squares, Literal(9, "bigint"))), "a").width
    3.0
    """
    if not isinstance(condition, Call) or condition.function not in ("<", "<="):
        return None
    distance, limit = condition.args
    if not isinstance(limit, Literal) or not isinstance(limit.value, int | float) or limit.value <= 0:
        return None
    if not isinstance(distance, Call):
        return None
    width = float(limit.value)
    if distance.function == "abs":
        differences: list[Expr | None] = [distance.args[0]]
    elif distance.function == "sqrt":
        differences = [_squared(term) for term in _terms(distance.args[0])]
    else:
        differences, width = [_squared(term) for term in _terms(distance)], math.sqrt(width)
    if None in differences:
        return None
    for difference in differences:
        if isinstance(difference, Call) and difference.function == "-" and len(difference.args) == 2:
            terms = _split(difference.args, side)
            if terms is not None:
                return Meeting(*terms, width=width)
    return None


def _terms(expr: Expr) -> list[Expr]:
    """Return what is added up."""
    if isinstance(expr, Call) and expr.function == "+" and len(expr.args) == 2:
        return [*_terms(expr.args[0]), *_terms(expr.args[1])]
    return [expr]


def _squared(expr: Expr) -> Expr | None:
    """Return what is squared here; None where nothing is."""
    if not isinstance(expr, Call) or len(expr.args) != 2:
        return None
    first, second = expr.args
    if expr.function == "*" and first == second:
        return first
    two = isinstance(second, Literal) and second.value == 2
    return first if expr.function == "power" and two else None


def _split(args: Sequence[Expr], side: str) -> tuple[Expr, Expr] | None:
    """Two expressions, that of the side alone first, and one that is of others alone."""
    about = [{c.partition(".")[0] for c in columns_of(a)} for a in args]
    for first, second in ((0, 1), (1, 0)):
        if about[first] == {side} and about[second] and side not in about[second]:
            return args[first], args[second]
    return None


def bare(expr: Expr, side: str) -> Expr:
    """An expression over one side's columns, by their own names."""
    return with_columns(expr, {c: c[len(side) + 1 :] for c in columns_of(expr)})


def as_doubles(array: pa.Array) -> pa.Array:
    """Values of a band as doubles, integers beyond 2^53 rounded: `reach_of` allows for it, and bands are
    tested exactly afterwards."""
    return array.cast(pa.float64(), safe=False)


def reach_of(values: np.ndarray, width: float) -> np.ndarray:
    """Return how far from each value partners may be; a little more than the width, since floats round."""
    reach: np.ndarray = width + (np.abs(values) + width) * 1e-14
    return reach


def mixed(codes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """One code of two."""
    return (codes * np.int64(-7046029254386353131)) ^ others


def codes_of(array: pa.Array) -> np.ndarray:
    """64 bits per value: itself where it fits, else a hash that every process computes alike."""
    if pa.types.is_string(array.type):
        return hash_values(array.dictionary_encode()).view(np.int64)
    if pa.types.is_boolean(array.type):
        return as_mask(array).astype(np.int64)
    if pa.types.is_floating(array.type):
        return order_floats(values_of(array))
    return values_of(array).astype(np.int64, copy=False)
