"""AND, OR, NOT, CASE and coalesce: three-valued logic, and bad values only where a branch is taken.

Every branch is computed for all rows, which is what vectors are good at; a bad value in a row that
never needed the branch is forgotten, as if the branch had not been evaluated there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.arrays import Datum, Result, as_mask, from_values, is_any, numbers, only_where
from weft.expr.node import Node

Bad: TypeAlias = dict[Node, pa.BooleanArray]
"""The operations that failed, and in which rows."""


@dataclass(frozen=True, slots=True)
class Value:
    """The values of a node, and what went bad on the way to them."""

    data: Datum
    bad: Bad = field(default_factory=dict)


Lazy: TypeAlias = Callable[[list[Value], int], Value]
"""The kernel of a function that does not need all of its arguments in all rows."""


def negation(node: Node, arg: pa.BooleanArray) -> Result:
    """NOT: NULL stays NULL."""
    return pc.invert(arg)


def conjunction(values: list[Value], rows: int) -> Value:
    """AND from left to right: FALSE makes the rest unneeded."""
    return _chain(values, rows, pc.and_kleene, lambda sofar: pc.fill_null(sofar, True))


def disjunction(values: list[Value], rows: int) -> Value:
    """OR from left to right: TRUE makes the rest unneeded."""
    return _chain(values, rows, pc.or_kleene, lambda sofar: pc.invert(pc.fill_null(sofar, False)))


def _chain(
    values: list[Value],
    rows: int,
    combine: Callable[[Datum, Datum], Datum],
    still_open: Callable[[pa.BooleanArray], pa.BooleanArray],
) -> Value:
    result, bad = spread(values[0].data, rows), dict(values[0].bad)
    for value in values[1:]:
        if value.bad:
            merge_bad(bad, reached(value.bad, still_open(result)))
        result = combine(result, value.data)
    return Value(result, bad)


def case(values: list[Value], rows: int) -> Value:
    """c1, v1, c2, v2, ..., else: the value after the first condition that is TRUE."""
    conditions = [pc.fill_null(spread(v.data, rows), False) for v in values[:-1:2]]
    branches = [*values[1::2], values[-1]]
    bad: Bad = {}
    if any(v.bad for v in values):
        waiting = spread(pa.scalar(True), rows)
        for test, condition, branch in zip(values[:-1:2], conditions, branches):
            merge_bad(bad, reached(test.bad, waiting))
            merge_bad(bad, reached(branch.bad, pc.and_(waiting, condition)))
            waiting = pc.and_not(waiting, condition)
        merge_bad(bad, reached(values[-1].bad, waiting))
    if len(conditions) == 1:
        return Value(_choose(conditions[0], branches[0].data, branches[1].data), bad)
    tests = pa.StructArray.from_arrays(conditions, [str(i) for i in range(len(conditions))])
    return Value(pc.case_when(tests, *(b.data for b in branches)), bad)


def _choose(condition: pa.BooleanArray, yes: Datum, no: Datum) -> pa.Array:
    """Arrow's if_else, but NumPy's where it is faster, and no copy where the other value is NULL."""
    if isinstance(no, pa.Scalar) and not no.is_valid and isinstance(yes, pa.Array):
        return only_where(yes, pc.and_(condition, yes.is_valid()) if yes.null_count else condition)
    if _is_wide(yes.type) and _has_values(yes) and _has_values(no):
        values = np.where(as_mask(condition), numbers(yes), numbers(no))
        return from_values(values, yes.type, None)
    return pc.if_else(condition, yes, no)


def _is_wide(dtype: pa.DataType) -> bool:
    return pa.types.is_int64(dtype) or pa.types.is_float64(dtype) or pa.types.is_timestamp(dtype)


def _has_values(datum: Datum) -> bool:
    return datum.is_valid if isinstance(datum, pa.Scalar) else not datum.null_count


def coalesce(values: list[Value], rows: int) -> Value:
    """The first value that is not NULL; those after it are not needed."""
    bad: Bad = {}
    if any(v.bad for v in values):
        waiting = spread(pa.scalar(True), rows)
        for value in values:
            merge_bad(bad, reached(value.bad, waiting))
            waiting = pc.and_(waiting, pc.is_null(spread(value.data, rows)))
    result = spread(values[0].data, rows)
    return Value(pc.coalesce(result, *(v.data for v in values[1:])) if result.null_count else result, bad)


def spread(datum: Datum, rows: int) -> pa.Array:
    """A constant as an array of so many rows; an array as it is."""
    return datum if isinstance(datum, pa.Array) else pa.repeat(datum, rows)


def reached(bad: Bad, rows: pa.BooleanArray) -> Bad:
    """Return the values that went bad in these rows."""
    return {node: pc.and_(mask, rows) for node, mask in bad.items()}


def merge_bad(into: Bad, more: Bad) -> None:
    """Add what went bad elsewhere; a row counts once per failed operation."""
    for node, mask in more.items():
        if is_any(mask):
            into[node] = pc.or_(into[node], mask) if node in into else mask


def bad_of(values: Iterable[Value]) -> Bad:
    """Return the rows that went bad in any of the values."""
    bad: Bad = {}
    for value in values:
        if value.bad:
            merge_bad(bad, value.bad)
    return bad
