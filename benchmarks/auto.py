"""What the automatic choice of technique loses against the best fixed one, on every kind of call.

docs/benchmarks.md says what the figures mean.
"""

from __future__ import annotations

from statistics import mean, median
from typing import Any

from rich.table import Table

from weft.aggregates.monoid import ADD, MAX, MOMENTS, SUM_FLOAT, SUM_INT, Monoid
from weft.bench import Progress, Result, race
from weft.final import TECHNIQUES, fits, technique
from weft.final.workload import Call

PARTS = {
    "count": Monoid(ADD, 1, invertible=True),
    "sum of integers": Monoid(SUM_INT, 2, invertible=True),
    "sum of floats": Monoid(SUM_FLOAT, 2),
    "max": Monoid(MAX, 1, selective=True),
    "last": Monoid(MAX, 3, selective=True),
    "variance": Monoid(MOMENTS, 4),
}
CALLS = [
    Call(groups, window, queries, due)
    for groups, windows in ((1, (1, 8, 64, 512, 4096, 32_768)), (500, (1, 8, 64)))
    for window in windows
    for queries in (1, 4, 16, 64)
    for due in (1, 8, min(max(window, 64), 4096))
    if queries <= window and groups * queries * due <= 1 << 16
]
SHORT = 25.0
"""Microseconds below which a call is too short for a ratio: the choice itself takes one or two, which the
figures give apart, and what the engine does around a call takes hundreds."""
TOO_LONG = 4_000_000
"""Cells of all runs together beyond which recompute is not tried: it would only take time."""


def run(quick: bool, progress: Progress) -> Result:
    """Every call with every technique that fits, in turns."""
    calls = CALLS[::3] if quick else CALLS
    rows: list[dict[str, Any]] = []
    for at, (name, monoid) in enumerate(PARTS.items()):
        for number, call in enumerate(calls):
            progress(
                f"{name}, {call.groups} groups of {call.window} slices",
                at * len(calls) + number,
                len(PARTS) * len(calls),
            )
            rows.append({"part": name, **measure(call, monoid, 0.05 if quick else 0.1)})
    progress("done", 1, 1)
    return Result("auto", rows, figures(rows))


def measure(call: Call, monoid: Monoid, seconds: float) -> dict[str, Any]:
    """Microseconds of each technique and of auto, through the door that the engine uses."""
    states, (low, high) = call.states(monoid), call.runs()
    length = int((high - low).sum())
    names = [n for n in TECHNIQUES if fits(n, monoid) and (n != "recompute" or length <= TOO_LONG)]
    works = {n: lambda n=n: technique(n).answer(monoid, states, low, high) for n in [*names, "auto"]}
    took = race(works, seconds, far=3)
    best = min(names, key=lambda n: took[n])
    return {
        "groups": call.groups,
        "window": call.window,
        "queries": call.queries,
        "due": call.due,
        "cells": call.cells,
        "runs": len(low),
        "length": length,
        "best": best,
        "best_us": took[best] * 1e6,
        "auto_us": took["auto"] * 1e6,
        "auto_over_best": took["auto"] / took[best],
        "us": {n: took[n] * 1e6 for n in took},
    }


def figures(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The few ratios that sum the table up."""
    worth = [row for row in rows if row["best_us"] >= SHORT]
    fixed = [name for name in TECHNIQUES if all(name in row["us"] for row in worth)]
    return {
        "auto_over_best": max(row["auto_over_best"] for row in worth),
        "auto_over_best_mean": mean(row["auto_over_best"] for row in worth),
        "best_fixed_over_best": min(max(row["us"][n] / row["best_us"] for row in worth) for n in fixed),
        "auto_choice_us": median(row["auto_us"] - row["best_us"] for row in rows if row["best_us"] < SHORT),
    }


def render(result: Result) -> Table:
    """The table as printed."""
    shown = Table(title="Answering all runs of a call: the best fixed technique, and auto")
    for heading in ("part", "groups", "slices", "queries", "due", "best", "µs", "auto µs", "auto / best"):
        shown.add_column(heading, justify="left" if heading in ("part", "best") else "right")
    for row in result.rows:
        sizes = (f"{row[n]:,}" for n in ("groups", "window", "queries", "due"))
        times = (f"{row['best_us']:,.1f}", f"{row['auto_us']:,.1f}", f"{row['auto_over_best']:.2f}")
        shown.add_row(row["part"], *sizes, row["best"], *times)
    return shown
