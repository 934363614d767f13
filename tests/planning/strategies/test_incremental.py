"""Queries that come and go: local weaving, the plan-cost curve, and plans made from scratch."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.planning.workload import Workload
from weft.errors import QueryError
from weft.planning.planner import plan
from weft.planning.strategies.incremental_weave_share import Curve, IncrementalWeaveShare


def running(**more: Any) -> IncrementalWeaveShare:
    return IncrementalWeaveShare(rate=20.0, technique="recompute", **more)


def offline(queries: Any) -> float:
    return plan(queries, 20.0, "weave-share", technique="recompute").cost


def test_the_curve_goes_on_at_the_last_slope() -> None:
    curve = Curve()
    curve.add(10, 100.0)
    curve.add(20, 150.0)
    assert curve.extrapolate(30) == pytest.approx(200.0)
    assert not curve.exceeded(30, 239.0, tolerance=0.2)
    assert curve.exceeded(30, 241.0, tolerance=0.2)


@given(st.integers(0, 1000), st.lists(st.booleans(), min_size=5, max_size=20))
@settings(deadline=None, max_examples=15)
def test_queries_come_and_go(seed: int, coming: list[bool]) -> None:
    waiting = list(Workload(queries=40, longest=20, overlap=10, seed=seed).as_queries())
    here: dict[str, Any] = {}
    plans = running()
    for comes in coming:
        if comes or not here:
            query = waiting.pop()
            plans.add([query])
            here[query.name] = query
        else:
            name = next(iter(here))
            plans.remove([name])
            del here[name]
        if here:
            assert {q.name for q in plans.plan().queries} == set(here)


def test_no_tolerance_is_weave_share_and_endless_tolerance_never_rebuilds() -> None:
    queries = Workload(queries=60, longest=30, overlap=20, seed=3).as_queries()
    strict, lazy = running(tolerance=0.0), running(tolerance=float("inf"))
    for query in queries:
        strict.add([query])
        lazy.add([query])
    best = offline(queries)
    assert lazy.rebuilds == 1
    assert strict.rebuilds > 1
    assert best <= lazy.cost * (1 + 1e-9)
    assert strict.cost <= 1.1 * best


class Later(Executor):
    """An executor whose work is done when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: fn(*args, **kwargs)))
        return future

    def finish(self) -> None:
        for future, work in self.waiting:
            future.set_result(work())
        self.waiting.clear()


def test_a_rebuild_in_the_background_keeps_what_came_meanwhile() -> None:
    queries = Workload(queries=12, longest=20, overlap=10, seed=1).as_queries()
    later = Later()
    plans = running(executor=later)
    plans.add(queries[:6])
    assert plans.rebuilds == 0 and len(later.waiting) == 1
    plans.add(queries[6:])
    plans.remove([queries[0].name])
    later.finish()
    assert {q.name for q in plans.plan().queries} == {q.name for q in queries[1:]}
    assert plans.rebuilds == 1


def test_names_are_checked() -> None:
    query = Workload(queries=1, longest=5, overlap=3).as_queries()[0]
    plans = running()
    with pytest.raises(QueryError, match="no query to plan"):
        plans.plan()
    plans.add([query])
    with pytest.raises(QueryError, match="query 'q0': there is a query of this name already; rename one"):
        plans.add([query])
    with pytest.raises(QueryError, match="query 'nobody': there is no such query to remove"):
        plans.remove(["nobody"])
