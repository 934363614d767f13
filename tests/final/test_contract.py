"""Every algorithm step by step against recompute: inserts, evicts and queries in any legal order."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.final_cases import COUNT, MAXIMUM, MONOIDS, assert_same, pairs, states, techniques_for
from support.seeds import seeded_numpy
from weft.final import TECHNIQUES, SlidingWindow
from weft.final.recompute import RecomputeWindow

WINDOWS = st.lists(st.integers(1, 12), min_size=1, max_size=4)
STEPS = st.lists(st.tuples(st.sampled_from("iiiieq"), st.integers(0, 2**16)), max_size=60)


@pytest.mark.parametrize(("name", "monoid"), pairs(MONOIDS))
@given(windows=WINDOWS, steps=STEPS)
@settings(max_examples=12, deadline=None)
def test_agrees_with_recompute_at_every_step(
    name: str, monoid: str, windows: list[int], steps: list[tuple[str, int]]
) -> None:
    chosen = MONOIDS[monoid]
    window, oracle = TECHNIQUES[name].window(chosen, windows), RecomputeWindow(chosen, windows)
    for step, number in steps:
        if step == "i":
            if len(window) == window.capacity:
                window.evict()
                oracle.evict()
            # Keys appear and disappear: a partial has the states of one to three of them.
            partial = states(chosen, 1 + number % 3, number)
            window.insert(partial)
            oracle.insert(partial)
        elif step == "e" and len(window):
            window.evict()
            oracle.evict()
        # Any number of partials may be asked for, and another one after every step.
        for n in {number % (len(window) + 1), *(min(w, len(window)) for w in windows)}:
            assert_same(chosen, window.query(n), oracle.query(n))
        assert len(window) == len(oracle)


@pytest.mark.parametrize(("name", "monoid"), pairs({"count": COUNT, "max": MAXIMUM}))
@pytest.mark.parametrize("shape", ["sorted", "reversed", "constant", "random"])
@pytest.mark.parametrize("windows", [(1,), (2, 1), (7,), (8, 5, 3), (13, 8, 1)])
def test_any_input_over_many_laps(name: str, monoid: str, shape: str, windows: tuple[int, ...]) -> None:
    chosen, length = MONOIDS[monoid], 80
    values = {
        "sorted": np.arange(length),
        "reversed": np.arange(length)[::-1],
        "constant": np.full(length, 7),
        "random": seeded_numpy(length).integers(0, 100, length),
    }[shape]
    window, oracle = TECHNIQUES[name].window(chosen, windows), RecomputeWindow(chosen, windows)
    for value in values:
        for each in (window, oracle):
            if len(each) == each.capacity:
                each.evict()
            each.insert(np.array([[value]]))
        for n in windows:
            n = min(n, len(window))
            assert window.query(n).tolist() == oracle.query(n).tolist()


@pytest.mark.parametrize("technique", techniques_for(COUNT), ids=lambda t: t.name)
def test_a_partial_serves_all_keys_with_one_operation(technique: type) -> None:
    def operations(keys: int) -> int:
        window: SlidingWindow = technique.window(COUNT, [6, 4])
        for i in range(30):
            if len(window) == 6:
                window.evict()
            window.insert(np.full((keys, 1), i))
            window.query(min(4, len(window)))
        return window.operations

    assert operations(1) == operations(100)


@pytest.mark.parametrize("technique", techniques_for(MAXIMUM), ids=lambda t: t.name)
def test_numbers_of_partials_that_change_from_slide_to_slide(technique: type) -> None:
    # Uneven slices: a window of 12 with a slide of 5 has 5 slices or 4 in turn.
    window, oracle = technique.window(MAXIMUM, [5]), RecomputeWindow(MAXIMUM, [5])
    for i, n in zip(count(), [1, 2, 3, 4, 5, 4, 5, 4, 5, 4, 5, 4] * 3):
        for each in (window, oracle):
            while len(each) > min(n, 4):
                each.evict()
            each.insert(np.array([[(i * 7) % 11]]))
        n = min(n, len(window))
        assert window.query(n).tolist() == oracle.query(n).tolist()


@pytest.mark.parametrize("technique", techniques_for(MONOIDS["sum of floats"]), ids=lambda t: t.name)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308, 1e17])
def test_a_float_that_has_left_leaves_no_trace(technique: type, bad: float) -> None:
    window = technique.window(MONOIDS["sum of floats"], [4, 3])
    for i, value in enumerate([0.1, 0.2, bad, bad, *([0.1] * 12)]):
        if len(window) == 4:
            window.evict()
        window.insert(np.array([[value, 0.0]]).view(np.int64))
        for n in (4, 3):
            total = window.query(min(n, len(window))).view(np.float64)[0]
            if i >= 3 + n:
                assert total.sum() == pytest.approx(n * 0.1, rel=1e-15)


@pytest.mark.parametrize("technique", TECHNIQUES.values(), ids=TECHNIQUES)
def test_misuse_is_refused(technique: type) -> None:
    monoid = next(m for m in MONOIDS.values() if not technique.card.lacks(m))
    window = technique.window(monoid, [2])
    with pytest.raises(ValueError, match="there is no partial to evict"):
        window.evict()
    window.insert(monoid.identity(1))
    window.insert(monoid.identity(1))
    with pytest.raises(ValueError, match="full with 2 partials: evict one first"):
        window.insert(monoid.identity(1))
    with pytest.raises(ValueError, match="has 2 partials, not 3"):
        window.query(3)
    with pytest.raises(ValueError, match="each at least 1"):
        technique.window(monoid, [0])
