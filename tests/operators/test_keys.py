"""Keys: one number per distinct key, whatever the batch, the type or the encoding."""

from __future__ import annotations

import datetime
import decimal
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.oracle import key
from weft.operators import keys
from weft.operators.cells import factorize, number_cells, order_by
from weft.operators.keys import KeyIndex

TYPES = {
    "string": (pa.string(), ["a", None, "", "ä", "a"]),
    "int32": (pa.int32(), [1, None, -1, 0, 1]),
    "uint8": (pa.uint8(), [1, None, 255, 0, 1]),
    "double": (pa.float64(), [0.0, None, math.nan, -0.0, 0.0]),
    "float": (pa.float32(), [1.5, None, math.nan, -1.0, 1.5]),
    "boolean": (pa.bool_(), [True, None, False, False, True]),
    "date": (pa.date32(), [datetime.date(2024, 1, d) for d in (1, 2, 3, 4, 1)]),
    "timestamp": (pa.timestamp("us"), [datetime.datetime(2024, 1, d) for d in (1, 2, 3, 4, 1)]),
}


@pytest.mark.parametrize("name", TYPES)
def test_equal_keys_have_one_number(name: str) -> None:
    dtype, values = TYPES[name]
    index = KeyIndex([dtype])
    numbers = index.encode([pa.array(values, dtype)])
    assert numbers[0] == numbers[4]
    assert (index.encode([pa.array(values[::-1], dtype)]) == numbers[::-1]).all()
    if name == "double":
        assert numbers[0] == numbers[3]
    decoded = index.decode(numbers)[0]
    assert decoded.type == dtype
    assert repr(decoded.to_pylist()[:3]) == repr(pa.array(values, dtype).to_pylist()[:3])
    other = KeyIndex([dtype])
    other.encode([pa.array(values[::-1], dtype)])
    mine = dict(
        zip(
            map(repr, index.decode(np.arange(len(index)))[0].to_pylist()),
            index.buckets(np.arange(len(index)), 7),
        )
    )
    theirs = dict(
        zip(
            map(repr, other.decode(np.arange(len(other)))[0].to_pylist()),
            other.buckets(np.arange(len(other)), 7),
        )
    )
    assert {k.replace("-0.0", "0.0"): v for k, v in mine.items()} == {
        k.replace("-0.0", "0.0"): v for k, v in theirs.items()
    }


def test_dictionary_columns_and_plain_ones_agree() -> None:
    plain = pa.array(["x", None, "y", "x"])
    index = KeyIndex([pa.string()])
    assert index.encode([plain.dictionary_encode()]).tolist() == index.encode([plain]).tolist()
    with_null = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array([None, "y"]))
    assert index.encode([with_null]).tolist() == index.encode([pa.array([None, "y", None])]).tolist()


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.booleans() | st.none()), min_size=1))
def test_keys_of_three_columns(rows: list[tuple[str, int, bool | None]]) -> None:
    index = KeyIndex([pa.string(), pa.int64(), pa.bool_()])
    columns = [pa.array(c, t) for c, t in zip(zip(*rows), index.types)]
    numbers = index.encode(columns)
    assert len(set(numbers.tolist())) == len(set(rows)) == len(index)
    assert list(zip(*(c.to_pylist() for c in index.decode(numbers)))) == rows


VALUES: dict[pa.DataType, list[object]] = {
    pa.string(): ["", "a", "ä", "ab"],
    pa.large_string(): ["x", "y", "z"],
    pa.binary(): [b"", b"\0", b"\0\0", b"a"],
    pa.int64(): [0, -1, 2**63 - 1, -(2**63)],
    pa.int8(): [0, 1, -128],
    pa.uint64(): [0, 1, 2**64 - 1],
    pa.bool_(): [False, True],
    pa.float64(): [0.0, -0.0, math.nan, 1.5, -math.inf],
    pa.float32(): [0.0, -0.0, math.nan, 2.5],
    pa.date32(): [datetime.date(1969, 12, d) for d in (30, 31)],
    pa.timestamp("us", "UTC"): [datetime.datetime(2024, 1, d, tzinfo=datetime.UTC) for d in (1, 2, 3)],
    pa.decimal128(20, 2): [decimal.Decimal("1.50"), decimal.Decimal("-1.50"), decimal.Decimal(0)],
}


@st.composite
def columns_of_keys(draw: st.DrawFn) -> tuple[list[pa.DataType], list[list[pa.Array]]]:
    """The types of some columns, and batches of them, some dictionary-encoded in an order of their own."""
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    batches = []
    for _ in range(draw(st.integers(1, 4))):
        rows = draw(st.lists(st.tuples(*(st.sampled_from([None, *VALUES[t]]) for t in types)), max_size=20))
        columns = [pa.array([row[c] for row in rows], t) for c, t in enumerate(types)]
        for c, t in enumerate(types):
            if draw(st.booleans()):
                words = draw(st.permutations([*VALUES[t], *([None] if draw(st.booleans()) else [])]))
                at = {repr(word): place for place, word in enumerate(words)}
                places = pa.array([at.get(repr(row[c])) for row in rows], draw(st.sampled_from(INDICES)))
                columns[c] = pa.DictionaryArray.from_arrays(places, pa.array(words, t))
        batches.append(columns)
    return types, batches


INDICES = [pa.int8(), pa.uint8(), pa.int32(), pa.int64()]


@pytest.mark.parametrize("dense", [0, keys.MAX_DENSE_PAIRS], ids=["hashed", "dense"])
@given(columns_of_keys())
def test_keys_are_numbered_in_order_of_first_appearance(
    dense: int, drawn: tuple[list[pa.DataType], list[list[pa.Array]]]
) -> None:
    types, batches = drawn
    index, known = KeyIndex(types), dict[tuple[object, ...], int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "MAX_DENSE_PAIRS", dense)
        if not dense:
            patch.setattr(keys, "MAX_DENSE_PAIRS_PER_ROW", 0)
        for columns in batches:
            rows = list(zip(*(map(key, column.to_pylist()) for column in columns)))
            expected = [known.setdefault(row, len(known)) for row in rows]
            assert index.encode(columns).tolist() == expected
            assert index.find(columns).tolist() == expected
        assert len(index) == len(known)
        decoded = index.decode(np.arange(len(index)))
        assert list(zip(*(map(key, column.to_pylist()) for column in decoded))) == list(known)
        again = KeyIndex(types)
        assert again.encode(decoded).tolist() == list(range(len(known)))
        numbers = np.arange(len(known))[::-1]
        first = KeyIndex(types[:1]).encode_from(index, [0], numbers)
        seen = dict[object, int]()
        assert first.tolist() == [seen.setdefault(row[0], len(seen)) for row in list(known)[::-1]]


@given(st.lists(st.integers(-1, 10)))
def test_factorize_numbers_in_order_of_appearance(codes: list[int]) -> None:
    numbers, distinct = factorize(np.array(codes, dtype=np.int64))
    assert distinct.tolist() == list(dict.fromkeys(c for c in codes if c >= 0))
    assert [-1 if n < 0 else distinct[n] for n in numbers] == codes


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 2))))
def test_order_by_counting_is_the_stable_lexicographic_order(rows: list[tuple[int, int, int]]) -> None:
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    order = order_by(*((np.ascontiguousarray(c), n) for c, n in zip(columns, (4, 6, 3))))
    assert [rows[i] for i in order] == sorted(rows)


@pytest.mark.parametrize("groups", [3, 1_000_000])
def test_cells_are_the_same_by_address_and_by_hash(groups: int) -> None:
    slices = np.array([0, 1, -1, 1, 0], dtype=np.int32)
    signatures = np.array([1, 0, 0, 0, 1], dtype=np.int32)
    group = np.array([2, 0, 1, 0, 2])
    cells, at, signature, of_group, rows = number_cells(slices, signatures, group, (2, 2, groups))
    assert cells[2] == -1
    found = {(at[c], signature[c], of_group[c]): rows[c] for c in range(len(rows))}
    assert found == {(0, 1, 2): 2, (1, 0, 0): 2}
    assert cells[0] == cells[4] != cells[1] == cells[3]
