"""The timing that benchmarks share."""

from __future__ import annotations

from weft.cli import bench

bench.load("auto")

from _timing import fewest, race  # noqa: E402  (found beside the benchmarks, once one is loaded)


def test_races_are_won_by_the_fewest_seconds() -> None:
    assert fewest([{"a": 2.0, "b": 1.0}, {"a": 1.5}]) == {"a": 1.5, "b": 1.0}


def test_every_work_takes_part_in_a_race() -> None:
    assert sorted(race({"one": lambda: sum(range(10)), "other": lambda: None}, seconds=0)) == ["one", "other"]
