"""round(x, digits): half away from zero on the decimal that a double prints as, as Spark does.

``round(2.675, 2)`` is 2.68 although the double lies below 2.675, because it prints as 2.675.
"""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.expr.arrays import Result, as_mask, from_mask, from_values, good_or_null, numbers, valid_of

if TYPE_CHECKING:
    from weft.expr.node import Node

Doubles = npt.NDArray[np.float64]


def round_half_up(node: Node, arg: pa.Array) -> Result:
    """The kernel of round(); ``node.param`` is the number of digits."""
    if node.type == "bigint":
        return _round_integers(arg, node.param)
    return from_values(round_doubles(numbers(arg), node.param), node.arrow, valid_of(arg))


def round_doubles(values: npt.NDArray[Any], digits: int) -> Doubles:
    """Doubles rounded half away from zero at so many decimal digits.

    With s = |x| * 10^digits and f = floor(s), the answer is f or f + 1, and the tie between them is
    the decimal t = (2f + 1) / 2 / 10^digits. Rounding is monotone, so x prints as t or more exactly
    when x >= t as doubles, as long as t has at most 15 digits and so no shorter decimal prints alike.

    >>> round_doubles(np.array([2.675, 1.005, -0.5, 1234.5]), 2).tolist()
    [2.68, 1.01, -0.5, 1234.5]
    """
    size = np.abs(values)
    if not -22 <= digits <= 21:
        has_digits = size < 10.0 ** (17 - digits) if digits > 0 else np.isfinite(values)
        return _round_one_by_one(values, digits, has_digits)
    with np.errstate(over="ignore", invalid="ignore"):
        if digits >= 0:
            unit = 10.0**digits
            below = np.floor(size * unit)
            tie = (2 * below + 1) * 5 / (unit * 10)
            result = (below + (size >= tie)) / unit
        else:
            unit = 10.0**-digits
            below = np.floor(size / unit)
            tie = (2 * below + 1) * (unit / 2)
            result = (below + (size >= tie)) * unit
        safe = below < 1e14
        result = np.copysign(np.where(safe, result, size), values) + 0.0
        # From 10^17 on there is no digit left to round; between, two decimals may print alike.
        unsure = ~safe & (below < 1e17)
    if unsure.any():
        result[unsure] = _round_one_by_one(values[unsure], digits, np.ones(1, np.bool_))
    return result


def _round_one_by_one(values: npt.NDArray[Any], digits: int, chosen: npt.NDArray[np.bool_]) -> Doubles:
    result = values.astype(np.float64) + 0.0
    with decimal.localcontext(prec=1100):
        unit = decimal.Decimal(1).scaleb(-digits)
        for i in np.flatnonzero(np.broadcast_to(chosen, values.shape)):
            exact = decimal.Decimal(repr(float(values[i])))
            if exact.as_tuple().exponent < -digits:  # type: ignore[operator]
                result[i] = float(exact.quantize(unit, decimal.ROUND_HALF_UP)) + 0.0
    return result


def _round_integers(arg: pa.Array, digits: int) -> Result:
    """Digits are negative here; what rounds beyond bigint is bad."""
    values, valid = numbers(arg), valid_of(arg)
    if digits < -18:
        limit = 5 * 10**18 if digits == -19 else 2**63 - 1
        bad = (values >= limit) | (values <= -limit) if digits == -19 else np.zeros(len(values), np.bool_)
        rounded = np.zeros(len(values), np.int64)
    else:
        unit = 10**-digits
        rest = np.fmod(values, unit)
        step = np.sign(rest) * np.where(np.abs(rest) >= unit // 2, unit, 0)
        towards_zero = values - rest
        rounded = towards_zero + step
        bad = ((towards_zero ^ rounded) & (step ^ rounded)) < 0
    mask = from_mask(bad if valid is None else bad & as_mask(valid))
    return good_or_null(from_values(rounded, pa.int64(), valid), mask)
