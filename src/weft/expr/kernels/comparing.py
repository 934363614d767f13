"""Comparisons, greatest and least. As in Spark, NaN equals NaN and is larger than every number."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.arrays import Datum, Result, from_values, is_any, null_where, numbers, only_where, valid_of

if TYPE_CHECKING:
    from weft.expr.node import Node

_MIRRORED_OPERATORS = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_IEEE = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def comparison(name: str) -> Callable[[Node, Datum, Datum], Result]:
    """The kernel of one of ``= <> < <= > >=``."""

    def kernel(node: Node, left: Datum, right: Datum) -> Result:
        if pa.types.is_floating(left.type):
            return _compare_doubles(name, left, right)
        return _IEEE[name](left, right)

    return kernel


def _compare_doubles(name: str, left: Datum, right: Datum) -> pa.BooleanArray:
    if isinstance(left, pa.Scalar):
        return _compare_doubles(_MIRRORED_OPERATORS[name], right, left)
    if isinstance(right, pa.Scalar):
        return _compare_with_constant(name, left, right)
    if name == "<>":
        return pc.invert(_compare_doubles("=", left, right))
    result = _IEEE[name](left, right)
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    if name in ("=", "<=", ">="):
        result = pc.or_(result, pc.and_(left_nan, right_nan))
    if name in ("<", "<="):
        result = pc.or_(result, pc.and_not(right_nan, left_nan))
    if name in (">", ">="):
        result = pc.or_(result, pc.and_not(left_nan, right_nan))
    return result


def _compare_with_constant(name: str, left: pa.Array, right: pa.Scalar) -> pa.BooleanArray:
    if math.isnan(right.as_py()):
        nan = pc.is_nan(left)
        if name in ("=", ">="):
            return nan
        if name in ("<", "<>"):
            return pc.invert(nan)
        always = pc.or_(nan, pc.invert(nan))  # keeps the NULLs
        return always if name == "<=" else pc.invert(always)
    # A NaN on the left makes each IEEE test false, which is right for all but these two.
    if name == ">":
        return pc.invert(pc.less_equal(left, right))
    if name == ">=":
        return pc.invert(pc.less(left, right))
    return _IEEE[name](left, right)


def null_safe_equal(node: Node, left: Datum, right: Datum) -> Result:
    """``<=>``: two NULLs are equal, NULL and a value are not."""
    equal = pc.fill_null(comparison("=")(node, left, right), False)
    if isinstance(left, pa.Scalar) or isinstance(right, pa.Scalar):
        return equal
    return pc.or_(equal, pc.and_(pc.is_null(left), pc.is_null(right)))


def is_null(node: Node, arg: Datum) -> Result:
    """Return whether the value is NULL; NaN is a value."""
    return pc.is_null(arg)


_NUMPY = {"max": np.maximum, "min": np.fmin}  # NaN wins in the one and loses in the other


def extreme(name: str) -> Callable[..., Result]:
    """The kernel of greatest ("max") or least ("min"): NULLs are skipped."""
    elementwise = getattr(pc, f"{name}_element_wise")

    def kernel(node: Node, *args: Datum) -> Result:
        if node.type == "boolean":
            return pc.cast(elementwise(*(pc.cast(a, pa.uint8()) for a in args)), pa.bool_())
        if node.type == "double" and valid_of(*args) is None:
            return from_values(reduce(_NUMPY[name], map(numbers, args)), node.arrow, None)
        if node.tz is not None:  # Arrow has no such kernel for zoned timestamps
            naive = (pc.cast(a, pa.timestamp("us", "UTC")).cast(pa.int64()) for a in args)
            return elementwise(*naive).cast(node.arrow)
        result = elementwise(*args)
        return _with_nan(name, result, args) if node.type == "double" else result

    return kernel


def _with_nan(name: str, result: pa.Array, args: tuple[Datum, ...]) -> pa.Array:
    """Arrow's extremes leave NaN out: here greatest is NaN where any is, least where all are."""
    nans = [pc.fill_null(pc.is_nan(a), name == "min") for a in args]
    arrays = [n for n in nans if isinstance(n, pa.Array)]
    if not any(is_any(n) for n in arrays) and not any(n.as_py() for n in nans if isinstance(n, pa.Scalar)):
        return result
    combine = pc.or_ if name == "max" else pc.and_
    nan = nans[0]
    for other in nans[1:]:
        nan = combine(nan, other)
    if name == "min":
        nan = pc.and_(nan, pc.is_valid(result))
    return pc.if_else(nan, math.nan, result)


def belongs(node: Node, arg: pa.Array) -> Result:
    """``x IN (constants)``: NULL for a NULL, and where nothing matches but the list holds a NULL."""
    matches = pc.is_in(arg, value_set=node.param.array)
    if node.param.has_nan:  # Arrow compares NaNs bit by bit
        matches = pc.or_(matches, pc.fill_null(pc.is_nan(arg), False))
    if node.param.has_null:
        return only_where(matches, matches)
    return null_where(matches, pc.is_null(arg)) if arg.null_count else matches
