"""Places of values among sorted constants: one binary search, however many comparisons it answers.

The constants cut the values of their type into places: before the first, the first itself, between it and
the second, ..., after the last, and NULL. No comparison with the constants tells two values of a place apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numba import njit

from weft.aggregates.word import order_floats, unorder_floats
from weft.expr.arrays import as_mask, from_values, valid_of, values_of

ALL_VALID = np.zeros(0, dtype=np.bool_)
MAX_GUIDE_SPANS = 4096


class SortedConstants(Protocol):
    """The sorted constants of one type."""

    examples: pa.Array
    """One value of each place; any value where a place has none."""

    def find(self, values: pa.Array, labels: np.ndarray) -> np.ndarray:
        """``labels[place]`` for the place of each value."""


def sort_constants(dtype: pa.DataType, constants: Sequence[pa.Array]) -> SortedConstants:
    """The constants of a type in their order, each once.

    >>> three = sort_constants(pa.int64(), [pa.array([7, 3]), pa.array([3])])
    >>> three.examples.to_pylist()
    [2, 3, 6, 7, 8, None]
    >>> three.find(pa.array([3, 5, None]), np.arange(6)).tolist()
    [1, 2, 5]
    """
    array = pa.concat_arrays([pa.array([], dtype), *constants])
    return Texts(array) if pa.types.is_string(dtype) else Numbers(array)


class Numbers:
    """Constants that are integers, doubles, timestamps or dates. NaN is one value, after all others."""

    def __init__(self, constants: pa.Array) -> None:
        keys = np.unique(_ordered(constants))
        self.guide, self.shift = _guide(keys)
        self.keys = np.append(keys, 0)  # one may be looked at behind the last
        if pa.types.is_floating(constants.type):
            exact = unorder_floats(keys)
            below = np.where(np.isnan(exact), np.inf, np.nextafter(exact, -np.inf))
            last = np.nan
        else:
            limits = np.iinfo(values_of(constants).dtype)
            exact = keys
            below = np.maximum(exact, limits.min + 1) - 1
            last = min(int(exact[-1]), limits.max - 1) + 1 if len(exact) else 0
        examples = np.append(_alternate(below, exact), last).astype(values_of(constants).dtype)
        array = from_values(examples, constants.type, None)
        self.examples = pa.concat_arrays([array, pa.nulls(1, constants.type)])

    def find(self, values: pa.Array, labels: np.ndarray) -> np.ndarray:
        """``labels[place]`` for the place of each value."""
        out = np.empty(len(values), dtype=np.int32)
        _find_numbers(_ordered(values), _valid(values), self.keys, self.guide, self.shift, labels, out)
        return out


class Texts:
    """Constants that are strings, in the order of their bytes."""

    def __init__(self, constants: pa.Array) -> None:
        exact = sorted(set(constants.to_pylist()))
        # Nothing lies between a string and itself with a zero byte behind it.
        after = [value + "\0" for value in exact]
        examples = [value for pair in zip(["", *after], exact) for value in pair]
        self.examples = pa.array([*examples, after[-1] if after else "", None], pa.string())
        self.starts, self.bytes = _text(pa.array(exact, pa.string()))

    def find(self, values: pa.Array, labels: np.ndarray) -> np.ndarray:
        """``labels[place]`` for the place of each value."""
        out = np.empty(len(values), dtype=np.int32)
        _find_texts(*_text(values), _valid(values), self.starts, self.bytes, labels, out)
        return out


def _alternate(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.column_stack([first, second]).ravel()


def _ordered(values: pa.Array) -> np.ndarray:
    """Integers that sort as the values do."""
    plain = values_of(values)
    return order_floats(plain) if pa.types.is_floating(values.type) else plain.astype(np.int64, copy=False)


def _guide(keys: np.ndarray) -> tuple[np.ndarray, np.uint64]:
    """Return how many keys lie before each of some equal spans, and the bits of a key within a span.

    A search that begins in the value's span has few keys left to look at.
    """
    if not len(keys):
        return np.zeros(2, dtype=np.int32), np.uint64(0)
    whole = int(keys[-1]) - int(keys[0])
    shift = max(0, (whole // MAX_GUIDE_SPANS).bit_length())
    offsets = keys.astype(np.uint64) - keys[:1].astype(np.uint64)
    spans = np.arange((whole >> shift) + 2, dtype=np.uint64)
    guide = np.searchsorted(offsets >> np.uint64(shift), spans)
    return guide.astype(np.int32), np.uint64(shift)


def _valid(values: pa.Array) -> np.ndarray:
    valid = valid_of(values)
    return ALL_VALID if valid is None else as_mask(valid)


def _text(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return where each string's bytes begin (and the last one's end), and the bytes."""
    if not len(values):
        return np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.uint8)
    _, starts, data = values.buffers()
    whole = np.frombuffer(starts, np.int32, count=len(values) + 1, offset=4 * values.offset)
    return whole, np.zeros(0, np.uint8) if data is None or not data.size else np.frombuffer(data, np.uint8)


@njit(cache=True, nogil=True)
def _find_numbers(values, valid, keys, guide, shift, labels, out):  # type: ignore[no-untyped-def]
    # No branch hangs on how a value compares: values come in no order, so none could be foretold.
    count = keys.size - 1
    low, high = keys[0], keys[max(count - 1, 0)]
    for i in range(values.size):
        if valid.size and not valid[i]:
            out[i] = labels[labels.size - 1]
            continue
        value = values[i]
        span = (np.uint64(min(max(value, low), high)) - np.uint64(low)) >> shift
        before = np.int64(guide[span])
        left = guide[span + np.uint64(1)] - before
        while left > 0:
            half = (left + 1) >> 1
            before += half * (keys[before + half - 1] < value)
            left -= half
        out[i] = labels[2 * before + ((before < count) & (keys[before] == value))]


@njit(cache=True, nogil=True)
def _compare(starts, data, i, other_starts, other, j):  # type: ignore[no-untyped-def]
    """Less than, equal to or more than 0 as string i is before, equal to or after string j of the others."""
    size, other_size = starts[i + 1] - starts[i], other_starts[j + 1] - other_starts[j]
    for k in range(min(size, other_size)):
        a, b = data[starts[i] + k], other[other_starts[j] + k]
        if a != b:
            return -1 if a < b else 1
    return size - other_size


@njit(cache=True, nogil=True)
def _find_texts(starts, data, valid, key_starts, keys, labels, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        if valid.size and not valid[i]:
            out[i] = labels[labels.size - 1]
            continue
        low, high, equal = 0, key_starts.size - 1, 0
        while low < high:
            middle = (low + high) >> 1
            order = _compare(starts, data, i, key_starts, keys, middle)
            if order == 0:
                low, high, equal = middle, middle, 1
            elif order > 0:
                low = middle + 1
            else:
                high = middle
        out[i] = labels[2 * low + equal]
