"""Which technique runs which monoid, what is refused, and the parts all techniques are made of."""

from __future__ import annotations

import datetime
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from support.final_cases import MONOIDS, assert_same, states
from weft.aggregates.monoid import merge
from weft.errors import QueryError
from weft.final import TECHNIQUES, check_technique, fits, technique, technique_for
from weft.final.algebra import combine, inverse
from weft.final.runs import by_chain, by_end

PARTS = {"max(price)": MONOIDS["max"], "count(*)": MONOIDS["count"]}


def test_all_algorithms_are_found() -> None:
    assert list(TECHNIQUES) == [
        "bint",
        "bulk",
        "daba",
        "daba_lite",
        "flatfat",
        "flatfit",
        "recompute",
        "slickdeque",
        "slickdeque_inv",
        "slideside",
        "slideside_inv",
        "soe",
        "twostacks",
    ]


@pytest.mark.parametrize("name", TECHNIQUES)
def test_cards_are_complete(name: str) -> None:
    card = TECHNIQUES[name].card
    assert TECHNIQUES[name].window.card is card
    assert "associative" in card.needs
    for text in (card.title, card.paper, card.amortised, card.worst, card.all_queries, card.space):
        assert text


def test_an_unknown_technique_is_refused_with_the_known_ones() -> None:
    with pytest.raises(QueryError, match="choose auto or one of bint, bulk, daba"):
        technique("magic")


def test_subtract_on_evict_over_max_is_refused() -> None:
    expected = (
        r"subtract-on-evict needs an exact inverse, which max\(price\) has not; choose auto or one of bint"
    )
    with pytest.raises(QueryError, match=expected) as refused:
        check_technique("soe", PARTS)
    assert "soe" not in str(refused.value.hint)
    with pytest.raises(QueryError, match="which a maximum has not"):
        TECHNIQUES["soe"](MONOIDS["max"], np.array([[1]]))
    with pytest.raises(QueryError, match="which a maximum has not"):
        TECHNIQUES["soe"].window(MONOIDS["max"], [3])


@pytest.mark.parametrize("name", ["sum of floats", "product", "moments"])
def test_floats_are_never_taken_back(name: str) -> None:
    for inverting in ("soe", "slickdeque_inv", "slideside_inv"):
        assert not fits(inverting, MONOIDS[name])
    with pytest.raises(QueryError, match=r"SlickDeque \(Non-Inv\) needs a combine that gives either"):
        check_technique("slickdeque", {"x": MONOIDS[name]})
    check_technique("slideside", {"x": MONOIDS[name]})


def test_one_name_serves_parts_of_either_nature() -> None:
    for name in ("slickdeque", "slideside"):
        check_technique(name, PARTS)
        assert technique_for(name, MONOIDS["count"]).name == f"{name}_inv"
        assert technique_for(name, MONOIDS["max"]).name == name
        low, high = np.array([0, 1]), np.array([2, 3])
        counted = technique(name).answer(MONOIDS["count"], np.array([[1], [2], [3]]), low, high)
        assert counted.tolist() == [[3], [5]]


@pytest.mark.parametrize("name", MONOIDS)
@given(seed=st.integers(0, 2**16))
@settings(max_examples=10, deadline=None)
def test_states_in_registers_combine_as_rows_do(name: str, seed: int) -> None:
    monoid, n = MONOIDS[name], 20
    given_states = states(monoid, n, seed)
    rows = monoid.identity(1)
    merge(monoid, rows, np.zeros(n, np.int64), np.arange(n), given_states)
    low, high = np.array([0]), np.array([n])
    assert TECHNIQUES["recompute"](monoid, given_states).answer(low, high).tolist() == rows.tolist()
    interpreted = tuple(monoid.identity(1)[0])
    for state in given_states:
        interpreted = combine(monoid.code, interpreted, tuple(state))
    assert_same(monoid, np.array([interpreted], dtype=np.int64), rows)


@pytest.mark.parametrize("name", ["count", "sum of integers"])
@given(seed=st.integers(0, 2**16))
@settings(max_examples=20, deadline=None)
def test_what_is_taken_back_leaves_no_trace(name: str, seed: int) -> None:
    monoid = MONOIDS[name]
    oldest, rest = (tuple(s) for s in states(monoid, 2, seed))
    assert inverse(monoid.code, combine(monoid.code, oldest, rest), oldest) == rest


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=40))
@settings(deadline=None)
def test_runs_come_in_the_order_of_a_stream(bounds: list[tuple[int, int]]) -> None:
    low, high = np.array(bounds).T.copy()
    order = by_end(low, high)
    assert sorted(order) == np.flatnonzero(low < high).tolist()
    assert [(high[k], low[k]) for k in order] == sorted((high[k], low[k]) for k in order)
    chained, chains = by_chain(low, high)
    assert sorted(chained) == sorted(order)
    for first, last in pairwise(chains):
        assert (np.diff(low[chained[first:last]]) >= 0).all()
        assert (np.diff(high[chained[first:last]]) >= 0).all()


def test_windows_of_one_size_are_one_chain() -> None:
    ends = np.arange(1, 50)
    low, high = (np.concatenate([np.maximum(ends - n, 0) for n in (3, 9)]), np.concatenate([ends, ends]))
    assert len(by_chain(low, high)[1]) - 1 == 2


@pytest.mark.parametrize("name", TECHNIQUES)
def test_the_engine_runs_every_technique(name: str) -> None:
    rows = 200
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    table = pa.table(
        {
            "ts": [start + datetime.timedelta(seconds=i) for i in range(rows)],
            "k": pa.array([("a", "b", "c")[i * i % 3] for i in range(rows)]),
            "v": pa.array([i * 37 % 101 for i in range(rows)], pa.int64()),
        }
    )
    what = {"inverse": ["count(*)"], "selective": ["max(v)"]}.get(
        next(iter(TECHNIQUES[name].card.needs - {"associative"}), ""), ["count(*)", "max(v)"]
    )
    text = ";".join(
        f"-- name: q{i}\nSELECT k, {a} AS x FROM s [RANGE '{r} s' SLIDE '{s} s'] GROUP BY k"
        for i, (a, (r, s)) in enumerate((a, w) for a in what for w in ((12, 5), (60, 7), (33, 1)))
    )
    queries = weft.sql(text)
    # A variant runs under the name of its family, which picks it for the parts that have an inverse.
    got = weft.run(queries, table, time="ts", technique=name.removesuffix("_inv"))
    expected = weft.run(queries, table, time="ts", technique="recompute")
    assert {q: t.to_pylist() for q, t in got.items()} == {q: t.to_pylist() for q, t in expected.items()}
