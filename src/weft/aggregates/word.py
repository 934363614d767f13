"""Words: how the values of a column become 64-bit integers that compare as the values do, and back.

Monoids see nothing but words. A float that is only ever compared becomes the integer that sorts as it
does (NaN last, as in Spark); a string becomes its rank in a sorted dictionary that travels with the
state and is widened, keeping order, as new strings come.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from weft.aggregates.cached import read_only

NAN = np.int64(0x7FF8000000000000)
ALL_BUT_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


class Word(enum.Enum):
    """Reading of a word."""

    INT = "int"  # an integer, boolean, date or timestamp
    FLOAT = "float"  # the bits of a float
    ORDERED = "ordered"  # a float as the integer that sorts as it does
    STRING = "string"  # a rank in the state's dictionary
    OBJECT = "object"  # a Python object, written as bytes


def word_for(sql_type: str) -> Word:
    """The word that compares as values of this SQL type do.

    >>> word_for("double")
    <Word.ORDERED: 'ordered'>
    """
    return {"double": Word.ORDERED, "string": Word.STRING}.get(sql_type, Word.INT)


def order_floats(values: np.ndarray) -> np.ndarray:
    """Integers that sort as the floats do, every NaN last and one, -0.0 as 0.0.

    >>> keys = order_floats(np.array([-np.inf, -1.5, -0.0, 0.0, 2.0, np.inf, np.nan]))
    >>> bool((np.diff(keys) >= 0).all()), bool(keys[2] == keys[3])
    (True, True)
    """
    keys = np.empty(values.size, dtype=np.int64)
    _order_floats(read_only(values.astype(np.float64, copy=False)), keys, keys.view(np.float64))
    return keys


@njit(cache=True, nogil=True)
def _order_floats(values, keys, bits):  # type: ignore[no-untyped-def]
    for i in range(values.size):
        v = values[i] + 0.0
        if v == v:
            bits[i] = v
            if keys[i] < 0:
                keys[i] ^= ALL_BUT_SIGN
        else:
            keys[i] = NAN


def unorder_floats(keys: np.ndarray) -> np.ndarray:
    """The floats behind ``order_floats``; those that are not negative are stored as they are."""
    if not keys.size or keys.min() >= 0:
        return keys.view(np.float64)
    values = np.empty(keys.size, dtype=np.int64)
    _unorder_floats(keys, values)
    return values.view(np.float64)


@njit(cache=True, nogil=True)
def _unorder_floats(keys, values):  # type: ignore[no-untyped-def]
    for i in range(keys.size):
        values[i] = keys[i] ^ ALL_BUT_SIGN if keys[i] < 0 else keys[i]


def int_words(array: pa.Array) -> np.ndarray:
    """A column of integers, booleans, dates or timestamps as int64; nulls are 0."""
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    elif pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    array = array.cast(pa.int64())
    if array.null_count:
        array = array.fill_null(0)
    return array.to_numpy(zero_copy_only=False)


def float_words(array: pa.Array) -> np.ndarray:
    """A column of numbers as float64; nulls are 0."""
    array = array.cast(pa.float64(), safe=False)
    if array.null_count:
        array = array.fill_null(0.0)
    return array.to_numpy(zero_copy_only=False)


def string_words(array: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Ranks of the strings in their sorted dictionary, and the dictionary; a null's rank means nothing.

    >>> ranks, dictionary = string_words(pa.array(["b", "a", "b"]))
    >>> ranks.tolist(), dictionary.to_pylist()
    ([1, 0, 1], ['a', 'b'])
    """
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    values = encoded.dictionary.cast(pa.string())
    dictionary = pc.unique(values.drop_null())
    dictionary = dictionary.take(pc.sort_indices(dictionary))
    rank = pc.index_in(values, dictionary).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    indices = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    ranks = rank[indices] if len(rank) else np.zeros(len(indices), np.int64)
    return ranks, dictionary


def words_of(word: Word, array: pa.Array) -> tuple[np.ndarray, pa.Array | None]:
    """The words of a column and, for strings, their dictionary."""
    if word is Word.STRING:
        return string_words(array)
    if word is Word.INT:
        return int_words(array), None
    floats = float_words(array)
    return (order_floats(floats) if word is Word.ORDERED else floats.view(np.int64)), None


def array_of(
    word: Word, words: np.ndarray, dictionary: pa.Array | None, empty: np.ndarray | None
) -> pa.Array:
    """The column behind words, null where ``empty``: int64, double or string."""
    if word is Word.STRING:
        if dictionary is None or not len(dictionary):
            return pa.nulls(len(words), pa.string())
        inside = words if empty is None else np.where(empty, 0, words)
        return dictionary.take(pa.array(inside, mask=empty))
    if word is Word.INT:
        return pa.array(words, mask=empty)
    return pa.array(unorder_floats(words) if word is Word.ORDERED else words.view(np.float64), mask=empty)


class WidenedDictionary(NamedTuple):
    """A sorted dictionary of two, and the new rank of each old rank of either (None where nothing moves)."""

    strings: pa.Array
    first_ranks: np.ndarray | None
    second_ranks: np.ndarray | None


def widen(one: pa.Array, other: pa.Array) -> WidenedDictionary:
    """Merge two sorted dictionaries."""
    if one.equals(other):
        return WidenedDictionary(one, None, None)
    strings = pc.unique(pa.concat_arrays([one, other]))
    strings = strings.take(pc.sort_indices(strings))
    moves = []
    for old in (one, other):
        moved = pc.index_in(old, strings).to_numpy(zero_copy_only=False).astype(np.int64)
        moves.append(None if len(moved) == len(strings) else moved)
    return WidenedDictionary(strings, *moves)


def move_ranks(words: np.ndarray, moves: np.ndarray | None) -> np.ndarray:
    """Ranks in the widened dictionary; words outside the old one (neutral states) stay."""
    if moves is None:
        return words
    inside = (words >= 0) & (words < len(moves))
    return np.where(inside, moves[np.where(inside, words, 0)] if len(moves) else words, words)
