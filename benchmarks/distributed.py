"""Fourteen ways to place trees on nodes: total cost and busiest node on 256 workloads (Shein 2019, table 8).

docs/benchmarks.md says what the figures mean.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from _papers import beside
from _plots import axes, save
from matplotlib.figure import Figure
from rich.console import Group
from rich.table import Table

from lab.planning.workload import Workload, distributed_workloads
from weft.cli.bench import BenchmarkResult, Progress
from weft.planning.planner import make_price
from weft.planning.problem import Problem
from weft.planning.registry import STRATEGIES, find_strategy

WEFT_STRATEGY = "weave-balance"
THESIS_STRATEGIES = [s.name for s in STRATEGIES.values() if s.places and s.name != WEFT_STRATEGY]
EQUAL_RATIO = 1 + 1e-9
FOUR_NODES = Workload(250, 25, 100, rate=100.0, skew=1.0, nodes=4)
"""Shein 2019, section 6.6.2.2: the workload of figure 41."""
PAPER = {
    "WG_I": {"best_max": 80, "max_behind": 3, "best_total": 5, "total_behind": 9},
    "WG_TN": {"best_max": 17, "max_behind": 48, "best_total": 90, "total_behind": 0.2},
}
SECONDS = {
    "G_RAND": 0.01,
    "W_RAND": 2.31,
    "WG_RAND": 0.02,
    "G_RR": 0.01,
    "W_RR": 2.34,
    "WG_RR": 0.01,
    "G_TL": 0.01,
    "W_TL": 12.6,
    "WG_TL": 9.11,
    "W_TN": 2.95,
    "WG_TN": 2.83,
    "W_I": 5.68,
    "WG_I": 3.94,
}
"""Shein 2019, table 10."""


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Plan every workload with every strategy; ours also priced as the others are."""
    works = list(distributed_workloads())[:: 11 if quick else 1]
    plans = [
        *((name, "separate") for name in THESIS_STRATEGIES),
        (WEFT_STRATEGY, "per-node"),
        (WEFT_STRATEGY, "separate"),
    ]
    totals, largest = np.zeros((2, len(plans), len(works)))
    seconds = np.zeros(len(plans))
    for name, model in plans:
        # Kernels are compiled before anything is timed.
        find_strategy(name)(problem_of(Workload(10, 12, 4, nodes=2), name, model))
    for at, work in enumerate(works):
        progress(f"workload {at + 1} of {len(works)}", at, len(works))
        for row, (name, model) in enumerate(plans):
            problem = problem_of(work, name, model)
            start = time.process_time()
            grouping = find_strategy(name)(problem)
            seconds[row] += (time.process_time() - start) / len(works)
            costs = problem.costs(grouping)
            totals[row, at], largest[row, at] = costs.total, costs.largest(problem.capacities)
    progress("done", len(works), len(works))
    rows = table(plans, totals, largest, seconds)
    for row, (name, model) in zip(rows, plans):
        problem = problem_of(FOUR_NODES, name, model)
        row["node_costs"] = sorted(problem.costs(find_strategy(name)(problem)).nodes.tolist(), reverse=True)
    return BenchmarkResult("distributed", rows, figures(rows, totals, largest), notes(len(works)))


def problem_of(work: Workload, name: str, model: str) -> Problem:
    """The problem of a workload, at the price of a model."""
    windows = work.windows()
    price = make_price(windows, "pairs", work.rate, model)
    merge = find_strategy(name).merge
    return Problem.of(windows, price, "recompute", (1.0,) * work.nodes, merge=merge, seed=work.seed)


def table(
    plans: list[tuple[str, str]], totals: np.ndarray, largest: np.ndarray, seconds: np.ndarray
) -> list[dict[str, Any]]:
    """One row per strategy: how often it is best of the thesis's thirteen, and how far behind otherwise."""
    thesis_count = len(THESIS_STRATEGIES)
    rows = []
    for row, (name, model) in enumerate(plans):
        facts: dict[str, Any] = {"strategy": name, "model": model, "seconds": float(seconds[row])}
        for kind, values in (("max", largest), ("total", totals)):
            ratio = values[row] / values[:thesis_count].min(axis=0)
            behind = ratio[ratio > EQUAL_RATIO] - 1
            facts[f"best_{kind}"] = 100 * float(np.mean(ratio <= EQUAL_RATIO))
            facts[f"{kind}_behind"] = 100 * float(behind.mean()) if behind.size else 0.0
            best, worst = values[:thesis_count].min(axis=0), values[:thesis_count].max(axis=0)
            place = 100 * (values[row] - best) / np.where(worst > best, worst - best, 1)
            facts[f"{kind}_quality"], facts[f"{kind}_deviation"] = float(place.mean()), float(place.std())
        facts["paper"] = PAPER.get(name, {})
        facts["paper_seconds"] = SECONDS.get(name)
        rows.append(facts)
    return rows


def figures(rows: list[dict[str, Any]], totals: np.ndarray, largest: np.ndarray) -> dict[str, float]:
    """The few ratios that sum the table up."""
    by_name = {row["strategy"]: row for row in rows if row["model"] == "separate"}
    most_total, most_busy = totals[THESIS_STRATEGIES.index("WG_TN")], largest[THESIS_STRATEGIES.index("WG_I")]

    def bounds_met(row: int) -> float:
        return float(
            np.mean((totals[row] <= most_total * EQUAL_RATIO) & (largest[row] <= most_busy * EQUAL_RATIO))
        )

    worst = np.maximum(totals[-1] / most_total, largest[-1] / most_busy)
    return {
        "wg_tn_best_total_percent": by_name["WG_TN"]["best_total"],
        "wg_i_best_max_percent": by_name["WG_I"]["best_max"],
        "wg_i_total_behind_percent": by_name["WG_I"]["total_behind"],
        "ours_keeps_both_bounds": bounds_met(-2),
        "ours_total_over_wg_tn": float(np.mean(totals[-2] / most_total)),
        "ours_max_over_wg_i": float(np.mean(largest[-2] / most_busy)),
        "ours_keeps_both_bounds_at_their_price": bounds_met(-1),
        "ours_worst_at_their_price": float(worst.max()),
    }


def notes(works: int) -> list[str]:
    """Return what to know when reading the table."""
    return [
        f"{works} workloads; costs in operations per second by recompute; seconds of CPU per plan.",
        "WG_I and W_I take the dearest class first; the thesis leaves the order open.",
        f"{WEFT_STRATEGY} prices a node as reading the stream once (per-node); at the others' price, where "
        "every tree reads it, both bounds cannot always be met together.",
    ]


def render(result: BenchmarkResult) -> Group:
    """The table as printed, and what the thesis has beside it."""
    shown = Table(title="Best of the thesis's thirteen in % of workloads, else % behind, on average")
    for heading in ("strategy", "price", "busiest best", "behind", "total best", "behind", "seconds"):
        shown.add_column(heading, justify="left" if heading in ("strategy", "price") else "right")
    for row in result.rows:
        keys = ("best_max", "max_behind", "best_total", "total_behind")
        cells = [f"{row[key]:.1f}" for key in keys]
        shown.add_row(row["strategy"], row["model"], *cells, f"{row['seconds']:.3f}")
    return Group(shown, beside("Shein 2019, tables 9 and 10", thesis(result.rows)))


def thesis(rows: list[dict[str, Any]]) -> list[tuple[str, object, object]]:
    """The thesis's tables 9 and 10, and ours."""
    words = {
        "best_max": "busiest node the least, % of workloads",
        "max_behind": "else its busiest node behind, %",
        "best_total": "total the least, % of workloads",
        "total_behind": "else its total behind, %",
    }
    lines: list[tuple[str, object, object]] = [
        (f"{row['strategy']}: {words[key]}", said, row[key])
        for row in rows
        for key, said in row["paper"].items()
    ]
    timed = [row for row in rows if row["paper_seconds"]]
    return lines + [(f"{r['strategy']}: seconds per plan", r["paper_seconds"], r["seconds"]) for r in timed]


def draw(result: BenchmarkResult, folder: Path) -> list[Path]:
    """Figure 40, the mean quality of plans, and figure 41, the costs of four nodes."""
    names = [
        r["strategy"] if r["strategy"] != WEFT_STRATEGY else f"{WEFT_STRATEGY}\n{r['model']}"
        for r in result.rows
    ]
    figures = {
        "figure_40_busiest": draw_quality("Figure 40a: busiest node", names, result.rows, "max"),
        "figure_40_total": draw_quality("Figure 40b: total cost", names, result.rows, "total"),
        "figure_41": draw_nodes(names, result.rows),
    }
    return save(figures, folder)


def draw_quality(title: str, names: list[str], rows: list[dict[str, Any]], kind: str) -> Figure:
    """Between the best of the thesis's strategies (0%) and the worst (100%): mean and standard deviation."""
    figure, (place,) = axes(title, "0%: best plan of a workload, 100%: worst", "", width=5.2, height=3.8)
    means, deviations = ([row[f"{kind}_{what}"] for row in rows] for what in ("quality", "deviation"))
    colours = ["C1" if row["strategy"] == WEFT_STRATEGY else "C0" for row in rows]
    place.barh(names, means, xerr=deviations, color=colours, error_kw={"ecolor": "#555555", "capsize": 2})
    place.axvline(0, color="#888888", linewidth=0.8)
    place.invert_yaxis()
    return figure


def draw_nodes(names: list[str], rows: list[dict[str, Any]]) -> Figure:
    """Draw the work of each of four nodes, the busiest first."""
    title = "Figure 41: costs per node in a 4-node system"
    figure, (place,) = axes(title, "", "operations per second", width=7.0, height=3.8)
    nodes = len(rows[0]["node_costs"])
    for node in range(nodes):
        at = np.arange(len(rows)) + (node - (nodes - 1) / 2) * 0.8 / nodes
        place.bar(at, [row["node_costs"][node] for row in rows], 0.8 / nodes, color=f"C{node}")
    place.set_yscale("log")
    place.set_xticks(range(len(rows)), names, rotation=60, ha="right")
    return figure
