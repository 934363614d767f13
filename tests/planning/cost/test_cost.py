"""Costs: the worked examples, every technique's operations per edge, and prices."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.aggregates.monoid import ADD, MAX, Monoid
from weft.errors import JobError, QueryError
from weft.final.calibration import store
from weft.final.costs import cheapest
from weft.model.window import Window
from weft.planning.cost import (
    OMEGAS,
    Constants,
    constants,
    expected_techniques,
    find_omega,
    find_price,
)
from weft.planning.cost.load import NO_LOAD, final_operations, loads_of
from weft.planning.cost.omega import omega
from weft.slicing import edge_rate
from weft.slicing.slicers import pairs

A, B, C = Window(16, 4), Window(10, 5), Window(8, 4)


def operations_per_edge(technique: str, edges: float, ranges: np.ndarray, slides: np.ndarray) -> float:
    """Return the Omega of a tree with ``edges`` per second; ranges and slides of its queries in seconds."""
    return float(omega(find_omega(technique).code, edges, ranges.astype(float), slides.astype(float)))


def separate_cost(rate: float, trees: list[tuple[float, float]]) -> float:
    """Return ``m*lambda + sum E_i*Omega_i`` of trees given as (E, Omega)."""
    return sum(rate + edges * operations for edges, operations in trees)


def composite_cost(rate: float, composite: float, trees: list[tuple[float, float]]) -> float:
    """Return ``lambda + m*E_all + sum E_i*Omega_i`` of trees given as (E, Omega)."""
    return rate + sum(composite + edges * operations for edges, operations in trees)


def tree(*windows: Window) -> tuple[float, float]:
    """Edge rate and Omega of windows in seconds, by the papers' formula."""
    edges = edge_rate(p for w in windows for p in pairs(w))
    ranges, slides = (np.array([getattr(w, name) for w in windows], float) for name in ("range", "slide"))
    return edges, operations_per_edge("recompute", edges, ranges, slides)


def test_weave_share_example_3() -> None:
    # Guirguis et al. 2011, example 3, at 1.2 rows per second. The paper prints 11.6 for no sharing,
    # which its own equation 3 does not give.
    assert separate_cost(1.2, [tree(A), tree(B), tree(C)]) == pytest.approx(5.5)
    assert separate_cost(1.2, [tree(A, C), tree(B)]) == pytest.approx(4.3)
    assert separate_cost(1.2, [tree(A, B, C)]) == pytest.approx(4.4)


def test_weave_share_example_2() -> None:
    a, b = Window(12, 9), Window(10, 6)
    assert [tree(a)[0], tree(b)[0], tree(a, b)[0]] == pytest.approx([2 / 9, 2 / 6, 8 / 18])


def test_composite_cost_pays_for_reading_once() -> None:
    trees = [tree(A, C), tree(B)]
    assert composite_cost(1.2, 0.4, trees) == pytest.approx(1.2 + 2 * 0.4 + 1.5 + 0.4)


@pytest.mark.parametrize(
    ("technique", "expected"),
    [
        # One query of 16 slices at one edge per second: nP = 16, and it is due at every edge.
        ("recompute", 16.0),
        ("recompute-exact", 15.0),
        ("soe", 2.0),
        ("flatfat", 3 + 15 / 16),
        ("bint", 3 + 15 / 16),
        ("twostacks", 3.0),
        ("daba", 5.0),
        ("flatfit", 3.0),
        ("slickdeque-inv", 2.0),
        ("slickdeque-noninv", 2 - 2 / 16 + 1 + sum(1 / i for i in range(1, 17))),
        ("slideside-inv", 2 - 1 / 16 + 1),
        ("slideside-noninv", 3.0),
        ("bulk", 2 + 3),
    ],
)
def test_omega_of_one_query(technique: str, expected: float) -> None:
    assert operations_per_edge(technique, 1.0, np.array([16.0]), np.array([1.0])) == pytest.approx(expected)


def test_every_technique_is_tested() -> None:
    listed = test_omega_of_one_query.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {name for name, _ in listed} == set(OMEGAS)


def test_slickdeque_shares_equal_numbers_of_partials() -> None:
    ranges, slides = np.array([16.0, 16.2, 8.0]), np.array([1.0, 2.0, 1.0])
    assert operations_per_edge("slickdeque-inv", 1.0, ranges, slides) == 4


def test_long_windows_have_harmonic_deques() -> None:
    # Measured lengths of the deque for independent values: 3.4 at 16, 6.1 at 256, 7.4 (H = 7.5) at 1024.
    def length(n: int) -> float:
        return operations_per_edge("slickdeque-noninv", 1.0, np.array([n]), np.array([1.0])) - 3 + 2 / n

    assert [round(length(n), 1) for n in (16, 256, 1024)] == [3.4, 6.1, 7.5]


queries = st.lists(st.tuples(st.integers(1, 500), st.integers(1, 60)), min_size=1, max_size=8)


@pytest.mark.parametrize("technique", OMEGAS)
@given(queries, st.floats(0.02, 2))
@settings(deadline=None, max_examples=30)
def test_omega_is_positive_and_never_less_with_more_queries(
    technique: str, some: list[tuple[int, int]], edges: float
) -> None:
    ranges, slides = np.array(some, dtype=np.float64).T
    values = [operations_per_edge(technique, edges, ranges[:n], slides[:n]) for n in range(1, len(some) + 1)]
    assert values[0] >= 0 and all(a <= b + 1e-9 for a, b in pairwise(values))


@pytest.mark.parametrize(
    "technique", ["recompute", "soe", "twostacks", "daba", "flatfit", "slickdeque-noninv"]
)
@given(queries, st.floats(0.5, 2))
@settings(deadline=None, max_examples=30)
def test_loads_price_trees_as_their_queries_do(
    technique: str, some: list[tuple[int, int]], edges: float
) -> None:
    ranges, slides = np.array(some, dtype=np.float64).T
    code = find_omega(technique).code
    one = loads_of(ranges, slides, np.zeros(len(some), np.int64), 1)[0]
    expected = edges * operations_per_edge(technique, edges, ranges, slides)
    assert final_operations(code, edges, one, NO_LOAD) == pytest.approx(expected)
    halves = loads_of(ranges, slides, np.arange(len(some)) % 2, 2)
    assert final_operations(code, edges, halves[0], halves[1]) == pytest.approx(expected)


def test_unknown_names() -> None:
    with pytest.raises(QueryError, match="no cost formula for technique 'magic'; choose one of recompute"):
        find_omega("magic")
    with pytest.raises(QueryError, match="no cost model is called 'free'; choose one of separate"):
        find_price("free", 1.0)


def test_prices_in_nanoseconds() -> None:
    constants = Constants(row=50, combine=5, answer=30, merge=10, predicate=2)
    price = find_price("composite", rate=1000, composite=0.5, constants=constants, predicates=3, groups=100)
    assert (price.base, price.tree, price.combine, price.answer) == (56_000, 500, 500, 3000)
    assert price.unit == "ns"
    assert price.separate().tree == 56_000


def test_constants_are_nanoseconds() -> None:
    with pytest.raises(JobError, match="'merge' must be nanoseconds from 0, not inf"):
        Constants(merge=inf)


def test_stored_constants_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_COSTS", str(tmp_path / "costs.json"))
    constants.cache_clear()
    assert constants() == Constants()
    store({"constants": {"row": 12.5, "combine": 3}})
    constants.cache_clear()
    assert constants() == Constants(row=12.5, combine=3)
    store({"constants": {"row": 12.5, "colour": 1}})
    constants.cache_clear()
    with pytest.warns(UserWarning, match="built-in ones used.*colour"):
        assert constants() == Constants()
    constants.cache_clear()


@pytest.mark.parametrize("groups", [1, 1000])
def test_expected_techniques_are_those_of_a_step_with_every_query_due(groups: int) -> None:
    # Slices of 1 s: a step of 2 s has one window of 40 slices due, and two of 30.
    text = "SELECT max(x) AS v, count(*) AS n FROM s [RANGE '{} s' SLIDE '{} s']"
    queries = weft.sql(";".join(text.format(*window) for window in ((40, 2), (30, 1))))
    numbers = (groups * 42, groups * 3, groups * 100)
    chosen = {cheapest(m, *numbers) for m in (Monoid(MAX, 1), Monoid(ADD, 1))}
    assert expected_techniques(queries, 1.0, groups) == tuple(sorted(chosen))
