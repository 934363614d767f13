"""The effect of techniques on plans: estimated cost by Weave Share and TriWeave (Shein 2019, figures 42-46).

docs/benchmarks.md says what the figures mean.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _papers import beside
from _plots import MARKERS, axes, legend, save, spread
from rich.console import Group
from rich.table import Table

from lab.planning.workload import Workload
from weft.cli.bench import BenchmarkResult, Progress
from weft.planning.planner import make_price
from weft.planning.problem import Problem
from weft.planning.registry import find_strategy

TECHNIQUES = (
    "recompute",
    "flatfat",
    "flatfit",
    "slickdeque-inv",
    "slickdeque-noninv",
    "slideside-inv",
    "bulk",
)
MIDDLE = Workload(100, 1000, 10_000, rate=1.0, factors=True)
SWEEPS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "figure 42": ("queries", (1, 10, 100, 1000, 10_000)),
    "figure 43": ("longest", (10, 100, 1000, 10_000, 100_000)),
    "figure 44": ("overlap", (100, 1000, 10_000, 100_000, 1_000_000)),
    "figure 45": ("rate", (0.01, 0.1, 1.0, 10.0, 100.0)),
    "figure 46": ("skew", (-1.0, -0.5, 0.0, 0.5, 1.0)),
}
STRATEGIES = ("weave-share", "triweave")
PAPER = {
    "figure 42": {"recompute": 5000.0, "triweave": "8"},
    "figure 43": {"recompute": 4300.0, "triweave": "within 2"},
    "figure 44": {"recompute": 270_000.0, "triweave": "within 2"},
    "figure 45": {"recompute": 3000.0, "triweave": "18"},
    "figure 46": {"recompute": 4200.0, "triweave": "5"},
}
"""Shein 2019, section 7.3.2: how many times cheaper SlickDeque is than panes at best, and by how much % plans
of TriWeave are cheaper on average."""
NOTES = [
    "SlickDeque is the cheaper of its two forms. For invertible aggregates it costs two operations a running "
    "answer here; the thesis's table 11 has one, which makes its ratios up to twice as large.",
    "TriWeave pays for merging the composite's slices into each tree's; the thesis gives no formula.",
]


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Both optimizers at every point of every sweep, with every technique."""
    points = [(f, k, v) for f, (k, values) in SWEEPS.items() for v in (values[::2] if quick else values)]
    rows = []
    for at, (name, key, value) in enumerate(points):
        progress(f"{name}, {key} = {value:g}", at, len(points))
        work = replace(MIDDLE, **{key: value})
        for strategy in STRATEGIES:
            costs = {technique: cost(work, strategy, technique) for technique in TECHNIQUES}
            rows.append({"figure": name, key: value, "value": value, "strategy": strategy, **costs})
    progress("done", len(points), len(points))
    return BenchmarkResult("plan-cost", rows, figures(rows), NOTES)


def cost(work: Workload, strategy: str, technique: str) -> float:
    """The estimated operations per second of one plan."""
    windows, assign = work.windows(), find_strategy(strategy)
    problem = Problem.of(
        windows, make_price(windows, "pairs", work.rate, assign.model), technique, seed=work.seed
    )
    return problem.costs(assign(problem)).total


def slickdeque(row: dict[str, Any]) -> float:
    """The cost by the cheaper form of SlickDeque."""
    return min(row["slickdeque-inv"], row["slickdeque-noninv"])


def gains(rows: list[dict[str, Any]]) -> list[float]:
    """Cost of Weave Share's plans over TriWeave's, by every technique."""
    weave, tri = ([row for row in rows if row["strategy"] == strategy] for strategy in STRATEGIES)
    return [a[t] / b[t] for a, b in zip(weave, tri) for t in TECHNIQUES]


def figures(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The few ratios that sum the table up."""
    return {
        "slickdeque_over_recompute_max": max(row["recompute"] / slickdeque(row) for row in rows),
        "slickdeque_over_flatfit_max": max(row["flatfit"] / slickdeque(row) for row in rows),
        "weave_share_over_triweave_mean": float(np.mean(gains(rows))),
    }


def render(result: BenchmarkResult) -> Group:
    """The table as printed, and what the thesis has beside it."""
    shown = Table(title="Estimated operations per second")
    for heading in ("figure", "value", "strategy", *TECHNIQUES):
        shown.add_column(heading, justify="left" if heading in ("figure", "strategy") else "right")
    for row in result.rows:
        shown.add_row(
            row["figure"], f"{row['value']:g}", row["strategy"], *(f"{row[t]:,.4g}" for t in TECHNIQUES)
        )
    return Group(shown, beside("Shein 2019, section 7.3.2", thesis(result)))


def thesis(result: BenchmarkResult) -> list[tuple[str, object, object]]:
    """Return the thesis' figures beside ours."""
    lines: list[tuple[str, object, object]] = []
    for name, paper in PAPER.items():
        rows = [row for row in result.rows if row["figure"] == name]
        if rows:
            most = max(row["recompute"] / slickdeque(row) for row in rows)
            tri = 100 * (float(np.mean(gains(rows))) - 1)
            lines.append((f"{name}: recompute over SlickDeque, at most", paper["recompute"], most))
            lines.append((f"{name}: TriWeave cheaper than Weave Share, %", paper["triweave"], tri))
    figures = result.figures
    lines.append(("FlatFIT over SlickDeque, at most", 3.0, figures["slickdeque_over_flatfit_max"]))
    return lines


def draw(result: BenchmarkResult, folder: Path) -> list[Path]:
    """Figures 42-46: plan cost by technique, Weave Share on the left and TriWeave on the right."""
    figures = {}
    for name in dict.fromkeys(row["figure"] for row in result.rows):
        key = SWEEPS[name][0]
        figure, places = axes(name.capitalize(), key, "operations per second", panels=2, width=7.6)
        for place, strategy in zip(places, STRATEGIES):
            rows = [r for r in result.rows if r["figure"] == name and r["strategy"] == strategy]
            values = [row["value"] for row in rows]
            place.set_title(strategy)
            place.set_yscale("log")
            spread(place, values)
            for number, technique in enumerate(TECHNIQUES):
                costs = [row[technique] for row in rows]
                place.plot(values, costs, marker=MARKERS[number], markersize=4, label=technique)
        legend(figure, places[0])
        figures[name.replace(" ", "_")] = figure
    return save(figures, folder)
