"""The benchmark of shared joins, on a stream of a few seconds."""

from __future__ import annotations

import pytest

from weft.cli import bench

join = bench.load("join")


def test_every_setting_of_the_tables_is_there_once():
    assert len(join._settings()) == 7
    assert join.MANY_WINDOWS["uniform"](12) == [2.5 * n for n in range(1, 13)]
    assert join.MANY_WINDOWS["mostly small"](12) == [*range(1, 11), 20, 30]
    assert join.MANY_WINDOWS["small-large"](12) == [*range(1, 7), *range(25, 31)]


def test_strategies_agree_and_the_figures_sum_them_up():
    rows = join.compare_strategies(join.Setting("uniform", 0.5, 0.1, 20.0), seconds=8, tries=1)
    assert [row["strategy"] for row in rows] == list(join.STRATEGIES)
    assert len({row["results"] for row in rows}) == 1
    for windows in join.MANY_WINDOWS:
        for count in (12, 24):
            rows.append(join.compare_chains(windows, count, 10.0, 4, 1, join.ChainCosts(system=1e6)))
            assert rows[-1]["slices"] == 1
    rows.append({"part": "run", "queries": 16, "rows": 9, "results": 4, "together": 1.0, "apart": 5.0})
    figures = join.figures(rows)
    assert figures["run_apart_over_together"] == 5
    assert 0 <= figures["memory_saved_max"] < 1
    assert figures["cpu_opt_over_mem_opt_uniform_12"] > 0
    result = bench.BenchmarkResult("join", rows, figures)
    assert len(join.render(result).renderables) == 5


def test_a_slice_that_costs_more_shows_in_the_calibration(monkeypatch):
    def feed(chain, steps):
        members, slices = len(chain.members), len(chain.sides[0].ends)
        return {"seconds": 1.0 + 0.2 * (members > 1) + 0.5 * (slices > 1)}

    monkeypatch.setattr(join, "feed", feed)
    costs = join.calibrate(10.0, 4)
    assert costs.system == pytest.approx(0.5 / (2 * 10 * 4 * 11) * (2 * 100 * 30 * 4))
    assert costs.route == pytest.approx(0.2 / (0.025 * 11))
