"""Words, parts and the sharing of parts: what a state is must survive being written down."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.aggregates import FUNCTIONS
from weft.aggregates.monoid import MAX, MIN, SUM_FLOAT, SUM_INT, Monoid, add_rows, merge
from weft.aggregates.part import KINDS, States, part
from weft.aggregates.word import order_floats, string_words, unorder_floats, widen
from weft.errors import QueryError
from weft.model.expression import Call, Column

ALL = np.zeros(0, dtype=np.bool_)
X, Y = Column("x"), Column("y")
VALUES = {
    "bigint": pa.array([3, None, -7, 2**62, 0]),
    "double": pa.array([0.5, None, math.nan, -1e300, -0.0]),
    "string": pa.array(["b", None, "", "ä", "b"]),
    "boolean": pa.array([True, None, False, True, True]),
}
TIMES = np.array([5, 1, 3, 3, 9])


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_ordered_floats_sort_and_come_back(values: list[float]) -> None:
    keys = order_floats(np.array(values))
    assert np.array_equal(np.sort(np.array(values)), np.sort(unorder_floats(np.sort(keys))))
    for a, ka in zip(values, keys):
        for b, kb in zip(values, keys):
            assert (a < b) == bool(ka < kb)


def test_nan_is_the_largest_float() -> None:
    keys = order_floats(np.array([np.inf, -np.nan, np.nan]))
    assert keys[0] < keys[1] == keys[2]


@given(st.lists(st.text(max_size=3)), st.lists(st.text(max_size=3)))
def test_widening_keeps_order_and_meaning(one: list[str], other: list[str]) -> None:
    (ranks, first), (_, second) = (
        string_words(pa.array(one, pa.string())),
        string_words(pa.array(other, pa.string())),
    )
    both, moves, _ = widen(first, second)
    assert both.to_pylist() == sorted(set(one) | set(other), key=lambda s: s.encode())
    moved = ranks if moves is None else moves[ranks]
    assert [both[int(r)].as_py() for r in moved] == one


def sensible(kind: str, dtype: str) -> bool:
    if kind in ("sum", "sum_ln", "moments", "product"):
        return dtype in ("bigint", "double")
    return kind != "count_if" or dtype == "boolean"


@pytest.mark.parametrize(("kind", "dtype"), [(k, t) for k in KINDS for t in VALUES if sensible(k, t)])
def test_states_survive_being_written_as_columns(kind: str, dtype: str) -> None:
    args, types = {
        "rows": ((), ()),
        "min_by": ((X, Y), (dtype, dtype)),
        "max_by": ((X, Y), (dtype, dtype)),
    }.get(kind, ((X,), (dtype,)))
    if kind in ("sum_ln", "moments", "product"):
        types = ("double",)
    some = part(kind, args, types)
    lifted = some.lift([VALUES[dtype] for _ in args], TIMES)
    cells = np.array([0, 1, 1, 2, 2], dtype=np.int32)  # cell 1 holds a null and one value; cell 3 nothing
    states = States(some.monoid.identity(4), lifted.dictionary)
    add_rows(some.monoid, states.words, cells, np.ascontiguousarray(lifted.values), lifted.valid)
    back = some.states([column for _, column in some.columns(states)])
    again = some.columns(back)
    assert [c.to_pylist() for _, c in again if not pa.types.is_floating(c.type)] == [
        c.to_pylist() for _, c in some.columns(states) if not pa.types.is_floating(c.type)
    ]
    for (_, one), (_, other) in zip(again, some.columns(states)):
        if pa.types.is_floating(one.type):
            np.testing.assert_array_equal(
                one.to_numpy(zero_copy_only=False), other.to_numpy(zero_copy_only=False)
            )
    if some.monoid.selective:
        assert (back.words[3] == some.monoid.identity(1)).all()


def test_average_sum_and_count_share_one_sum_and_one_count() -> None:
    needed = [p for name in ("avg", "sum", "count") for p in FUNCTIONS[name].parts((X,), ("double",))]
    assert sorted(map(str, set(needed))) == ["count(x)", "sum(x)"]


def test_sum_of_squares_shares_with_the_sum_of_the_product() -> None:
    squares = FUNCTIONS["sum_of_squares"].parts((X,), ("double",))
    assert squares[:2] == FUNCTIONS["sum"].parts((Call("*", (X, X)),), ("double",))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_aggregate_declares_its_algebra(name: str) -> None:
    function = FUNCTIONS[name]
    accepted = {0: (), 1: ("boolean",) if "boolean" in (function.accepts or [()])[0] else ("bigint",)}
    types = accepted.get(function.arity, ("bigint", "bigint"))
    monoids = [part.monoid for part in function.parts((X, Y)[: function.arity], types)]
    values = [monoid for monoid in monoids if monoid.selective] or monoids
    selective = len(values) == 1 and values[0].selective and function.keeps_type
    invertible = all(monoid.invertible for monoid in monoids)
    assert all(monoid.commutative for monoid in monoids)
    assert selective == (name in ("min", "max", "first", "last", "min_by", "max_by", "bool_and", "bool_or"))
    assert invertible == (name in ("count_star", "count", "count_if", "sum", "avg", "sum_of_squares"))


def test_a_float_sum_is_not_invertible() -> None:
    assert not all(part.monoid.invertible for part in FUNCTIONS["sum"].parts((X,), ("double",)))


def test_wrong_types_are_refused_with_the_right_ones() -> None:
    with pytest.raises(QueryError, match="sum takes bigint or double, not string"):
        FUNCTIONS["sum"].check(("string",))
    with pytest.raises(QueryError, match="bool_and takes boolean, not bigint"):
        FUNCTIONS["bool_and"].check(("bigint",))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.integers(0, 3))
def test_integer_sums_are_exact_beyond_64_bits(values: list[int], cut: int) -> None:
    monoid = Monoid(SUM_INT, 2)
    cells = (np.arange(len(values)) % (cut + 1)).astype(np.int32)
    states = monoid.identity(cut + 1)
    add_rows(monoid, states, cells, np.array(values).reshape(-1, 1), ALL)
    whole = monoid.identity(1)
    merge(monoid, whole, np.zeros(cut + 1, np.int64), np.arange(cut + 1), states)
    ((high, low),) = whole.tolist()
    assert (high << 32) + low == sum(values)


@given(st.lists(st.floats(-1e18, 1e18), min_size=1), st.integers(0, 3))
def test_float_sums_keep_what_cancels(values: list[float], cut: int) -> None:
    monoid = Monoid(SUM_FLOAT, 2)
    cells = (np.arange(len(values)) % (cut + 1)).astype(np.int32)
    states = monoid.identity(cut + 1)
    add_rows(monoid, states, cells, np.array(values).view(np.int64).reshape(-1, 1), ALL)
    whole = monoid.identity(1)
    merge(monoid, whole, np.zeros(cut + 1, np.int64), np.arange(cut + 1), states)
    total = float(whole.view(np.float64).sum())
    assert total == pytest.approx(math.fsum(values), rel=1e-9, abs=1e-12)


def test_an_infinity_stays_in_its_own_state() -> None:
    monoid = Monoid(SUM_FLOAT, 2)
    states = monoid.identity(2)
    values = np.array([np.inf, 1.0, 2.0]).view(np.int64).reshape(-1, 1)
    add_rows(monoid, states, np.array([0, 0, 1], np.int32), values, ALL)
    assert states.view(np.float64).tolist() == [[np.inf, 0.0], [2.0, 0.0]]


@pytest.mark.parametrize(("code", "expected"), [(MIN, [1, 9, 0]), (MAX, [1, 9, 7])])
def test_selection_is_lexicographic(code: int, expected: list[int]) -> None:
    monoid = Monoid(code, 3)
    rows = np.array([[1, 9, 7], [1, 9, 0]])
    into = monoid.identity(1)
    merge(monoid, into, np.zeros(2, np.int64), np.arange(2), rows)
    assert into[0].tolist() == expected
