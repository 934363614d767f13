"""Scale: a million queries are a thousand classes; windows with nothing in common are woven in blocks."""

from __future__ import annotations

import pytest

from lab.planning.workload import Workload
from support.seeds import seeded_numpy
from weft.planning.planner import make_price, plan
from weft.planning.problem import Problem
from weft.planning.registry import find_strategy
from weft.planning.windows import SECOND, Windows


def solve(windows: Windows, rate: float, name: str) -> tuple[Problem, int]:
    strategy = find_strategy(name)
    problem = Problem.of(windows, make_price(windows, "pairs", rate, strategy.model))
    grouping = strategy(problem)
    assert grouping.tree_of.size == len(problem)
    return problem, grouping.trees


@pytest.mark.slow
@pytest.mark.parametrize("name", ["weave-share", "triweave"])
def test_a_million_queries(name: str) -> None:
    # Shein 2019, table 5, experiment 1, whose bit set gave up at 550 queries.
    work = Workload(queries=1_000_000, longest=1000, overlap=10, rate=0.002, skew=0.5)
    problem, trees = solve(work.windows(), work.rate, name)
    assert len(problem) == 1000
    assert 1 <= trees <= 1000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["weave-share", "triweave"])
def test_thousands_of_windows_with_nothing_in_common(name: str) -> None:
    random = seeded_numpy(0)
    slides = random.integers(1, 3600, 3000) * SECOND
    windows = Windows(random.integers(1, 86_400, 3000) * SECOND, slides, random.integers(0, slides))
    problem, trees = solve(windows, 1000.0, name)
    assert len(problem) > 2500
    assert 1 < trees < 1000


def test_windows_in_microseconds() -> None:
    random = seeded_numpy(0)
    slides = random.integers(10**5, 10**9, 300)
    windows = Windows(random.integers(10**6, 10**10, 300), slides, random.integers(0, slides))
    problem, trees = solve(windows, 1000.0, "weave-share")
    assert not problem.table.exact
    assert 1 <= trees < 300


def test_ten_thousand_queries_at_the_border() -> None:
    queries = Workload(queries=10_000, longest=60, overlap=10).as_queries()
    made = plan(queries, rate=50.0, strategy="weave-share", technique="recompute")
    assert len(made.queries) == 10_000
    assert made.cost < made.alone
