"""The planner's benchmarks draw and print hand-made results; nothing is measured."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from weft.cli import bench
from weft.cli.bench import BenchmarkResult

COUNTERS = ("bitset", "f1", "f1-opt", "merged-f1")


def f1_row(sweep, value, bitset):
    seconds = {"bitset": bitset, "f1": 0.01, "f1-opt": 0.008, "merged-f1": 0.001}
    gave_up = {} if bitset else {"bitset": "time"}
    spent = {**seconds, "bitset": bitset or 60.0}
    known = {"sweep": sweep, "value": value, "classes": 9, "trees": 2, "table": 0.002, **seconds}
    return known | {"gave_up": gave_up, "spent": spent, "counting": seconds}


def f1_rows():
    return [f1_row("skew", 0.0, 0.5), f1_row("skew", 100.0, None), f1_row("longest", 100, 0.5)]


def weave_rows(module):
    costs = dict.fromkeys(module.STRATEGIES, 2.0) | {"weave-share": 1.0, "trees": 3}
    parts = [(name, getattr(works[0], key)) for name, (key, works) in module.SWEEPS.items()]
    rows = [{"part": name, "value": value, **costs} for name, value in parts]
    rows += [
        {"part": "figure 11, tolerance", "value": t, "incremental": 1.1, "seconds": 0.1}
        for t in module.TOLERANCES
    ]
    names = (*module.VARIANTS, "compiled")
    return rows + [
        {"part": "figure 14", "value": name, "seconds": 10.0**-at} for at, name in enumerate(names)
    ]


def distributed_rows(module):
    shares = dict.fromkeys(("best_max", "max_behind", "best_total", "total_behind"), 50.0)
    places = dict.fromkeys(("max_quality", "max_deviation", "total_quality", "total_deviation"), 20.0)
    names = [(name, "separate") for name in module.THESIS_STRATEGIES] + [(module.WEFT_STRATEGY, "per-node")]
    return [
        {
            "strategy": name,
            "model": model,
            "seconds": 0.1,
            "paper": module.PAPER.get(name, {}),
            "paper_seconds": module.SECONDS.get(name),
            "node_costs": [4.0, 3.0, 2.0, 1.0],
            **shares,
            **places,
        }
        for name, model in names
    ]


def plan_cost_rows(module):
    costs = {technique: 10.0 + at for at, technique in enumerate(module.TECHNIQUES)}
    return [
        {"figure": name, "value": value, "strategy": strategy, **costs}
        for name, (_, values) in module.SWEEPS.items()
        for value in values[:2]
        for strategy in module.STRATEGIES
    ]


def made(name):
    module = bench.load(name)
    if name == "f1":
        rows = f1_rows()
        figures = module.figures(rows)
    elif name == "weave":
        rows = weave_rows(module)
        figures = module.figures(rows)
    elif name == "distributed":
        rows, figures = distributed_rows(module), {}
    else:
        rows = plan_cost_rows(module)
        figures = module.figures(rows)
    return module, BenchmarkResult(name, rows, figures)


PLOTS = {
    "f1": ["longest", "skew"],
    "weave": [f"figure_{n}" for n in (10, 11, 14, 4, 5, 6, 8, 9)],
    "distributed": ["figure_40_busiest", "figure_40_total", "figure_41"],
    "plan-cost": [f"figure_{n}" for n in range(42, 47)],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLOTS)
def test_every_figure_is_an_svg_that_does_not_change(name, tmp_path):
    module, result = made(name)
    first = module.draw(result, tmp_path / "first" / name)
    assert sorted(path.stem for path in first) == PLOTS[name]
    again = module.draw(result, tmp_path / "again")
    for path, same in zip(first, again):
        assert path.suffix == ".svg"
        assert "</svg>" in path.read_text()
        assert path.read_text() == same.read_text()


@pytest.mark.parametrize("name", PLOTS)
def test_the_papers_numbers_are_printed_beside_ours(name):
    module, result = made(name)
    console = Console(width=200, file=io.StringIO())
    console.print(module.render(result))
    text = console.file.getvalue()
    said = {"f1": "60,000", "weave": "about 1,000", "distributed": "12.6", "plan-cost": "270,000"}
    assert said[name] in text


def test_a_counter_that_gave_up_bounds_the_ratio():
    _, result = made("f1")
    assert result.figures["bitset_over_f1_max"] == 50
    assert result.figures["bitset_over_f1_at_least_max"] == 6000
