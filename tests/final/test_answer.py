"""The engine's path of every technique, against recompute."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.final_cases import MONOIDS, NATURES, assert_same, pairs, states
from weft.aggregates.monoid import Monoid
from weft.final import TECHNIQUES

BY_NATURE = pairs(NATURES)
WITH_BULK = [*BY_NATURE, *(("bulk", name) for name in MONOIDS if name not in NATURES)]


def runs_of(groups: int, cells: int, windows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """For each (range, slide) the windows of every group, as the engine asks: by time, groups in turn."""
    low, high = [], []
    for size, slide in windows:
        ends = np.arange(slide, cells + size, slide)[:, np.newaxis]
        first = np.arange(groups) * cells
        low.append((first + np.clip(ends - size, 0, cells)).ravel())
        high.append((first + np.clip(ends, 0, cells)).ravel())
    return np.concatenate(low), np.concatenate(high)


def check(name: str, monoid: Monoid, given_states: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    got = TECHNIQUES[name](monoid, given_states).answer(low, high)
    assert_same(monoid, got, TECHNIQUES["recompute"](monoid, given_states).answer(low, high))


@pytest.mark.parametrize(("name", "monoid"), WITH_BULK)
@given(n=st.integers(1, 700), seed=st.integers(0, 2**16), data=st.data())
@settings(max_examples=15, deadline=None)
def test_any_runs(name: str, monoid: str, n: int, seed: int, data: st.DataObject) -> None:
    bounds = st.tuples(st.integers(0, n), st.integers(0, n)).map(sorted)
    runs = np.array(data.draw(st.lists(bounds, min_size=1, max_size=20)))
    low, high = runs[:, 0].copy(), runs[:, 1].copy()
    check(name, MONOIDS[monoid], states(MONOIDS[monoid], n, seed), low, high)


@pytest.mark.parametrize(("name", "monoid"), WITH_BULK)
@given(
    groups=st.integers(1, 4),
    cells=st.integers(1, 90),
    windows=st.lists(st.tuples(st.integers(1, 70), st.integers(1, 9)), min_size=1, max_size=4),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=15, deadline=None)
def test_windows_of_many_queries_over_many_groups(
    name: str, monoid: str, groups: int, cells: int, windows: list[tuple[int, int]], seed: int
) -> None:
    low, high = runs_of(groups, cells, windows)
    check(name, MONOIDS[monoid], states(MONOIDS[monoid], groups * cells, seed), low, high)


@pytest.mark.parametrize(("name", "monoid"), BY_NATURE)
def test_nothing_to_answer(name: str, monoid: str) -> None:
    chosen, nothing = MONOIDS[monoid], np.zeros(0, dtype=np.int64)
    assert TECHNIQUES[name](chosen, chosen.identity(3)).answer(nothing, nothing).shape == (0, chosen.width)
    empty = TECHNIQUES[name](chosen, chosen.identity(0)).answer(np.array([0]), np.array([0]))
    assert empty.tolist() == chosen.identity(1).tolist()
