"""The loss of the automatic choice of technique against the best fixed one, on every kind of call.

docs/benchmarks.md says what the figures mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from itertools import product
from statistics import mean, median
from typing import Any

from _timing import fewest, race
from rich.table import Table

from lab.final.workload import Call
from weft.aggregates.monoid import ADD, MAX, MOMENTS, SUM_FLOAT, SUM_INT, Monoid
from weft.cli.bench import BenchmarkResult, Progress
from weft.final import TECHNIQUES, fits, technique

PARTS = {
    "count": Monoid(ADD, 1, invertible=True),
    "sum of integers": Monoid(SUM_INT, 2, invertible=True),
    "sum of floats": Monoid(SUM_FLOAT, 2),
    "max": Monoid(MAX, 1, selective=True),
    "last": Monoid(MAX, 3, selective=True),
    "variance": Monoid(MOMENTS, 4),
}
WIDE_STATES = ("last",)
"""States of several words in lexicographic order, which have a figure of their own."""
CALLS = [
    Call(groups, window, queries, due)
    for groups, windows in ((1, (1, 8, 64, 512, 4096, 32_768)), (500, (1, 8, 64)))
    for window in windows
    for queries in (1, 4, 16, 64)
    for due in (1, 8, min(max(window, 64), 4096))
    if queries <= window and groups * queries * due <= 1 << 16
]
MIN_CALL_MICROSECONDS = 25.0
"""A shorter call has no ratio: the choice itself takes one or two, which the
figures give apart, and what the engine does around a call takes hundreds."""
MAX_RECOMPUTED_CELLS = 4_000_000
"""Cells of all runs together beyond which recompute is not tried: it would only take time."""


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Every call with every technique that fits, in turns, and all of that in rounds."""
    work = list(product(PARTS, CALLS[::3] if quick else CALLS))
    rounds = 2 if quick else 4
    races: list[list[dict[str, float]]] = [[] for _ in work]
    for turn in range(rounds):
        for at, (part, call) in enumerate(work):
            text = f"{part}, {call.groups} groups, windows of {call.window} slices"
            progress(text, turn * len(work) + at, rounds * len(work))
            races[at].append(race(works(PARTS[part], call), 0.03, far=3))
    progress("done", len(work), len(work))
    rows = [{"part": part, **row(call, fewest(took))} for (part, call), took in zip(work, races)]
    return BenchmarkResult("auto", rows, figures(rows))


def works(monoid: Monoid, call: Call) -> dict[str, Callable[[], Any]]:
    """Every technique that fits, and auto, called as the engine calls it."""
    states, (low, high) = call.states(monoid), call.runs()
    length = call.numbers[2]
    names = [
        n for n in TECHNIQUES if fits(n, monoid) and (n != "recompute" or length <= MAX_RECOMPUTED_CELLS)
    ]
    return {n: lambda n=n: technique(n).answer(monoid, states, low, high) for n in [*names, "auto"]}


def row(call: Call, took: dict[str, float]) -> dict[str, Any]:
    """A call, and the microseconds of each technique."""
    us = {name: round(seconds * 1e6, 1) for name, seconds in took.items()}
    auto = us.pop("auto")
    best = min(us, key=lambda name: us[name])
    numbers = dict(zip(("cells", "runs", "length"), call.numbers))
    times = {"best": best, "best_us": us[best], "auto_us": auto, "auto_over_best": auto / us[best]}
    return {**asdict(call), **numbers, **times, "us": us}


def figures(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The few ratios that sum the table up."""
    long = [row for row in rows if row["best_us"] >= MIN_CALL_MICROSECONDS]
    narrow = [row for row in long if row["part"] not in WIDE_STATES]
    return {
        "auto_over_best": max(row["auto_over_best"] for row in narrow),
        "auto_over_best_mean": mean(row["auto_over_best"] for row in narrow),
        "auto_over_best_wide": max(row["auto_over_best"] for row in long if row["part"] in WIDE_STATES),
        "recompute_over_best": max(
            row["us"]["recompute"] / row["best_us"] for row in narrow if "recompute" in row["us"]
        ),
        "bulk_over_best": max(row["us"]["bulk"] / row["best_us"] for row in narrow),
        "auto_choice_us": median(
            row["auto_us"] - row["best_us"] for row in rows if row["best_us"] < MIN_CALL_MICROSECONDS
        ),
    }


def render(result: BenchmarkResult) -> Table:
    """The table as printed."""
    shown = Table(title="Answering all runs of a call: the best fixed technique, and auto")
    for heading in ("part", "groups", "slices", "queries", "due", "best", "µs", "auto µs", "auto / best"):
        shown.add_column(heading, justify="left" if heading in ("part", "best") else "right")
    for row in result.rows:
        sizes = (f"{row[n]:,}" for n in ("groups", "window", "queries", "due"))
        times = (f"{row['best_us']:,.1f}", f"{row['auto_us']:,.1f}", f"{row['auto_over_best']:.2f}")
        shown.add_row(row["part"], *sizes, row["best"], *times)
    return shown
