"""Group keys as small integers, kept from batch to batch.

Each key column has a dictionary of the values seen; a key of several columns is built pairwise, so any
number of columns costs one look-up each. Null is a value of its own, NaN is one value, -0.0 is 0.0.

**Numbers are given in order of first appearance**, row by row, call by call: encoding the keys of an empty
index in order of their numbers gives the same numbers again. That holds for every type, with dictionaries
and without, and whichever way pairs are looked up; cells stay ordered by group because of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.aggregates.word import order_floats
from weft.expr.hashing import combined, hash_values
from weft.operators.cells import appearing

MAX_DENSE_PAIRS = 1 << 16
"""Pairs of values that are looked up in a table, however few the rows."""
MAX_DENSE_PAIRS_PER_ROW = 2
"""And so many for each row."""


class ValueIndex:
    """The distinct values of one column, numbered in order of first appearance.

    >>> index = ValueIndex(pa.string())
    >>> index.encode(pa.array(["b", None, "a", "b"])).tolist(), index.encode(pa.array(["a", "c"])).tolist()
    ([0, 1, 2, 0], [2, 3])
    >>> index.values.to_pylist()
    ['b', None, 'a', 'c']
    """

    def __init__(self, dtype: pa.DataType) -> None:
        self.type = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
        self.values = pa.array([], self.type)
        self._probe = self._probed(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def encode(self, array: pa.Array) -> np.ndarray:
        """The number of each value, new values numbered on the way."""
        if pa.types.is_dictionary(array.type):
            # Only values that rows have are numbered, in the order of the rows and not of the dictionary.
            null = len(array.dictionary)
            places = _places(array.indices, null)
            seen = appearing(places, null + 1)
            numbers = np.empty(null + 1, dtype=np.int64)
            values = array.dictionary.cast(self.type)
            numbers[seen] = self._number(values.take(pa.array(seen, mask=seen == null)))
            return numbers[places]
        return self._number(array.cast(self.type))

    def find(self, array: pa.Array) -> np.ndarray:
        """The number of each value, -1 where it is none of those seen.

        >>> index = ValueIndex(pa.string())
        >>> index.encode(pa.array(["b", "a"])), index.find(pa.array(["a", None, "c"])).tolist()
        (array([0, 1]), [1, -1, -1])
        """
        if pa.types.is_dictionary(array.type):
            numbers = np.append(self.find(array.dictionary), self.find(pa.nulls(1, self.type)))
            return numbers[_places(array.indices, len(array.dictionary))]
        places = pc.index_in(self._probed(array.cast(self.type)), self._probe)
        return places.fill_null(-1).to_numpy(zero_copy_only=False)

    def _number(self, array: pa.Array) -> np.ndarray:
        probe = self._probed(array)
        places = pc.index_in(probe, self._probe)
        if places.null_count:
            new = pc.unique(probe.filter(places.is_null()))
            first = pc.index_in(new, probe)
            self.values = pa.concat_arrays([self.values, array.take(first)])
            self._probe = self._probed(self.values)
            places = pc.index_in(probe, self._probe)
        return places.to_numpy(zero_copy_only=False).astype(np.int64)

    def _probed(self, array: pa.Array) -> pa.Array:
        """Return what is compared: floats by the integer that makes NaN one value and -0.0 zero."""
        if pa.types.is_floating(self.type):
            floats = array.cast(pa.float64())
            keys = order_floats(floats.fill_null(0.0).to_numpy(zero_copy_only=False))
            nulls = floats.is_null().to_numpy(zero_copy_only=False) if floats.null_count else None
            return pa.array(keys, mask=nulls)
        return array


class KeyIndex:
    """The distinct keys of some columns, numbered in order of first appearance.

    >>> index = KeyIndex([pa.string(), pa.int64()])
    >>> index.encode([pa.array(["a", "b", "a"]), pa.array([1, 1, 1])]).tolist()
    [0, 1, 0]
    >>> [column.to_pylist() for column in index.decode(np.array([1]))]
    [['b'], [1]]
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self._values = [ValueIndex(t) for t in self.types]
        self._pairs = [ValueIndex(pa.int64()) for _ in self.types[1:]]
        self._hashes = np.zeros(0, dtype=np.uint64)

    def __len__(self) -> int:
        if not self.types:
            return 1
        return len(self._pairs[-1]) if self._pairs else len(self._values[0])

    def encode(self, columns: Sequence[pa.Array], rows: int | None = None) -> np.ndarray:
        """The number of each row's key."""
        if not self.types:
            return np.zeros(rows or 0, dtype=np.int64)
        numbers, count = self._values[0].encode(columns[0]), len(self._values[0])
        for values, pairs, column in zip(self._values[1:], self._pairs, columns[1:]):
            numbers = _paired(pairs, numbers, count, values.encode(column), len(values))
            count = len(pairs)
        return numbers

    def encode_from(self, other: KeyIndex, columns: Sequence[int], numbers: np.ndarray) -> np.ndarray:
        """The numbers here of keys that are some columns of another index's keys, in order of ``numbers``.

        >>> both, one = KeyIndex([pa.string(), pa.int64()]), KeyIndex([pa.int64()])
        >>> numbers = both.encode([pa.array(["a", "b", "a"]), pa.array([1, 1, 2])])
        >>> one.encode_from(both, [1], numbers).tolist()
        [0, 0, 1]
        """
        used = appearing(numbers, len(other))
        decoded = other.decode(used)
        renumbered = np.empty(len(other), dtype=np.int64)
        renumbered[used] = self.encode([decoded[c] for c in columns], len(used))
        return renumbered[numbers]

    def find(self, columns: Sequence[pa.Array]) -> np.ndarray:
        """The number of each row's key, -1 where it is none of those seen; for at least one column."""
        numbers = self._values[0].find(columns[0])
        for values, pairs, column in zip(self._values[1:], self._pairs, columns[1:]):
            second = values.find(column)
            pair_numbers = pairs.find(pa.array((numbers.astype(np.int64) << 32) | second))
            numbers = np.where((numbers < 0) | (second < 0), np.int32(-1), pair_numbers)
        return numbers

    def value_numbers(self, numbers: np.ndarray) -> list[np.ndarray]:
        """For each column, the number of its value in each of these keys."""
        columns: list[np.ndarray] = []
        for pairs in reversed(self._pairs):
            pair = pairs.values.to_numpy(zero_copy_only=False)[numbers]
            columns.append(pair & 0xFFFFFFFF)
            numbers = pair >> 32
        if self.types:
            columns.append(numbers)
        return columns[::-1]

    def decode(self, numbers: np.ndarray) -> list[pa.Array]:
        """The columns of these keys."""
        columns = zip(self._values, self.value_numbers(numbers))
        return [values.values.take(pa.array(column)) for values, column in columns]

    def dictionary_columns(self, numbers: np.ndarray) -> list[pa.Array]:
        """The columns of these keys, dictionary-encoded where that is smaller."""
        columns = []
        for values, column in zip(self._values, self.value_numbers(numbers)):
            if len(values) < len(column) and not pa.types.is_primitive(values.type):
                indices = pa.array(column.astype(np.int32))
                columns.append(pa.DictionaryArray.from_arrays(indices, values.values))
            else:
                columns.append(values.values.take(pa.array(column)))
        return columns

    def buckets(self, numbers: np.ndarray, count: int) -> np.ndarray:
        """The bucket of each of these keys: by a hash of its values, the same in every process."""
        if count == 1 or not self.types:
            return np.zeros(len(numbers), dtype=np.int64)
        hashed = len(self._hashes)
        if hashed < len(self):
            new = self._hash(np.arange(hashed, len(self)))
            self._hashes = np.concatenate([self._hashes, new])
        return (self._hashes[numbers] % np.uint64(count)).astype(np.int64)

    def _hash(self, numbers: np.ndarray) -> np.ndarray:
        first, *others = (hash_values(column) for column in self.decode(numbers))
        return reduce(combined, others, first)


def _paired(pairs: ValueIndex, left: np.ndarray, lefts: int, right: np.ndarray, rights: int) -> np.ndarray:
    """The numbers of pairs of numbers; hashed one by one only where there could be very many."""
    if lefts * rights > max(MAX_DENSE_PAIRS, MAX_DENSE_PAIRS_PER_ROW * len(left)):
        return pairs.encode(pa.array((left << 32) | right))
    codes = left * rights + right
    seen = appearing(codes, lefts * rights)
    table = np.empty(lefts * rights, dtype=np.int64)
    table[seen] = pairs.encode(pa.array((seen // rights << 32) | seen % rights))
    return table[codes]


def _places(indices: pa.Array, null: int) -> np.ndarray:
    """The indices of a dictionary, whatever their width, with one for null."""
    return indices.cast(pa.int64()).fill_null(null).to_numpy(zero_copy_only=False)
