"""The hash of keys: golden values, which checkpoints rely on, and what hashes alike."""

from __future__ import annotations

import datetime
import decimal
import itertools
import math

import numpy as np
import pyarrow as pa
import pytest

from weft.expr.hashing import combined, hash_values
from weft.operators.keys import KeyIndex

DAY = datetime.date(2024, 1, 1)
NOON = datetime.datetime(2024, 1, 1)
BEFORE = datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)
D = decimal.Decimal

GOLDEN = [
    (0, pa.int64(), "e220a8397b1dcdaf"),
    (1, pa.int64(), "910a2dec89025cc1"),
    (-1, pa.int64(), "e4d971771b652c20"),
    (2**63 - 1, pa.int64(), "2a67d7552e039ea7"),
    (2**64 - 1, pa.uint64(), "e4d971771b652c20"),
    (True, pa.bool_(), "910a2dec89025cc1"),
    (0.0, pa.float64(), "e220a8397b1dcdaf"),
    (-0.0, pa.float64(), "e220a8397b1dcdaf"),
    (1.5, pa.float64(), "d6dab18e1392608a"),
    (math.nan, pa.float64(), "c72971d82e15bb46"),
    (-math.inf, pa.float64(), "8ce2ca027cda7ffe"),
    ("", pa.string(), "c3817c016ba4ff30"),
    ("a", pa.string(), "5f29c2aadd9b8527"),
    ("é", pa.string(), "6e2411eb685090ba"),
    ("foobar", pa.string(), "5df295413403de4f"),
    (b"\0", pa.binary(), "71b8262bb6e2e086"),
    (DAY, pa.date32(), "47a4c66cfe6dde15"),
    (NOON, pa.timestamp("us"), "18d8142a0770c416"),
    (BEFORE, pa.timestamp("us"), "b256910662184be2"),
    (datetime.time(1, 2, 3), pa.time64("us"), "0d306487d760a72b"),
    (D("1.50"), pa.decimal128(20, 2), "4b319e1309d119a4"),
    (D("-1.50"), pa.decimal128(20, 2), "d074788c625b0a82"),
    (None, pa.int64(), "5851f42d4c957f2d"),
]


@pytest.mark.parametrize(("value", "dtype", "expected"), GOLDEN, ids=str)
def test_golden_values(value: object, dtype: pa.DataType, expected: str) -> None:
    assert f"{hash_values(pa.array([value], dtype))[0]:016x}" == expected


def test_golden_pairs() -> None:
    one = hash_values(pa.array([1, None]))
    assert [f"{h:016x}" for h in combined(one, one[::-1])] == ["2d9879ec9de9dcbf", "6c34fc0efbe9c1e2"]


ALIKE: dict[str, tuple[object, list[pa.DataType]]] = {
    "integers of every width": (
        7,
        [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()],
    ),
    "negative integers": (-7, [pa.int8(), pa.int16(), pa.int32(), pa.int64()]),
    "floats": (1.5, [pa.float32(), pa.float64()]),
    "NaN": (math.nan, [pa.float32(), pa.float64()]),
    "texts": ("né", [pa.string(), pa.large_string(), pa.dictionary(pa.uint8(), pa.string())]),
    "bytes": (b"ab", [pa.binary(), pa.large_binary(), pa.binary(2), pa.dictionary(pa.int8(), pa.binary())]),
    "dates": (DAY, [pa.date32(), pa.date64()]),
    "instants": (
        NOON,
        [*(pa.timestamp(u) for u in ("s", "ms", "us", "ns")), pa.timestamp("ms", "UTC")],
    ),
    "decimals": (D("-2.5"), [pa.decimal128(5, 1), pa.decimal128(38, 1), pa.decimal32(5, 1)]),
}


@pytest.mark.parametrize("name", ALIKE)
def test_a_value_hashes_the_same_whatever_carries_it(name: str) -> None:
    value, types = ALIKE[name]
    # Among others, and behind an offset.
    arrays = [
        pa.array([None, value, value, None], dtype)
        if not pa.types.is_dictionary(dtype)
        else pa.array([None, value, value, None], dtype.value_type).dictionary_encode().cast(dtype)
        for dtype in types
    ]
    hashes = {tuple(hash_values(array[1:]).tolist()) for array in arrays}
    assert len(hashes) == 1
    ((first, second, null),) = hashes
    assert first == second != null == hash_values(pa.nulls(1))[0]


def test_nan_of_any_bits_is_one_value() -> None:
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001], np.uint64)
    assert len(set(hash_values(pa.array(bits.view(np.float64))).tolist())) == 1


def test_no_values() -> None:
    for dtype in {dtype for _, dtype, _ in GOLDEN}:
        assert hash_values(pa.array([], dtype)).tolist() == []
    assert hash_values(pa.nulls(2, pa.string())).tolist() == hash_values(pa.nulls(2)).tolist()


KEYS: dict[str, pa.Array] = {
    "sequential integers": pa.array(range(100_000)),
    "multiples of 1024": pa.array(range(0, 1024 * 100_000, 1024)),
    "short texts": pa.array(["".join(w) for w in itertools.product("abcdefghij", repeat=5)]),
    "numbered texts": pa.array([f"user-{n}" for n in range(100_000)]),
    "whole floats": pa.array([float(n) for n in range(100_000)]),
    "days": pa.array(range(100_000), pa.int32()).cast(pa.date32()),
}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("buckets", [2, 3, 16, 100])
def test_buckets_are_even(name: str, buckets: int) -> None:
    index = KeyIndex([KEYS[name].type])
    counts = np.bincount(index.buckets(index.encode([KEYS[name]]), buckets), minlength=buckets)
    mean = len(KEYS[name]) / buckets
    assert np.abs(counts - mean).max() < 4.5 * math.sqrt(mean)  # as chance would have it


def test_buckets_of_pairs_are_even() -> None:
    index = KeyIndex([pa.int64(), pa.int64()])
    a, b = (pa.array(each) for each in zip(*itertools.product(range(300), range(300))))
    counts = np.bincount(index.buckets(index.encode([a, b]), 16), minlength=16)
    assert np.abs(counts - 90_000 / 16).max() < 4.5 * math.sqrt(90_000 / 16)


def test_keys_keep_their_buckets_as_others_come() -> None:
    index = KeyIndex([pa.string(), pa.int64()])
    first = index.buckets(index.encode([pa.array(["a", "b"]), pa.array([1, None])]), 1000).tolist()
    more = index.encode([pa.array(["c", "b", "a"]), pa.array([1, None, 1])])
    assert index.buckets(more, 1000).tolist()[1:] == first[::-1]
