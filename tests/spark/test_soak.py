"""A short soak: kills, changes of queries, and every result checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.cli import bench

soak = bench.load("soak")

from _soak.check import check  # noqa: E402  (found beside the benchmark, once that is loaded)


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    made = soak.Soak(tmp_path, seed=7)
    made.go_on(20, lambda *_: None)
    assert not made.failures
    assert len(made.drivers) >= 3, "two were killed, and one has finished"
    verdict = check(tmp_path)
    assert verdict.wrong == []
    assert verdict.results > 1000
    assert verdict.promises > 0
