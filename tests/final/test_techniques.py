"""Every technique against recompute, over every monoid, found in the registry."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.aggregates.monoid import ADD, MAX, MIN, MOMENTS, PRODUCT, SUM_FLOAT, SUM_INT, Monoid
from weft.errors import QueryError
from weft.final import TECHNIQUES, technique

MONOIDS = {
    "add": Monoid(ADD, 1),
    "sum of integers": Monoid(SUM_INT, 2),
    "sum of floats": Monoid(SUM_FLOAT, 2),
    "min": Monoid(MIN, 1),
    "max": Monoid(MAX, 1),
    "lexicographic min": Monoid(MIN, 3),
    "lexicographic max": Monoid(MAX, 4),
    "moments": Monoid(MOMENTS, 3),
    "product": Monoid(PRODUCT, 2),
}


def states(monoid: Monoid, n: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    words = random.integers(-50, 50, (n, monoid.width))
    if monoid.code == SUM_INT:
        words[:, 1] = random.integers(0, 2**32, n)
    if monoid.code in (SUM_FLOAT, PRODUCT):
        words = words.astype(np.int64)
        words.view(np.float64)[:, 0] = random.normal(size=n)
        if monoid.code == SUM_FLOAT:
            words.view(np.float64)[:, 1] = 0.0
    if monoid.code == MOMENTS:
        words[:, 0] = random.integers(0, 4, n)
        words.view(np.float64)[:, 1:] = random.random((n, 2))
        words[words[:, 0] == 0] = 0
    return words


def meaning(monoid: Monoid, words: np.ndarray) -> np.ndarray:
    """What states stand for: different words may mean the same float."""
    floats = words.view(np.float64)
    if monoid.code == SUM_FLOAT:
        return floats[:, 0] + floats[:, 1]
    if monoid.code == PRODUCT:
        return np.ldexp(floats[:, 0], words[:, 1].astype(np.int32))
    if monoid.code == MOMENTS:
        return np.column_stack([words[:, 0], floats[:, 1:]])
    return words


@pytest.mark.parametrize("name", TECHNIQUES)
@pytest.mark.parametrize("monoid", MONOIDS.values(), ids=MONOIDS)
@given(n=st.integers(1, 700), seed=st.integers(0, 2**16), data=st.data())
def test_agrees_with_recompute(name: str, monoid: Monoid, n: int, seed: int, data: st.DataObject) -> None:
    given_states = states(monoid, n, seed)
    bounds = st.tuples(st.integers(0, n), st.integers(0, n)).map(sorted)
    runs = np.array(data.draw(st.lists(bounds, min_size=1, max_size=20)))
    low, high = runs[:, 0].copy(), runs[:, 1].copy()
    got = meaning(monoid, TECHNIQUES[name](monoid, given_states).answer(low, high))
    expected = meaning(monoid, TECHNIQUES["recompute"](monoid, given_states).answer(low, high))
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


def test_an_unknown_technique_is_refused_with_the_known_ones() -> None:
    with pytest.raises(QueryError, match="choose auto or one of recompute, bulk"):
        technique("magic")
