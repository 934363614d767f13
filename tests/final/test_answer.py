"""The engine's path of every technique, and sliding over a batch, against recompute."""

from __future__ import annotations

import numpy as np
import pytest
from final_cases import MONOIDS, NATURES, assert_same, pairs, states
from hypothesis import given, settings
from hypothesis import strategies as st

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


@pytest.mark.parametrize(("name", "monoid"), BY_NATURE)
@pytest.mark.parametrize("shape", ["sorted", "reversed", "constant", "random"])
def test_slide(name: str, monoid: str, shape: str) -> None:
    chosen, n = MONOIDS[monoid], 300
    ramp = np.repeat(np.arange(n)[:, np.newaxis], chosen.width, axis=1)
    values = {
        "sorted": ramp,
        "reversed": ramp[::-1],
        "constant": np.full_like(ramp, 3),
        "random": states(chosen, n, n),
    }[shape]
    for windows in ([1], [5], [8], [1, 2, 3, 64, 64, 17], [299, 300, 301, 1000, 1]):
        expected = TECHNIQUES["recompute"].slide(chosen, values, windows)
        got = TECHNIQUES[name].slide(chosen, values, windows)
        np.testing.assert_array_equal(got, expected)
        # A short output keeps the newest answers, wherever it is cut.
        short = np.zeros((len(windows), 37, chosen.width), dtype=np.int64)
        TECHNIQUES[name].slide(chosen, values, windows, short)
        newest = np.arange(n - 37, n)
        np.testing.assert_array_equal(short[:, newest % 37], expected[:, newest])


def test_bulk_slides_over_more_than_its_chunks() -> None:
    for monoid in NATURES.values():
        values = states(monoid, 20_000, 1)
        windows = [1, 2, 700, 1023, 1024, 1025, 3000]
        expected = TECHNIQUES["twostacks"].slide(monoid, values, windows)
        np.testing.assert_array_equal(TECHNIQUES["bulk"].slide(monoid, values, windows), expected)
