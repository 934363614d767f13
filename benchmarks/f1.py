"""Counting edges in Weave Share: bit set, F1, F1+Opt and merged F1 over five sweeps (Shein 2019, table 5).

docs/benchmarks.md says what the figures mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _papers import beside
from _plots import MARKERS, axes, legend, save, spread
from rich.console import Group
from rich.table import Table

from lab.planning.workload import Workload
from weft.cli.bench import BenchmarkResult, Progress
from weft.planning.counted import CountedEdges, EdgeSets, find_sets, weave_sets
from weft.planning.planner import make_price
from weft.planning.problem import Problem
from weft.planning.weaving import weave_classes
from weft.slicing import Progression
from weft.slicing.count import COUNTERS, Unaffordable, bitset

BASE_WORKLOAD = Workload(queries=1000, longest=1000, overlap=10)
SWEEPS: dict[str, tuple[Workload, str, tuple[float, ...]]] = {
    "queries": (
        replace(BASE_WORKLOAD, rate=0.002, skew=0.5),
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
    "queries": {"figure": 35, "bitset_stops": 550, "mean": 350.0, "max": 790.0, "opt": 28.0},
    "longest": {"figure": 36, "bitset_stops": 800, "mean": 2200.0, "max": 10_000.0, "opt": 18.0},
    "rate": {"figure": 37, "bitset_stops": 900, "mean": 3800.0, "max": 16_000.0, "opt": 19.0},
    "skew": {"figure": 38, "bitset_stops": 2.25, "mean": 14_000.0, "max": 60_000.0, "opt": 18.0},
    "overlap": {"figure": 39, "bitset_stops": 40, "mean": 5600.0, "max": 16_000.0, "opt": 26.0},
}
"""Shein 2019, table 6: where its bit set ran out of memory, bit set time over F1 time, F1+Opt's gain in %."""
THEIR_MEMORY = 8 * 96 << 30
"""Bits in the 96 GB of the thesis's machine."""
TREES = {100.0: 71, 400.0: 29, 900.0: 15, 10_000.0: 4, 100_000.0: 1, 1_000_000.0: 1}
"""Shein 2019, section 5.4.2.3: trees by rate."""
DIVERSE_SWEEPS = ("longest", "overlap")
NAMES = {
    "bitset": "bit set",
    "f1": "F1",
    "f1-opt": "F1+Opt",
    "merged-f1": "merged F1",
    "table": "common table",
}
NOTES = [
    "The bit set may mark periods of up to {longest:,} bits (the thesis's machine held 825 billion), a "
    "segment at a time and many bits at once; F1 on few slides takes no longer than Python needs to call "
    "it. Both make the ratio smaller than the thesis's.",
    "Where it gave up, the time it had taken by then, over F1's, is a lower bound of the ratio.",
    "Counting: the time inside the counter alone, over the sets that Weave Share asks for.",
    "Rows 'primes' count the edges of one tree, once.",
]


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Weave every point of every sweep with every counter, each within a limit of seconds."""
    limit, longest = (1.0, 1 << 32) if quick else (60.0, THEIR_MEMORY)
    sweeps = {
        name: (work, key, values[::2] if quick else values) for name, (work, key, values) in SWEEPS.items()
    }
    points = [(name, work, key, v) for name, (work, key, values) in sweeps.items() for v in values]
    rows = []
    warm_up()
    for at, (name, work, key, value) in enumerate(points):
        progress(f"{name} = {value:g}", at, len(points))
        rows.append(measure(name, replace(work, **{key: value}), value, limit, longest))
    progress("one tree of primes", len(points), len(points))
    rows += [count_primes(n, longest) for n in (5, 10, 13, 15)]
    progress("done", len(points), len(points))
    notes = [f"Each counter had {limit:g} s of CPU per point.", *NOTES]
    return BenchmarkResult("f1", rows, figures(rows), [note.format(longest=longest) for note in notes])


def warm_up() -> None:
    """Compile every kernel, and make F1+Opt's tables of gcds, before anything is timed."""
    for size in range(2, 13):
        COUNTERS["f1-opt"]([Progression((1 << size) - 1, 0), Progression(1 << size - 1, 0)])
    problem = problem_of(Workload(10, 12, 4))
    weave_classes(problem)
    for counter in COUNTERS:
        weave_sets(problem, find_sets(problem, counter))


def problem_of(work: Workload) -> Problem:
    """The problem of a workload."""
    windows = work.windows()
    return Problem.of(windows, make_price(windows, "pairs", work.rate, "separate"), "recompute")


class Timed:
    """Edges kept as by other sets, and the seconds spent on them."""

    def __init__(self, sets: EdgeSets) -> None:
        self.seconds = 0.0
        for name in ("of_class", "rate", "rate_of_union", "union"):
            setattr(self, name, partial(self._call, getattr(sets, name)))

    def _call(self, work: Callable[..., Any], *edges: Any) -> Any:
        start = time.perf_counter()
        try:
            return work(*edges)
        finally:
            self.seconds += time.perf_counter() - start


def measure(name: str, work: Workload, value: float, limit: float, longest: int) -> dict[str, Any]:
    """Seconds per counter, of weaving and of counting alone; none where it gave up, and then why and when."""
    problem = problem_of(work)
    row: dict[str, Any] = {"sweep": name, "value": value, "classes": len(problem)}
    row |= {"gave_up": {}, "spent": {}, "counting": {}}
    for counter in COUNTERS:
        sets = find_sets(problem, counter)
        if counter == "bitset":
            sets = CountedEdges(problem, partial(bitset, max_bits=longest))
        timed = Timed(sets)
        start = time.process_time()
        try:
            weave_sets(problem, timed, seconds=limit)  # type: ignore[arg-type]
            row[counter] = time.process_time() - start
            row["counting"][counter] = timed.seconds
        except Unaffordable as error:
            row[counter] = row["counting"][counter] = None
            row["gave_up"][counter] = "time" if "took more than" in str(error) else "size"
        row["spent"][counter] = time.process_time() - start
    start = time.process_time()
    row["trees"] = len(set(weave_classes(problem).tolist()))
    row["table"] = time.process_time() - start
    return row


def count_primes(n: int, longest: int) -> dict[str, Any]:
    """Seconds to count the edges of one tree whose slides are the first n primes.

    Fifteen is as many as have a period that fits a machine word.
    """
    primes = [p for p in range(2, 200) if all(p % d for d in range(2, p))][:n]
    edges = [Progression(p, 0) for p in primes]
    row: dict[str, Any] = {"sweep": "primes", "value": n, "classes": n, "trees": 1, "table": None}
    row |= {"gave_up": {}, "spent": {}, "counting": {}}
    answers = set()
    for counter, count in (COUNTERS | {"bitset": partial(bitset, max_bits=longest)}).items():
        start = time.perf_counter()
        try:
            answers.add(count(edges))
            row[counter] = row["counting"][counter] = time.perf_counter() - start
        except Unaffordable:
            row[counter] = row["counting"][counter] = None
            row["gave_up"][counter] = "size"
        row["spent"][counter] = time.perf_counter() - start
    if len(answers) != 1:
        raise AssertionError(f"the counters disagree on {n} primes: {answers}")
    return row


def ratios(rows: list[dict[str, Any]], slow: str, fast: str, *sweeps: str, kind: str = "") -> list[float]:
    """Time of one counter over another's at the points of sweeps: where both finished, of ``kind`` counting
    or of weaving; or at least, from what the slow one had spent when it gave up."""
    values = []
    for row in rows:
        slower, faster = (row["counting"] if kind == "counting" else row).get(slow), row[fast]
        if kind == "counting":
            faster = row["counting"][fast]
        if kind == "at least":
            slower = row["spent"][slow]
        if row["sweep"] in sweeps and slower and faster:
            values.append(slower / faster)
    return values or [float("nan")]


def figures(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The few ratios that sum the table up."""
    every = tuple(SWEEPS)
    counted = ratios(rows, "f1", "merged-f1", *DIVERSE_SWEEPS, kind="counting")
    counting = [
        r["counting"]
        for r in rows
        if r["sweep"] in DIVERSE_SWEEPS and r["f1"] is not None and r["merged-f1"] is not None
    ]
    return {
        "bitset_over_f1_max": max(ratios(rows, "bitset", "f1", *every)),
        "bitset_over_f1_at_least_max": max(ratios(rows, "bitset", "f1", *every, kind="at least")),
        "bitset_over_f1_counting_max": max(ratios(rows, "bitset", "f1", *every, "primes", kind="counting")),
        "bitset_over_merged_f1_max": max(ratios(rows, "bitset", "merged-f1", *every)),
        "bitset_over_merged_f1_at_least_max": max(
            ratios(rows, "bitset", "merged-f1", *every, kind="at least")
        ),
        "f1_over_f1_opt_mean": float(np.mean(ratios(rows, "f1", "f1-opt", *every))),
        "f1_over_merged_f1_diverse_mean": float(np.mean(ratios(rows, "f1", "merged-f1", *DIVERSE_SWEEPS))),
        "f1_over_merged_f1_diverse_max": max(ratios(rows, "f1", "merged-f1", *DIVERSE_SWEEPS)),
        "f1_over_merged_f1_counting_mean": float(np.mean(counted)),
        "f1_over_merged_f1_counting_max": max(counted),
        "f1_over_merged_f1_counting_sum": sum(c["f1"] for c in counting)
        / (sum(c["merged-f1"] for c in counting) or 1),
        "f1_over_merged_f1_primes_max": max(ratios(rows, "f1", "merged-f1", "primes")),
        "points_finished_bitset": float(np.mean([r["bitset"] is not None for r in rows])),
        "points_finished_f1": float(np.mean([r["f1"] is not None for r in rows])),
        "points_finished_merged_f1": float(np.mean([r["merged-f1"] is not None for r in rows])),
    }


def render(result: BenchmarkResult) -> Group:
    """The table as printed, and what the thesis has beside it."""
    shown = Table(title="CPU seconds to weave; where a counter gave up: why, after how long")
    for heading in ("sweep", "value", "classes", "trees", *COUNTERS, "table"):
        shown.add_column(heading, justify="left" if heading == "sweep" else "right")
    for row in result.rows:
        times = [
            f"{row[c]:.3f}" if row[c] is not None else f"({row['gave_up'][c]} {row['spent'][c]:.0f})"
            for c in COUNTERS
        ]
        cells = [row["sweep"], f"{row['value']:g}", str(row["classes"]), str(row["trees"]), *times]
        shown.add_row(*cells, "" if row["table"] is None else f"{row['table']:.3f}")
    return Group(shown, beside("Shein 2019, table 6", thesis(result.rows)))


def thesis(rows: list[dict[str, Any]]) -> list[tuple[str, object, object]]:
    """The lines of the thesis's table 6, and ours."""
    lines: list[tuple[str, object, object]] = []
    for sweep, paper in PAPER.items():
        points = [row for row in rows if row["sweep"] == sweep]
        stops = next((f"{row['value']:g}" for row in points if row["bitset"] is None), "never")
        times = ratios(rows, "bitset", "f1", sweep)
        least = max(ratios(rows, "bitset", "f1", sweep, kind="at least"))
        gain = 100 * (float(np.mean(ratios(rows, "f1", "f1-opt", sweep))) - 1)
        lines += [
            (f"{sweep}: bit set stops at", f"{paper['bitset_stops']:g}", stops),
            (f"{sweep}: bit set / F1, mean where both finish", paper["mean"], float(np.mean(times))),
            (f"{sweep}: bit set / F1, largest", paper["max"], max(times)),
            (f"{sweep}: bit set / F1, largest lower bound (its time until it gave up)", "", least),
            (f"{sweep}: F1+Opt faster than F1, %", paper["opt"], gain),
        ]
    by_rate = [row for row in rows if row["sweep"] == "rate" and row["value"] in TREES]
    lines += [(f"rate {row['value']:g}: trees", TREES[row["value"]], row["trees"]) for row in by_rate]
    return lines


def draw(result: BenchmarkResult, folder: Path) -> list[Path]:
    """One plot per sweep, as figures 35-39: seconds by counter, and where the thesis's bit set stopped."""
    figures = {}
    for sweep in dict.fromkeys(row["sweep"] for row in result.rows):
        rows = sorted((r for r in result.rows if r["sweep"] == sweep), key=lambda row: row["value"])
        paper = PAPER.get(sweep)
        title = f"Figure {paper['figure']:g}: {sweep}" if paper else "One tree of the first primes"
        figure, (place,) = axes(title, sweep, "CPU seconds to weave" if paper else "seconds to count")
        place.set_yscale("log")
        spread(place, [row["value"] for row in rows])
        for number, (counter, name) in enumerate(NAMES.items()):
            draw_counter(place, rows, counter, name, number)
        # Room for the crosses.
        place.set_ylim(top=10 * place.get_ylim()[1])
        if paper:
            place.axvline(paper["bitset_stops"], color="#888888", linestyle=":", label="thesis: bit set ends")
        legend(figure, place)
        figures[sweep] = figure
    return save(figures, folder)


def draw_counter(place: Any, rows: list[dict[str, Any]], counter: str, name: str, number: int) -> None:
    """Draw a counter's seconds where it finished; where it gave up, a cross at the top."""
    done = [(row["value"], max(row[counter], 1e-6)) for row in rows if row[counter] is not None]
    ended = [row["value"] for row in rows if counter in row["gave_up"]]
    if done:
        place.plot(*zip(*done), marker=MARKERS[number], markersize=4, label=name, color=f"C{number}")
    if ended:
        look = {"transform": place.get_xaxis_transform(), "color": f"C{number}"}
        heights = [0.97 - 0.05 * number] * len(ended)
        place.scatter(ended, heights, marker="x", s=22, linewidths=1.6, label=f"{name} gave up", **look)
