"""Counting edges in Weave Share: bit set, F1, F1+Opt and merged F1 over five sweeps (Shein 2019, table 5).

docs/benchmarks.md says what the figures mean.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from rich.table import Table

from weft.bench import Progress, Result
from weft.optimize.counted import weave_counted
from weft.optimize.planner import make_price
from weft.optimize.problem import Problem
from weft.optimize.weaving import weave_classes
from weft.optimize.workload import Workload
from weft.slicing import Progression
from weft.slicing.count import COUNTERS, Unaffordable

NORMAL = Workload(queries=1000, longest=1000, overlap=10)
SWEEPS: dict[str, tuple[Workload, str, tuple[float, ...]]] = {
    "queries": (
        replace(NORMAL, rate=0.002, skew=0.5),
        "queries",
        (100, 550, 1000, 10_000, 100_000, 1_000_000),
    ),
    "longest": (
        Workload(1000, 100, 100, rate=1.0, skew=3.0, kind="diverse"),
        "longest",
        (100, 300, 800, 2000, 10_000),
    ),
    "rate": (
        Workload(1000, 100, 1000, skew=1.0),
        "rate",
        (100.0, 400.0, 900.0, 10_000.0, 100_000.0, 1_000_000.0),
    ),
    "skew": (Workload(50, 500, 100, rate=0.1), "skew", (0.0, 1.0, 2.25, 5.0, 20.0, 100.0)),
    "overlap": (
        Workload(1000, 600, 100, rate=1.0, skew=3.0, kind="diverse"),
        "overlap",
        (100, 70, 40, 10, 1),
    ),
}
PAPER = {
    "queries": {"bitset_stops": 550, "mean": 350, "max": 790},
    "longest": {"bitset_stops": 800, "mean": 2200, "max": 10_000},
    "rate": {"bitset_stops": 900, "mean": 3800, "max": 16_000},
    "skew": {"bitset_stops": 2.25, "mean": 14_000, "max": 60_000},
    "overlap": {"bitset_stops": 40, "mean": 5600, "max": 16_000},
}
"""Shein 2019, table 6: where its bit set ran out of memory, and bit set time over F1 time."""


def run(quick: bool, progress: Progress) -> Result:
    """Weave every point of every sweep with every counter, each within a limit of seconds."""
    limit = 1.0 if quick else 60.0
    sweeps = {
        name: (work, key, values[::2] if quick else values) for name, (work, key, values) in SWEEPS.items()
    }
    points = [(name, work, key, v) for name, (work, key, values) in sweeps.items() for v in values]
    rows = []
    warm_up()
    for at, (name, work, key, value) in enumerate(points):
        progress(f"{name} = {value:g}", at, len(points))
        rows.append(measure(name, replace(work, **{key: value}), value, limit))
    progress("one tree of primes", len(points), len(points))
    rows += [count_primes(n, limit) for n in (5, 10, 13, 15)]
    progress("done", len(points), len(points))
    remark = (
        f"Each counter had {limit:g} s of CPU per point. Rows 'primes' count the edges of one tree, once."
    )
    return Result("f1", rows, figures(rows), [remark])


def warm_up() -> None:
    """Compile every kernel before anything is timed."""
    problem = made(Workload(10, 12, 4))
    weave_classes(problem)
    for counter in COUNTERS:
        weave_counted(problem, counter, True, True, True)


def made(work: Workload) -> Problem:
    """The problem of a workload."""
    windows = work.windows()
    return Problem.of(windows, make_price(windows, "pairs", work.rate, "separate"), "recompute")


def measure(name: str, work: Workload, value: float, limit: float) -> dict[str, Any]:
    """Seconds of CPU per counter; none where it gave up, and then why."""
    problem = made(work)
    row: dict[str, Any] = {"sweep": name, "value": value, "classes": len(problem), "gave_up": {}}
    for counter in COUNTERS:
        start = time.process_time()
        try:
            weave_counted(problem, counter, True, True, True, limit)
            row[counter] = time.process_time() - start
        except Unaffordable as error:
            row[counter] = None
            row["gave_up"][counter] = "time" if "took more than" in str(error) else "size"
    start = time.process_time()
    row["trees"] = len(set(weave_classes(problem).tolist()))
    row["table"] = time.process_time() - start
    return row


def count_primes(n: int, limit: float) -> dict[str, Any]:
    """Seconds to count the edges of one tree whose slides are the first n primes.

    Fifteen is as many as have a period that fits a machine word.
    """
    primes = [p for p in range(2, 200) if all(p % d for d in range(2, p))][:n]
    edges = [Progression(p, 0) for p in primes]
    row: dict[str, Any] = {
        "sweep": "primes",
        "value": n,
        "classes": n,
        "trees": 1,
        "gave_up": {},
        "table": None,
    }
    answers = set()
    for counter, count in COUNTERS.items():
        start = time.process_time()
        try:
            answers.add(count(edges))
            row[counter] = time.process_time() - start
        except Unaffordable:
            row[counter] = None
            row["gave_up"][counter] = "size"
    if len(answers) != 1:
        raise AssertionError(f"the counters disagree on {n} primes: {answers}")
    return row


def figures(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Ratios where both sides of them finished."""

    def ratios(slow: str, fast: str, *sweeps: str) -> list[float]:
        return [r[slow] / r[fast] for r in rows if r["sweep"] in sweeps and r[slow] and r[fast]] or [
            float("nan")
        ]

    every = tuple(SWEEPS)
    return {
        "bitset_over_f1_max": max(ratios("bitset", "f1", *every)),
        "bitset_over_merged_f1_max": max(ratios("bitset", "merged-f1", *every)),
        "f1_over_f1_opt_mean": float(np.mean(ratios("f1", "f1-opt", *every))),
        "f1_over_merged_f1_diverse_mean": float(np.mean(ratios("f1", "merged-f1", "longest", "overlap"))),
        "f1_over_merged_f1_diverse_max": max(ratios("f1", "merged-f1", "longest", "overlap")),
        "f1_over_merged_f1_primes_max": max(ratios("f1", "merged-f1", "primes")),
        "points_finished_bitset": float(np.mean([r["bitset"] is not None for r in rows])),
        "points_finished_f1": float(np.mean([r["f1"] is not None for r in rows])),
        "points_finished_merged_f1": float(np.mean([r["merged-f1"] is not None for r in rows])),
    }


def render(result: Result) -> Table:
    """The table as printed; where a counter gave up, whether for the size of its work or for time."""
    shown = Table(
        title="CPU seconds to weave (where a counter gave up: why); thesis: where its bit set stopped"
    )
    for heading in ("sweep", "value", "classes", "trees", *COUNTERS, "table", "thesis"):
        shown.add_column(heading, justify="left" if heading == "sweep" else "right")
    for row in result.rows:
        times = [f"{row[c]:.3f}" if row[c] is not None else f"({row['gave_up'][c]})" for c in (*COUNTERS,)]
        paper = PAPER.get(row["sweep"])
        cells = [row["sweep"], f"{row['value']:g}", str(row["classes"]), str(row["trees"]), *times]
        shown.add_row(
            *cells,
            "" if row["table"] is None else f"{row['table']:.3f}",
            f"{paper['bitset_stops']:g}" if paper else "",
        )
    return shown
