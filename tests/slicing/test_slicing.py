"""Edges and slices: the worked examples, the slice manager, and that pairs are the fewest edges."""

from __future__ import annotations

from math import lcm

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.slicing.manager import SliceManager
from lab.slicing.partials import partials_per_window
from weft.model.window import Window
from weft.slicing import (
    SLICERS,
    Progression,
    align,
    edge_rate,
    edges_between,
    reduce_progressions,
    slices_of,
)
from weft.slicing.slicers import cutty, pairs, panes

ALL = np.zeros(0, dtype=np.bool_)

windows = st.builds(
    Window,
    range=st.integers(1, 60),
    slide=st.integers(1, 40),
    offset=st.integers(-50, 50),
)


def progressions(*some: Window, slicer: str = "pairs") -> tuple[Progression, ...]:
    return reduce_progressions(p for w in some for p in SLICERS[slicer](w))


def lengths(*some: Window) -> list[int]:
    """The slice lengths of one period, from 0."""
    edges = edges_between(progressions(*some), 0, lcm(*(w.slide for w in some)) - 1)
    return np.diff(edges).tolist()


def test_one_window_in_panes_and_in_a_pair() -> None:
    #  range 18, slide 15, ending at multiples of 15
    #  |------12------|-3-|------12------|-3-|
    window = Window.ending_at_multiples(18, 15)
    assert panes(window) == (Progression(3, 0),)
    assert 15 // 3 == 5
    assert lengths(window) == [12, 3]


def test_a_pair_aligned_at_the_start() -> None:
    # range 14, slide 8: the spec's pair (2, 6) lists r mod s = 6 last; from a start edge it is 6 then 2.
    assert sorted(lengths(Window(14, 8))) == [2, 6]


def test_composite_of_18_15_and_12_9_ending_at_multiples() -> None:
    composite = lengths(Window.ending_at_multiples(18, 15), Window.ending_at_multiples(12, 9))
    assert composite == [6, 3, 3, 3, 3, 6, 3, 3, 3, 3, 6, 3]
    assert sum(composite) == 45


def test_composite_of_12_9_and_10_6() -> None:
    both = progressions(Window(12, 9), Window(10, 6))
    edges = [e for e in edges_between(both, 0, 18).tolist() if 0 < e <= 18]
    assert edges == [3, 4, 6, 9, 10, 12, 16, 18]
    one, other = (set(edges_between(progressions(w), 1, 18).tolist()) for w in (Window(12, 9), Window(10, 6)))
    assert sorted(e for e in one & other if 0 < e <= 18) == [12, 18]


def test_composite_of_8_4_and_18_6() -> None:
    assert lengths(Window(8, 4), Window(18, 6)) == [4, 2, 2, 4]


def test_edge_rates_of_the_weave_share_example() -> None:
    one, other = Window(12, 9), Window(10, 6)
    assert edge_rate(progressions(one)) == pytest.approx(2 / 9)
    assert edge_rate(progressions(other)) == pytest.approx(2 / 6)
    assert edge_rate(progressions(one, other)) == pytest.approx(8 / 18)


def test_edges_in_a_period_of_60() -> None:
    assert edge_rate([Progression(s, 0) for s in (2, 3, 4, 5, 6)]) == pytest.approx(44 / 60)


def test_sampled_rate_is_close_where_the_period_is_too_long() -> None:
    primes = [101, 103, 107, 109, 113, 127, 131]
    sampled = edge_rate([Progression(p, 0) for p in primes])
    alone = 1 - np.prod([1 - 1 / p for p in primes])  # coprime periods are independent
    assert sampled == pytest.approx(alone, rel=0.02)


def test_partials_per_window() -> None:
    assert partials_per_window("pairs", Window(14, 8)) == 3
    assert partials_per_window("pairs", Window(16, 8)) == 2
    assert partials_per_window("panes", Window(14, 8)) == 7
    assert partials_per_window("cutty", Window(14, 8)) == 2


def test_cutty_needs_order_or_takes_the_end_edge_too() -> None:
    window = Window(14, 8, 3)
    assert cutty(window, ordered=True) == (Progression(8, 3),)
    assert cutty(window) == pairs(window)


@given(st.lists(windows, min_size=1, max_size=4), st.integers(-200, 200))
def test_manager_yields_the_edges_of_the_progressions(some: list[Window], after: int) -> None:
    manager = SliceManager(some, after)
    yielded = [manager.next_edge() for _ in range(30)]
    expected = edges_between(progressions(*some), after + 1, after + 3000)
    assert yielded == [e for e in expected.tolist() if e > after][:30]


@given(st.lists(windows, min_size=2, max_size=4), st.integers(0, 3))
def test_manager_forgets_a_removed_window(some: list[Window], steps: int) -> None:
    manager = SliceManager(some)
    for _ in range(steps):
        manager.next_edge()
    manager.remove(some[0])
    rest = progressions(*some[1:])
    yielded = [manager.next_edge() for _ in range(20)]
    after = SliceManager(some)
    for _ in range(steps):
        after.next_edge()
    assert (
        yielded
        == [e for e in edges_between(rest, after.at + 1, after.at + 3000).tolist() if e > after.at][:20]
    )


def test_manager_refuses_what_it_does_not_have() -> None:
    with pytest.raises(KeyError, match="not in the slice manager"):
        SliceManager([Window(3, 2)]).remove(Window(5, 4))
    with pytest.raises(StopIteration):
        SliceManager().next_edge()


@given(st.lists(windows, min_size=1, max_size=4), st.integers(-100, 100))
def test_every_window_starts_and_ends_at_an_edge(some: list[Window], at: int) -> None:
    edges = set(edges_between(progressions(*some), at, at + 200).tolist())
    for window in some:
        start = at + (window.offset - at) % window.slide
        assert start in edges
        end = at + (window.offset + window.range - at) % window.slide
        assert end in edges


@given(st.lists(windows, min_size=1, max_size=3))
def test_pairs_are_the_fewest_edges(some: list[Window]) -> None:
    """Dropping any one edge of the composite makes some window begin or end inside a slice."""
    for edge in edges_between(progressions(*some), 0, 100).tolist():
        assert any(
            (edge - w.offset) % w.slide == 0 or (edge - w.offset - w.range) % w.slide == 0 for w in some
        )


@given(
    st.lists(windows, min_size=1, max_size=4),
    st.lists(st.integers(-300, 300), min_size=1, max_size=40),
    st.data(),
)
def test_slices_hold_their_times(some: list[Window], times: list[int], data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(times), max_size=len(times)))
    cut, at_times = progressions(*some), np.array(times)
    starts, ends, at = slices_of(cut, at_times, np.array(kept))
    aligned = align(cut, at_times)
    for t, keep, number, start in zip(times, kept, at.tolist(), aligned.tolist()):
        if not keep:
            assert number == -1
        else:
            assert starts[number] == start <= t < ends[number]


def test_a_microsecond_slide_over_hours_makes_no_more_slices_than_rows() -> None:
    times = np.array([0, 5, 3_600_000_000 * 5, 3_600_000_000 * 5 + 1])
    starts, ends, at = slices_of((Progression(1, 0), Progression(7, 3)), times, ALL)
    assert starts.tolist() == times.tolist()
    assert (ends - starts).tolist() == [1, 1, 1, 1]
    assert at.tolist() == [0, 1, 2, 3]


def test_contained_progressions_are_dropped() -> None:
    many = [Progression(k, 0) for k in (4, 8, 12, 6)] + [Progression(4, 0), Progression(6, 3)]
    assert reduce_progressions(many) == (Progression(4, 0), Progression(6, 0), Progression(6, 3))
