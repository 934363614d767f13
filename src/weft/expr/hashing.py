"""The hash that splits keys into buckets: 64 bits a value, the same on every machine and in every version.

It is part of the checkpoint's format (``NAME`` stands in every manifest): whoever changes it gives it another
name. A value is a word of 64 bits or a string of bytes, whatever array carries it:

    integer, boolean           its two's complement, whatever the width: 2**64 - 1 hashes as -1, TRUE as 1
    date                       days since the epoch
    timestamp, time, duration  nanoseconds modulo 2**64, whatever the unit and the zone
    float                      the bits of the double; NaN is one value, -0.0 is 0.0; 1.0 does not hash as 1
    string, binary             its bytes
    decimal                    the 16 bytes (32 above 38 digits) of the number without its point, lowest first
    null                       a word of its own

Words go through the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014); bytes through FNV-1a first.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import njit

NAME = "splitmix64-fnv1a"

NULL = np.uint64(0x5851F42D4C957F2D)
GAMMA = np.uint64(0x9E3779B97F4A7C15)
NEGATIVE_ZERO = np.uint64(0x8000000000000000)
INFINITY = np.uint64(0x7FF0000000000000)
CANONICAL_NAN = np.uint64(0x7FF8000000000000)
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def hash_values(array: pa.Array) -> np.ndarray:
    """The hash of each value; a dictionary's are those of its values.

    >>> [f"{h:016x}" for h in hash_values(pa.array([0, 1, None]))]
    ['e220a8397b1dcdaf', '910a2dec89025cc1', '5851f42d4c957f2d']
    """
    if pa.types.is_dictionary(array.type):
        hashes = np.append(hash_values(array.dictionary), NULL)
        places = array.indices.cast(pa.int64()).fill_null(len(array.dictionary))
        return hashes[places.to_numpy(zero_copy_only=False)]
    hashes = mixed(_words(array))
    if array.null_count:
        hashes[array.is_null().to_numpy(zero_copy_only=False)] = NULL
    return hashes


def combined(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """One hash of two; their order counts."""
    return mixed(left * GAMMA + right)


def mixed(words: np.ndarray) -> np.ndarray:
    """Spread words over all bits, one to one: the outputs of SplitMix64 from these states."""
    words = words + GAMMA
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _words(array: pa.Array) -> np.ndarray:
    """A word for each value, any for null."""
    dtype, t = array.type, pa.types
    if t.is_null(dtype):
        return np.zeros(len(array), dtype=np.uint64)
    if t.is_boolean(dtype):
        return _integers(array.cast(pa.uint8()))
    if t.is_floating(dtype):
        bits = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False).view(np.uint64)
        bits = np.where(bits == NEGATIVE_ZERO, np.uint64(0), bits)
        return np.where((bits & ~NEGATIVE_ZERO) > INFINITY, CANONICAL_NAN, bits)
    if t.is_date(dtype):
        return _integers(array.cast(pa.date32()))
    if t.is_timestamp(dtype) or t.is_time(dtype) or t.is_duration(dtype):
        return _integers(array) * np.uint64(PER_SECOND["ns"] // PER_SECOND[dtype.unit])
    if t.is_integer(dtype):
        return _integers(array)
    if t.is_decimal(dtype):
        if dtype.bit_width < 128:
            array = array.cast(pa.decimal128(38, dtype.scale))
        width = array.type.byte_width
        ends = np.arange(array.offset, array.offset + len(array) + 1) * width
        return _bytes(ends, array.buffers()[1], len(array))
    whole = array.cast(pa.large_binary())
    _, offsets, data = whole.buffers()
    ends = np.frombuffer(offsets, np.int64) if offsets else np.zeros(1, np.int64)
    return _bytes(ends[whole.offset :], data, len(whole))


def _integers(array: pa.Array) -> np.ndarray:
    """Integers of any width, or what is kept as such, as words."""
    signed = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
    if pa.types.is_unsigned_integer(array.type):
        numbers = array.cast(pa.uint64())
    else:
        numbers = array.view(signed[array.type.bit_width]).cast(pa.int64())
    return numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)


def _bytes(ends: np.ndarray, data: pa.Buffer | None, count: int) -> np.ndarray:
    """FNV-1a of each run of bytes; value k has those from ends[k] to ends[k + 1]."""
    hashes = np.empty(count, dtype=np.uint64)
    _fnv1a(ends, np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8), hashes)
    return hashes


@njit(cache=True, nogil=True)
def _fnv1a(ends, data, hashes):  # type: ignore[no-untyped-def]
    for k in range(hashes.size):
        code = np.uint64(0xCBF29CE484222325)
        for i in range(ends[k], ends[k + 1]):
            code = (code ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
        hashes[k] = code
