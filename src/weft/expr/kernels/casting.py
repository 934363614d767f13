"""CAST: which types convert into which, and the kernels that do it; what does not convert is bad."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.arrays import Datum, Result, from_mask, from_values, good_or_null, is_any, valid_of, values_of
from weft.expr.kernels import numeric, reading, writing
from weft.expr.kernels.calendar import in_zone, local

if TYPE_CHECKING:
    from weft.expr.node import Node

_MICROS_PER_DAY = 86_400_000_000


def cast(node: Node, arg: Datum) -> Result:
    """The kernel of cast(), and of every implicit cast."""
    return CASTS[node.args[0].type, node.type](node, arg)


def _plain(node: Node, arg: pa.Array) -> Result:
    return pc.cast(arg, node.arrow, safe=False)


def _number_to_boolean(node: Node, arg: pa.Array) -> Result:
    return pc.not_equal(arg, 0)


def _double_to_bigint(node: Node, arg: pa.Array) -> Result:
    return numeric.to_bigint(arg)


def _boolean_to_double(node: Node, arg: pa.Array) -> Result:
    return pc.cast(pc.cast(arg, pa.uint8()), pa.float64())


def _bigint_to_timestamp(node: Node, arg: pa.Array) -> Result:
    seconds, valid = values_of(arg), valid_of(arg)
    limit = (2**63 - 1) // 1_000_000
    bad = from_mask((seconds > limit) | (seconds < -limit))
    result = from_values(seconds * 1_000_000, node.arrow, valid)
    return good_or_null(result, bad if valid is None else pc.and_(bad, valid))


def _double_to_timestamp(node: Node, arg: pa.Array) -> Result:
    found = numeric.to_bigint(pc.multiply(arg, 1e6))
    if isinstance(found, tuple):
        return found[0].view(node.arrow), found[1]
    return found.view(node.arrow)


def _timestamp_to_bigint(node: Node, arg: pa.Array) -> Result:
    return from_values(values_of(arg) // 1_000_000, pa.int64(), valid_of(arg))


def _timestamp_to_double(node: Node, arg: pa.Array) -> Result:
    return from_values(values_of(arg) / 1e6, pa.float64(), valid_of(arg))


def _timestamp_to_timestamp(node: Node, arg: pa.Array) -> Result:
    return in_zone(arg, node.tz)


def _timestamp_to_date(node: Node, arg: pa.Array) -> Result:
    days = values_of(local(arg)) // _MICROS_PER_DAY
    return from_values(days.astype(np.int32), pa.date32(), valid_of(arg))


def _date_to_timestamp(node: Node, arg: pa.Array) -> Result:
    days, valid = values_of(arg).astype(np.int64), valid_of(arg)
    limit = 2**63 // _MICROS_PER_DAY - 1
    bad = from_mask(np.abs(days) > limit)
    if is_any(bad):
        days = np.clip(days, -limit, limit)
    result = in_zone(from_values(days * _MICROS_PER_DAY, pa.timestamp("us"), valid), node.tz)
    return good_or_null(result, bad if valid is None else pc.and_(bad, valid))


def _decimal_to_bigint(node: Node, arg: pa.Array) -> Result:
    whole = pc.trunc(arg)
    try:
        return pc.cast(whole, pa.int64())
    except pa.ArrowInvalid:  # out of range somewhere: decimals this large are rare enough for a loop
        values = whole.to_pylist()
        fits = [v is None or -(2**63) <= v < 2**63 for v in values]
        result = pa.array([int(v) if v is not None and f else None for v, f in zip(values, fits)], pa.int64())
        return good_or_null(result, pa.array([not f for f in fits]))


CASTS: dict[tuple[str, str], Callable[[Node, pa.Array], Result]] = {
    ("boolean", "bigint"): _plain,
    ("boolean", "double"): _boolean_to_double,
    ("boolean", "string"): writing.from_integer,
    ("bigint", "boolean"): _number_to_boolean,
    ("bigint", "double"): _plain,
    ("bigint", "string"): writing.from_integer,
    ("bigint", "timestamp"): _bigint_to_timestamp,
    ("double", "boolean"): _number_to_boolean,
    ("double", "bigint"): _double_to_bigint,
    ("double", "string"): writing.from_double,
    ("double", "timestamp"): _double_to_timestamp,
    ("string", "boolean"): reading.to_boolean,
    ("string", "bigint"): reading.to_bigint,
    ("string", "double"): reading.to_double,
    ("string", "timestamp"): reading.to_timestamp,
    ("string", "date"): reading.to_date,
    ("timestamp", "timestamp"): _timestamp_to_timestamp,
    ("timestamp", "bigint"): _timestamp_to_bigint,
    ("timestamp", "double"): _timestamp_to_double,
    ("timestamp", "string"): writing.from_timestamp,
    ("timestamp", "date"): _timestamp_to_date,
    ("date", "timestamp"): _date_to_timestamp,
    ("date", "string"): writing.from_date,
    ("decimal", "double"): _plain,
    ("decimal", "bigint"): _decimal_to_bigint,
    ("decimal", "string"): writing.from_decimal,
}
"""The casts there are, by (from, to); the same pairs as in Spark's ANSI mode."""
