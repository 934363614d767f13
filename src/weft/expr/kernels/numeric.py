"""Arithmetic and mathematical functions. Integers never wrap: what does not fit bigint is bad."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.arrays import Datum, Result, from_mask, from_values, good_or_null, is_any, numbers, valid_of

if TYPE_CHECKING:
    from weft.expr.node import Node

Ints = npt.NDArray[Any]
MIN_BIGINT = -(2**63)


def _overflowing(
    name: str, overflows: Callable[[Ints, Ints, Ints], npt.NDArray[np.bool_]]
) -> Callable[..., Result]:
    checked, wrapped = getattr(pc, f"{name}_checked"), getattr(pc, name)

    def kernel(node: Node, *args: Datum) -> Result:
        if node.type == "double":
            return wrapped(*args)
        try:
            return checked(*args)
        except pa.ArrowInvalid:  # overflows somewhere: wrap, and find the rows that did
            result = wrapped(*args)
            wide = [numbers(a) for a in args]
            bad = from_mask(overflows(wide[0], wide[-1], numbers(result)))
            valid = valid_of(*args)
            return good_or_null(result, bad if valid is None else pc.and_(bad, valid))

    return kernel


def _multiply_overflows(left: Ints, right: Ints, product: Ints) -> npt.NDArray[np.bool_]:
    divisor = np.where((left == 0) | (left == -1), 1, left)
    exact = product // divisor == np.where(left == -1, product, right)
    return np.where(left == 0, False, np.where(left == -1, right == MIN_BIGINT, ~exact))


add = _overflowing("add", lambda a, b, c: ((a ^ c) & (b ^ c)) < 0)
subtract = _overflowing("subtract", lambda a, b, c: ((a ^ b) & (a ^ c)) < 0)
multiply = _overflowing("multiply", _multiply_overflows)
negate = _overflowing("negate", lambda a, _, c: (a == MIN_BIGINT) & (c == MIN_BIGINT))
absolute = _overflowing("abs", lambda a, _, c: (a == MIN_BIGINT) & (c == MIN_BIGINT))


def divide(node: Node, left: Datum, right: Datum) -> Result:
    """Division of doubles; by zero it is bad."""
    result, bad = pc.divide(left, right), _zero_divisors(left, right)
    return result if bad is None else good_or_null(result, bad)


def remainder(node: Node, left: Datum, right: Datum) -> Result:
    """``%``: the sign of the dividend, as in C and Java."""
    bad = _zero_divisors(left, right)
    dividend, divisor = numbers(left), numbers(right)
    if bad is not None:
        divisor = np.where(divisor == 0, np.ones(1, divisor.dtype), divisor)
    with np.errstate(invalid="ignore", divide="ignore"):  # under a NULL there may be a zero
        result = from_values(np.fmod(dividend, divisor), node.arrow, valid_of(left, right))
    return result if bad is None else good_or_null(result, bad)


def integer_divide(node: Node, left: Datum, right: Datum) -> Result:
    """``div``: towards zero; by zero it is bad, and so is the smallest bigint by -1."""
    dividend, divisor = numbers(left), numbers(right)
    bad = (divisor == 0) | ((dividend == MIN_BIGINT) & (divisor == -1))
    divisor = np.where(bad, 1, divisor)
    result = from_values(
        (dividend - np.fmod(dividend, divisor)) // divisor, node.arrow, valid_of(left, right)
    )
    return good_or_null(result, _valid_only(bad, left, right))


def _zero_divisors(left: Datum, right: Datum) -> pa.BooleanArray | None:
    if isinstance(right, pa.Scalar):
        return None if right.as_py() != 0 else _valid_only(np.ones(len(left), np.bool_), left)
    zero = pc.equal(right, 0)
    return _valid_only(numbers(right) == 0, left, right) if is_any(zero) else None


def _valid_only(mask: npt.NDArray[np.bool_], *data: Datum) -> pa.BooleanArray:
    valid = valid_of(*data)
    return from_mask(mask) if valid is None else pc.and_(from_mask(mask), valid)


def _whole(name: str) -> Callable[[Node, pa.Array], Result]:
    def kernel(node: Node, arg: pa.Array) -> Result:
        return to_bigint(getattr(pc, name)(arg))

    return kernel


floor, ceil = _whole("floor"), _whole("ceil")


def to_bigint(arg: pa.Array) -> Result:
    """Doubles towards zero; NaN, infinities and what does not fit bigint are bad."""
    values = numbers(arg)
    with np.errstate(invalid="ignore"):
        fits = (values >= -(2.0**63)) & (values < 2.0**63)
        if not fits.all():
            values = np.where(fits, values, 0.0)
        result = from_values(values.astype(np.int64), pa.int64(), valid_of(arg))
    return good_or_null(result, _valid_only(~fits, arg))


def exponential(node: Node, arg: pa.Array) -> Result:
    """e to the power of the argument."""
    return pc.exp(arg)


def square_root(node: Node, arg: pa.Array) -> Result:
    """The square root; NaN for negative numbers."""
    return pc.sqrt(arg)


def sign(node: Node, arg: pa.Array) -> Result:
    """-1.0, 0.0 or 1.0, and NaN for NaN."""
    return pc.sign(arg)


def _logarithm(name: str) -> Callable[[Node, pa.Array], Result]:
    def kernel(node: Node, arg: pa.Array) -> Result:
        defined = pc.invert(pc.less_equal(arg, 0.0))  # NaN stays NaN
        if not arg.null_count and defined.true_count == len(arg):
            return getattr(pc, name)(arg)
        positive = pc.if_else(defined, arg, pa.scalar(None, arg.type))  # NULL, and not bad: as Spark
        return getattr(pc, name)(positive)

    return kernel


ln, log10, log2 = _logarithm("ln"), _logarithm("log10"), _logarithm("log2")


def power(node: Node, base: Datum, exponent: Datum) -> Result:
    """Java's pow, where C has 1 to the power of NaN and -1 to that of infinity as 1: NaN."""
    result = pc.power(base, exponent)
    x, y = numbers(base), numbers(exponent)
    odd = np.isnan(y) | (np.isinf(y) & (np.abs(x) == 1))
    if not odd.any():
        return result
    return from_values(np.where(odd, math.nan, numbers(result)), node.arrow, valid_of(result))


def is_nan(node: Node, arg: pa.Array) -> Result:
    """Return whether the value is NaN; false for NULL."""
    return pc.fill_null(pc.is_nan(arg), False)
