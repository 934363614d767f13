"""What techniques do to plans: estimated cost by Weave Share and TriWeave (Shein 2019, figures 42-46).

docs/benchmarks.md says what the figures mean.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from rich.table import Table

from weft.bench import Progress, Result
from weft.optimize import find_strategy
from weft.optimize.planner import make_price
from weft.optimize.problem import Problem
from weft.optimize.workload import Workload

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
PAPER = {
    "slickdeque_over_recompute_max": 270_000.0,
    "slickdeque_over_flatfit_max": 3.0,
    "weave_share_over_triweave_mean": 1.07,
}


def run(quick: bool, progress: Progress) -> Result:
    """Both optimizers at every point of every sweep, with every technique."""
    points = [(f, k, v) for f, (k, values) in SWEEPS.items() for v in (values[::2] if quick else values)]
    rows = []
    for at, (name, key, value) in enumerate(points):
        progress(f"{name}, {key} = {value:g}", at, len(points))
        work = replace(MIDDLE, **{key: value})
        for strategy in ("weave-share", "triweave"):
            costs = {technique: cost(work, strategy, technique) for technique in TECHNIQUES}
            rows.append({"figure": name, key: value, "value": value, "strategy": strategy, **costs})
    progress("done", len(points), len(points))
    notes = ["The thesis: " + ", ".join(f"{name} {value:,g}" for name, value in PAPER.items()) + "."]
    return Result("plan-cost", rows, figures(rows), notes)


def cost(work: Workload, strategy: str, technique: str) -> float:
    """The estimated operations per second of one plan."""
    windows, found = work.windows(), find_strategy(strategy)
    problem = Problem.of(
        windows, make_price(windows, "pairs", work.rate, found.model), technique, seed=work.seed
    )
    return problem.costs(found(problem)).total


def figures(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The few ratios that sum the table up."""
    pairs = zip(rows[::2], rows[1::2])
    gains = [weave[t] / tri[t] for weave, tri in pairs for t in TECHNIQUES]
    return {
        "slickdeque_over_recompute_max": max(row["recompute"] / row["slickdeque-noninv"] for row in rows),
        "slickdeque_over_flatfit_max": max(row["flatfit"] / row["slickdeque-noninv"] for row in rows),
        "weave_share_over_triweave_mean": float(np.mean(gains)),
    }


def render(result: Result) -> Table:
    """The table as printed."""
    shown = Table(title="Estimated operations per second")
    for heading in ("figure", "value", "strategy", *TECHNIQUES):
        shown.add_column(heading, justify="left" if heading in ("figure", "strategy") else "right")
    for row in result.rows:
        shown.add_row(
            row["figure"], f"{row['value']:g}", row["strategy"], *(f"{row[t]:,.4g}" for t in TECHNIQUES)
        )
    return shown
