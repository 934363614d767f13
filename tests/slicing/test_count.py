"""Counting edges: the worked examples of the papers, and every counter against the bit set."""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.slicing.edges import count_edges, f1_series
from lab.slicing.weave import common_edges, weaveability
from support.seeds import seeded_numpy
from weft.model.window import Window
from weft.slicing import Progression, edge_rate, edges_between
from weft.slicing.count import (
    COUNTERS,
    MergedF1,
    Unaffordable,
    bitset,
    f1,
    merged_f1,
)
from weft.slicing.count.merged_f1 import intersect
from weft.slicing.count.sample import sample
from weft.slicing.rate import measure_rate
from weft.slicing.slicers import pairs

counters = pytest.mark.parametrize("counter", COUNTERS)

progressions = st.builds(Progression, st.integers(1, 24), st.integers(0, 40))
sets = st.lists(progressions, min_size=1, max_size=7)
coarse = st.builds(lambda p, unit: Progression(p.period * unit, p.residue * unit), progressions, st.just(60))
windows = st.builds(Window, range=st.integers(1, 60), slide=st.integers(1, 24), offset=st.integers(-50, 50))


def edges(*windows: Window) -> list[Progression]:
    return [p for w in windows for p in pairs(w)]


def shifted(*pairs: tuple[int, int]) -> list[Progression]:
    return [Progression(slide, shift) for slide, shift in pairs]


FRAGMENTS = shifted((3, 0), (4, 0), (4, 3), (6, 0), (6, 2), (9, 0))


@counters
def test_slides_without_fragments(counter: str) -> None:
    # Shein 2019, examples 8 and 9.
    assert count_edges(shifted((2, 0), (3, 0), (4, 0), (5, 0), (6, 0)), counter) == (44, 60)


@counters
def test_slides_with_fragments(counter: str) -> None:
    # Shein 2019, examples 10 and 12: slides 3, 4 with fragments (3, 1), 6 with fragments (2, 4), and 9.
    assert count_edges(FRAGMENTS, counter) == (27, 36)


def test_the_series_of_f1() -> None:
    assert f1_series(shifted((2, 0), (3, 0), (4, 0), (5, 0), (6, 0))) == [87, 70, 36, 10, 1]
    assert f1_series(FRAGMENTS) == [46, 26, 8, 1]


@counters
def test_two_queries_together(counter: str) -> None:
    # Guirguis et al. 2011, example 2: edges at 3 4 6 9 10 12 16 18, of which 12 and 18 are common.
    a, b = edges(Window(12, 9)), edges(Window(10, 6))
    assert COUNTERS[counter](a) == Fraction(2, 9)
    assert COUNTERS[counter](b) == Fraction(2, 6)
    assert count_edges(a + b, counter) == (8, 18)
    assert edges_between(a + b, 3, 17).tolist() == [3, 4, 6, 9, 10, 12, 16, 18]


def test_common_edges_and_weaveability() -> None:
    a, b = edges(Window(12, 9)), edges(Window(10, 6))
    assert common_edges(a, b) == 2
    assert weaveability(a, b) == Fraction(2, 8)
    assert weaveability(a, a) == 1
    assert weaveability(shifted((6, 1)), shifted((6, 2))) == 0


@counters
@given(sets)
@settings(deadline=None)
def test_counters_agree(counter: str, some: list[Progression]) -> None:
    assert COUNTERS[counter](some) == bitset(some)


@counters
@given(st.lists(windows, min_size=1, max_size=3))
@settings(deadline=None)
def test_counters_agree_with_the_edges_themselves(counter: str, some: list[Window]) -> None:
    # Offsets, and ranges shorter than the slide, included.
    period = lcm(*(w.slide for w in some))
    listed = edges_between(edges(*some), 0, period - 1)
    assert COUNTERS[counter](edges(*some)) * period == int(((listed >= 0) & (listed < period)).sum())


@given(sets, sets)
@settings(deadline=None)
def test_two_trees_are_compared_from_their_terms(a: list[Progression], b: list[Progression]) -> None:
    for clock in (None, (1, 0)):
        mine, theirs = MergedF1.of(a, clock=clock), MergedF1.of(b, clock=clock)
        union = bitset([*a, *b])
        assert mine.common(theirs) == bitset(a) + bitset(b) - union
        assert mine.union(theirs).rate == union
        assert mine.union(theirs).union(mine).rate == union


@given(st.lists(coarse, min_size=1, max_size=6), st.integers(0, 59))
@settings(deadline=None)
def test_the_unit_of_time_does_not_matter(some: list[Progression], shift: int) -> None:
    moved = [Progression(p.period, p.residue + shift) for p in some]
    for counter in COUNTERS.values():
        assert counter(moved) == bitset(some)


@given(progressions, progressions)
def test_the_intersection_of_two_progressions(a: Progression, b: Progression) -> None:
    period = lcm(a.period, b.period)
    both = [t for t in range(period) if not (t - a.residue) % a.period and not (t - b.residue) % b.period]
    met = intersect((a.period, a.residue), (b.period, b.residue))
    assert both == ([] if met is None else [met[1] % period]) and (met is None or met[0] == period)


def test_a_long_period_is_refused_with_a_remedy() -> None:
    primes = [p for p in range(2, 60) if all(p % d for d in range(2, p))]
    with pytest.raises(
        Unaffordable, match=r"one period .* has 1,?9.* bits.*count the edges with F1 or merged F1"
    ):
        bitset(Progression(p, 0) for p in primes)


def test_too_many_groups_and_too_many_terms_are_refused() -> None:
    some = [Progression(p, 1) for p in range(50, 90)]
    with pytest.raises(Unaffordable, match="2\\^40 groups"):
        f1(some)
    with pytest.raises(Unaffordable, match="more than 100 intersections"):
        merged_f1(some, max_intersections=100)


def test_f1_beyond_machine_words() -> None:
    some = [Progression(p, 0) for p in (1009, 1013, 1019, 1021, 1031, 1033, 1039)]
    expected = 1 - np.prod([Fraction(p.period - 1, p.period) for p in some])
    for name in ("f1", "f1-opt", "merged-f1"):
        assert COUNTERS[name](some) == expected


def test_many_primes_are_counted_at_once() -> None:
    primes = [p for p in range(2, 1000) if all(p % d for d in range(2, int(p**0.5) + 1))]
    assert merged_f1(Progression(p, 0) for p in primes) == 1 - np.prod([Fraction(p - 1, p) for p in primes])


def test_the_planner_says_how_a_rate_was_found() -> None:
    random = seeded_numpy(0)
    assert measure_rate([]).value == 0
    assert measure_rate(shifted((6, 0), (6, 1))) == measure_rate(shifted((6, 0), (6, 1), (6, 0)))
    assert measure_rate(shifted((6, 0), (6, 1))).how == "formula"
    assert measure_rate(shifted((9, 0), (6, 1))).how == "bit set"
    assert measure_rate(shifted((10_007, 0), (10_009, 1))).exact == Fraction(1, 10_007) + Fraction(
        10_006, 10_007 * 10_009
    )
    many = [
        Progression(int(p), int(r))
        for p, r in zip(random.integers(50, 3600, 400), random.integers(0, 3600, 400))
    ]
    assert measure_rate(many).how == "sample"


@given(st.lists(st.builds(Progression, st.integers(20, 400), st.integers(0, 400)), min_size=2, max_size=5))
@settings(deadline=None, max_examples=30)
def test_a_sample_is_close(some: list[Progression]) -> None:
    exact = float(merged_f1(some))
    assert sample(some) == pytest.approx(exact, rel=0.01)
    sparse = [Progression(p.period * 10_007, p.residue) for p in some]
    assert sample(sparse) == pytest.approx(float(merged_f1(sparse)), rel=0.01)
    assert edge_rate(some) == pytest.approx(exact)
