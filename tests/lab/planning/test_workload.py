"""The workload generator: seeded, and what its parameters say."""

from __future__ import annotations

import numpy as np
import pytest

from lab.planning.workload import Workload, distributed_workloads
from weft.errors import QueryError
from weft.planning.windows import SECOND


def test_the_same_seed_gives_the_same_windows() -> None:
    one, same, other = (Workload(100, 50, 10, seed=s).windows() for s in (1, 1, 2))
    assert (one.ranges == same.ranges).all() and (one.slides == same.slides).all()
    assert (one.ranges != other.ranges).any()


def test_slides_and_overlaps_stay_within_bounds() -> None:
    made = Workload(2000, 30, 8).windows()
    slides, factors = made.slides // SECOND, made.ranges / made.slides
    assert slides.min() == 1 and slides.max() == 30
    assert set(factors.tolist()) == set(range(1, 9))


def test_skew_favours_large_slides() -> None:
    means = [float(Workload(5000, 100, 5, skew=skew).windows().slides.mean()) for skew in (-1, 0, 1, 3)]
    assert means == sorted(means)


def test_kinds_of_slides() -> None:
    assert Workload(1, 30, 1, kind="diverse").slides().tolist() == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    assert Workload(1, 12, 1, factors=True).slides().tolist() == [1, 2, 3, 4, 6, 12]
    fragments = Workload(500, 30, 8, fragments=True).windows()
    assert (fragments.ranges % fragments.slides != 0).any() and (fragments.ranges % SECOND == 0).all()


def test_the_256_workloads() -> None:
    works = list(distributed_workloads())
    assert len({(w.queries, w.nodes, w.rate, w.longest, w.skew, w.overlap, w.kind) for w in works}) == 256
    assert len({w.seed for w in works}) == 256


def test_queries_have_the_windows() -> None:
    work = Workload(20, 30, 8)
    made = work.windows()
    assert np.array([q.window.range for q in work.as_queries()]).tolist() == made.ranges.tolist()


@pytest.mark.parametrize("bad", [{"queries": 0}, {"longest": 1, "kind": "diverse"}, {"kind": "odd"}])
def test_what_is_no_workload(bad: dict[str, object]) -> None:
    with pytest.raises(QueryError, match="a workload"):
        Workload(**{"queries": 1, "longest": 10, "overlap": 2, **bad})  # type: ignore[arg-type]
