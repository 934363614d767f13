"""Columns as they come, in the Arrow type that expressions compute in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.arrays import from_mask, from_values, null_where, valid_of, values_of
from weft.expr.types import arrow_type

_PER_UNIT = {"s": 1_000_000, "ms": 1_000}


def canonical(array: pa.Array, dtype: str, tz: str | None) -> tuple[pa.Array, pa.BooleanArray | None]:
    """The column as int64, float64, string, timestamp[us]...; with the rows that do not fit, if any.

    >>> canonical(pa.array([1, 2**63], pa.uint64()), "bigint", None)[0].to_pylist()
    [1, None]
    """
    if isinstance(array, pa.DictionaryArray):
        if pa.types.is_string_view(array.type.value_type):  # which Arrow cannot take from
            array = pa.DictionaryArray.from_arrays(array.indices, array.dictionary.cast(pa.string()))
        array = array.dictionary_decode()
    if dtype == "decimal":
        return array, None
    target = arrow_type(dtype, tz)
    if array.type == target:
        return array, None
    if pa.types.is_timestamp(array.type):
        return _microseconds(array, target)
    if pa.types.is_uint64(array.type):
        return _without(array.view(pa.int64()), values_of(array) > np.uint64(2**63 - 1))
    return pc.cast(array, target), None


def _microseconds(array: pa.Array, target: pa.DataType) -> tuple[pa.Array, pa.BooleanArray | None]:
    ticks = values_of(array)
    if array.type.unit == "us":
        return array.view(target), None
    if array.type.unit == "ns":
        return from_values(ticks // 1_000, target, valid_of(array)), None  # down, before the epoch too
    factor = _PER_UNIT[array.type.unit]
    limit = (2**63 - 1) // factor
    return _without(from_values(ticks * factor, target, valid_of(array)), (ticks > limit) | (ticks < -limit))


def _without(array: pa.Array, unfit: npt.NDArray[np.bool_]) -> tuple[pa.Array, pa.BooleanArray | None]:
    if not unfit.any():
        return array, None
    bad, valid = from_mask(unfit), valid_of(array)
    bad = bad if valid is None else pc.and_(bad, valid)
    return (null_where(array, bad), bad) if bad.true_count else (array, None)
