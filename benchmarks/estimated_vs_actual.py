"""Estimated against actual: what plans should cost by the model, and what they cost when run in-process.

Workloads as in Shein 2019, section 7.3, figures 47 and 48; docs/benchmarks.md says what the figures mean.
"""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.table import Table

import weft
from lab.planning.workload import Workload
from weft.cli.bench import BenchmarkResult, Progress
from weft.local.running import LocalRun
from weft.model.expression import Column
from weft.model.query import Aggregate
from weft.planning.cost import constants
from weft.planning.plan import Plan

STRATEGIES = ("share-all", "weave-share", "triweave", "no-share")
PAPER = {"weave-share": 0.31, "triweave": 0.14}
"""Shein 2019, section 7.3: by how much estimated and actual throughput differ on the mean."""
SUM = Aggregate("sum", (Column("x"),), "s")
GROUPS = 10
TRIES = 4


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Plan each workload by each strategy, and run the plan."""
    works = [
        Workload(queries, longest, overlap, rate, seed=number)
        for number, (queries, longest, overlap, rate) in enumerate(
            product((50, 250), (25, 50), (10, 100), (50.0, 200.0))
        )
    ]
    works = works[::4] if quick else works
    rows: list[dict[str, Any]] = []
    for at, (work, strategy) in enumerate(product(works, STRATEGIES)):
        progress(f"{work.queries} queries at {work.rate:g}/s, {strategy}", at, len(works) * len(STRATEGIES))
        rows.append(measure(work, strategy, 5_000 if quick else 20_000))
    progress("done", len(rows), len(rows))
    notes = [
        "Nanoseconds of one core per second of stream. Actual: CPU time of a stream less that of its first "
        "tenth, over the seconds between, the fewest of several tries; planning and starting are not in it."
    ]
    return BenchmarkResult("estimated-vs-actual", rows, figures(rows), notes)


def measure(work: Workload, strategy: str, seconds: int) -> dict[str, Any]:
    """Return the estimated and the actual cost of a plan per second of stream."""
    queries = [replace(query, aggregates=(SUM,), group_by=("k",)) for query in work.as_queries()]
    plan = weft.plan(
        queries,
        rate=work.rate,
        strategy=strategy,
        model="composite",
        technique="bulk",
        constants=constants(),
        groups=GROUPS,
    )
    whole = stream(int(seconds * work.rate), work.rate)
    few = whole.num_rows // 10
    spent: dict[int, list[float]] = {few: [], whole.num_rows: []}
    for _, (size, took) in product(range(TRIES), spent.items()):
        took.append(cpu(plan, whole.slice(0, size)))
    between = min(spent[whole.num_rows]) - min(spent[few])
    return {
        "queries": work.queries,
        "longest": work.longest,
        "overlap": work.overlap,
        "rate": work.rate,
        "strategy": strategy,
        "trees": len(plan.trees),
        "estimated": plan.cost,
        "actual": between / (0.9 * seconds) * 1e9,
    }


def stream(count: int, rate: float) -> pa.Table:
    """So many rows, evenly spaced, each group in turn."""
    times = (np.arange(count) * (1e6 / rate)).astype(np.int64)
    names = pa.array([f"group {n}" for n in range(GROUPS)])
    return pa.table(
        {
            "ts": pa.array(times).cast(pa.timestamp("us")),
            "k": names.take(pa.array(np.arange(count) % GROUPS)),
            "x": np.random.default_rng(1).random(count),
        }
    )


def cpu(plan: Plan, rows: pa.Table) -> float:
    """Seconds of CPU to answer the plan's queries over the rows, as one batch in one thread."""
    running = LocalRun(plan, rows.schema, "ts", threads=1)
    gc.collect()
    start = time.process_time()
    running.step(rows)
    running.close()
    spent = time.process_time() - start
    running.shutdown()
    return spent


def figures(rows: list[dict[str, Any]]) -> dict[str, float]:
    """By how much the estimate is wrong on the mean, and whether it orders the strategies rightly."""

    def error(some: list[dict[str, Any]]) -> float:
        return float(np.mean([abs(row["estimated"] / row["actual"] - 1) for row in some]))

    by = {s: error([row for row in rows if row["strategy"] == s]) for s in STRATEGIES}
    works: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        works.setdefault(tuple(row[k] for k in ("queries", "longest", "overlap", "rate")), []).append(row)
    lost = [
        min(some, key=lambda row: row["estimated"])["actual"] / min(row["actual"] for row in some)
        for some in works.values()
    ]
    return {
        "error_mean": error(rows),
        **{f"error_{s.replace('-', '_')}": by[s] for s in STRATEGIES},
        "cheapest_by_estimate_over_cheapest_mean": float(np.mean(lost)),
    }


def render(result: BenchmarkResult) -> Table:
    """The table as printed."""
    shown = Table(
        title="Nanoseconds per second of stream", caption="Thesis: 31% off for Weave Share, 14% for TriWeave"
    )
    for heading in (
        "queries",
        "longest",
        "overlap",
        "rate",
        "strategy",
        "trees",
        "estimated",
        "actual",
        "ratio",
    ):
        shown.add_column(heading, justify="left" if heading == "strategy" else "right")
    for row in result.rows:
        facts = [f"{row[k]:g}" for k in ("queries", "longest", "overlap", "rate")]
        costs = [f"{row[k]:,.0f}" for k in ("estimated", "actual")]
        ratio = f"{row['estimated'] / row['actual']:.2f}"
        shown.add_row(*facts, row["strategy"], str(row["trees"]), *costs, ratio)
    return shown


def draw(result: BenchmarkResult, folder: Path) -> list[Path]:
    """Estimated over actual, a mark for each plan (figures 47 and 48)."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "weft", "font.size": 9}):
        figure = Figure(figsize=(5.2, 4.2), layout="constrained")
        side = figure.subplots()
        for strategy, mark in zip(STRATEGIES, "os^x"):
            some = [row for row in result.rows if row["strategy"] == strategy]
            side.plot([r["actual"] for r in some], [r["estimated"] for r in some], mark, label=strategy)
        ends = [f([r[k] for r in result.rows for k in ("actual", "estimated")]) for f in (min, max)]
        side.plot(ends, ends, color="#999", linewidth=0.8)
        side.set(xscale="log", yscale="log", xlabel="actual ns/s", ylabel="estimated ns/s")
        side.legend(frameon=False)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "estimated_vs_actual.svg"
        figure.savefig(file, metadata={"Date": None})
    return [file]
