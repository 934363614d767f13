"""Arrow arrays as NumPy values and validity bits, without copies where the layout allows."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Datum: TypeAlias = pa.Array | pa.Scalar
"""What a kernel reads: a column's values, or a constant that is not NULL."""

Result: TypeAlias = pa.Array | tuple[pa.Array, pa.BooleanArray]
"""What a kernel gives: the values, and where some were bad the rows in which they were."""


def values_of(array: pa.Array) -> npt.NDArray[Any]:
    """The values of a fixed-width array, whatever its validity; what lies under a NULL is arbitrary.

    >>> values_of(pa.array([1, 2, 3]))[1:]
    array([2, 3])
    """
    if pa.types.is_temporal(array.type):
        dtype = np.dtype(np.int32 if array.type.bit_width == 32 else np.int64)
    else:
        dtype = np.dtype(array.type.to_pandas_dtype())
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype, count=len(array), offset=array.offset * dtype.itemsize)


def numbers(datum: Datum) -> npt.NDArray[Any]:
    """The values of an array, or a constant as a NumPy scalar array of the same type."""
    return values_of(datum if isinstance(datum, pa.Array) else pa.array([datum.as_py()], datum.type))


def from_values(values: npt.NDArray[Any], dtype: pa.DataType, valid: pa.BooleanArray | None) -> pa.Array:
    """A fixed-width array of these values, NULL where not valid."""
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(dtype, len(values), [bits_of(valid), buffer])


def bits_of(valid: pa.BooleanArray | None) -> pa.Buffer | None:
    """The bitmap of a boolean array from its first bit on."""
    if valid is None:
        return None
    return valid.buffers()[1] if valid.offset == 0 else pa.concat_arrays([valid[:0], valid]).buffers()[1]


def valid_of(*data: Datum) -> pa.BooleanArray | None:
    """The rows in which every array has a value; None where that is all of them."""
    valid = None
    for datum in data:
        if isinstance(datum, pa.Array) and datum.null_count:
            here = pc.is_valid(datum)
            valid = here if valid is None else pc.and_(valid, here)
    return valid


def null_where(array: pa.Array, bad: pa.BooleanArray) -> pa.Array:
    """The array with NULL in the rows of ``bad``.

    >>> null_where(pa.array([1.5, 2.5]), pa.array([False, True])).to_pylist()
    [1.5, None]
    """
    good = pc.invert(bad)
    if array.null_count:
        good = pc.and_(good, pc.is_valid(array))
    return only_where(array, good)


def only_where(array: pa.Array, valid: pa.BooleanArray) -> pa.Array:
    """The array with exactly the rows of ``valid`` not NULL."""
    if array.offset:
        return pc.if_else(valid, array, pa.scalar(None, array.type))
    return pa.Array.from_buffers(array.type, len(array), [bits_of(valid), *array.buffers()[1:]])


def is_any(mask: pa.BooleanArray) -> bool:
    """Return whether a row is TRUE."""
    return bool(mask.true_count)


def as_mask(array: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """TRUE rows as a NumPy mask; FALSE and NULL are both false.

    >>> as_mask(pa.array([True, None, False]))
    array([ True, False, False])
    """
    mask = _unpacked(array.buffers()[1], array.offset, len(array))
    if array.null_count:
        mask &= _unpacked(array.buffers()[0], array.offset, len(array))
    return mask


def _unpacked(buffer: pa.Buffer | None, offset: int, count: int) -> npt.NDArray[np.bool_]:
    if buffer is None or not count:
        return np.zeros(count, np.bool_)
    first, skipped = divmod(offset, 8)
    packed = np.frombuffer(buffer, np.uint8)[first : (offset + count + 7) // 8]
    return np.unpackbits(packed, count=skipped + count, bitorder="little")[skipped:].view(np.bool_)


def from_mask(mask: npt.NDArray[np.bool_]) -> pa.BooleanArray:
    """A NumPy mask as an Arrow array."""
    packed = np.packbits(mask, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(packed)])


def take(array: pa.Array, places: npt.NDArray[Any]) -> pa.Array:
    """The array's values at these places; Arrow's own take is several times slower on booleans.

    >>> take(pa.array([True, None]), np.array([0, 1, 0])).to_pylist()
    [True, None, True]
    """
    if pa.types.is_string(array.type) or pa.types.is_null(array.type):
        return pc.take(array, pa.array(places), boundscheck=False)
    valid = from_mask(as_mask(pc.is_valid(array)).take(places)) if array.null_count else None
    if pa.types.is_boolean(array.type):
        values = from_mask(as_mask(array).take(places))
        return values if valid is None else only_where(values, valid)
    return from_values(values_of(array).take(places), array.type, valid)


def good_or_null(result: pa.Array, bad: pa.BooleanArray) -> Result:
    """A kernel's result: NULL in the bad rows, which are given too where there are any."""
    return (null_where(result, bad), bad) if is_any(bad) else result
