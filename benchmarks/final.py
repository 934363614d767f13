"""Final aggregation: throughput, latency and memory of every technique, and its kernel against plain C.

Settings as in Shein 2019, figures 16-29, and Theodorakis et al., EDBT 2020, figure 3; docs/benchmarks.md says
what the figures mean.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _final.clock import slide_nanoseconds
from _final.memory import peak_memory
from _final.operations import contestants, usual_operation
from _final.oracle import compile_oracles
from _final.ratios import AGAINST_C, ALL_QUERIES, LATENCY, MANY_QUERIES, MEMORY, ONE_QUERY, Rows, figures
from _final.tables import PERCENTILES, render
from _final.throughput import IN_BATCHES, SLIDE_BY_SLIDE, Effort, compare, slides, stream

from weft.cli.bench import BenchmarkResult, Progress, folder
from weft.final import TECHNIQUES

__all__ = ["draw", "render", "run"]

PLOTS = importlib.util.find_spec("matplotlib") is not None

QUERIES, MAX_WINDOW_VALUES = (1, 4, 16, 64), 32768
C_WINDOWS = (4, 64, 1024, 32768)
LATENCY_WINDOW, LATENCY_SLIDES = 1024, 100_000
READINGS = folder().parents[1] / "shared" / "data" / "DEBS2012-small.txt"


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Every part in turn; the answers of all techniques are compared on the way."""
    effort = Effort(tries=2, patience=0.1) if quick else Effort(tries=5, patience=1.5)
    parts = {
        ONE_QUERY: lambda: one_query(range(0, 21, 4) if quick else range(21), effort),
        ALL_QUERIES: lambda: all_queries(range(0, 11, 5) if quick else range(11), effort),
        MANY_QUERIES: lambda: many_queries(effort),
        AGAINST_C: lambda: against_c(replace(effort, tries=3 * effort.tries)),
        LATENCY: lambda: latency(12 if quick else 40),
        MEMORY: lambda: memory(64 if quick else 4096),
    }
    rows: Rows = []
    for at, (name, measure) in enumerate(parts.items()):
        progress(name, at, len(parts))
        rows += measure()
    progress("done", len(parts), len(parts))
    return BenchmarkResult("final", rows, figures(rows), notes(rows))


def one_query(exponents: Iterable[int], effort: Effort) -> Rows:
    """Million slides per second for one window of 2^0 to 2^20 values (figures 16, 23 and 24)."""
    return sweep(ONE_QUERY, {2**e: [2**e] for e in exponents}, ("sum", "max"), effort)


def all_queries(exponents: Iterable[int], effort: Effort) -> Rows:
    """The same for all windows of 1 to n values at once (figures 17, 25 and 26)."""
    return sweep(ALL_QUERIES, {2**e: list(range(1, 2**e + 1)) for e in exponents}, ("sum", "max"), effort)


def many_queries(effort: Effort) -> Rows:
    """The same for 1 to 64 windows of up to 32,768 values (SlideSide's figures 3a and 3b)."""
    windows = {q: np.random.default_rng(q).integers(1, MAX_WINDOW_VALUES + 1, q).tolist() for q in QUERIES}
    return sweep(MANY_QUERIES, windows, ("sum", "min"), effort, left_out=("recompute",))


def sweep(
    part: str,
    points: dict[int, list[int]],
    operations: tuple[str, ...],
    effort: Effort,
    left_out: tuple[str, ...] = (),
) -> Rows:
    """A row per operation, mode and point, with the rate of each technique at the point's windows."""
    values = stream()
    rows = []
    for operation in operations:
        contest = slides(operation, (n for n in contestants(operation) if n not in left_out))
        for mode in (IN_BATCHES, SLIDE_BY_SLIDE):
            # What drops out of the contest at one point, for being too slow, stays out.
            rates = dict.fromkeys(contest, 10.0)
            for point, windows in points.items():
                running = {name: contest[name] for name in rates}
                rates = compare(running, values, windows, mode, effort, rates)
                rows.append({"part": part, "operation": operation, "mode": mode, "n": point, **rates})
    return rows


def against_c(effort: Effort) -> Rows:
    """The time of each kernel over that of the same algorithm in C; no rows without a compiler."""
    values = stream(1 << 19)
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for operation in ("sum", "max"):
            plain = compile_oracles(operation, Path(place))
            kernels = slides(operation, plain)
            rates = {name: {"kernel": 10.0, "C": 10.0} for name in plain}
            for window in C_WINDOWS if plain else ():
                row: dict[str, Any] = {"part": AGAINST_C, "operation": operation, "n": window}
                for name in plain:
                    both = {"kernel": kernels[name], "C": plain[name]}
                    rates[name] = compare(both, values, [window], IN_BATCHES, effort, rates[name])
                    row[name] = rates[name]["C"] / rates[name]["kernel"]
                rows.append(row)
    return rows


def latency(tries: int) -> Rows:
    """Nanoseconds per slide over the DEBS 2012 readings (figures 27 and 28); no rows without them."""
    if not READINGS.exists():
        return []
    readings = np.loadtxt(READINGS, usecols=2, dtype=np.int64, delimiter="\t")
    values = np.resize(readings, LATENCY_SLIDES)
    rows = []
    for name in TECHNIQUES:
        operation = usual_operation(name)
        spent = slide_nanoseconds(name, operation, values, LATENCY_WINDOW, tries)
        row: dict[str, Any] = {"part": LATENCY, "technique": name, "operation": operation}
        row |= {key: float(np.percentile(spent, percent)) for key, percent in PERCENTILES.items()}
        # Three windows' worth of slides, the longest of every eight: enough to see all spikes.
        row["trace"] = spent[: 3 * LATENCY_WINDOW].reshape(-1, 8).max(axis=1).round(1).tolist()
        rows.append(row)
    return rows


def memory(widest: int) -> Rows:
    """Partials kept at most, by window, powers of two and others (figures 19 and 29)."""
    values = stream(1 << 14)
    windows = sorted({scale * 2**e for e in range(13) for scale in (1, 3)})
    return [
        {"part": MEMORY, "n": n, **{name: peak_memory(name, n, values[: 2 * n + 2]) for name in TECHNIQUES}}
        for n in windows
        if n <= widest
    ]


def draw(result: BenchmarkResult, folder: Path) -> list[Path]:
    """Write the plots, where matplotlib is installed; the files."""
    if not PLOTS:
        return []
    from _final.plots import draw_parts

    return draw_parts(result.rows, folder)


def notes(rows: Rows) -> list[str]:
    """Return notes on what is measured, and what was not."""
    lines = [
        "batch: answers written in blocks of about 1000 slides; slide by slide: each before the next value.",
        "Latency: the time between two answers, by the cycle counter; mean of the middle half of tries.",
    ]
    parts = {row["part"] for row in rows}
    if AGAINST_C not in parts:
        lines.append("Without gcc no kernel was held against C.")
    if LATENCY not in parts:
        lines.append("Without the DEBS 2012 readings in ../shared/data no latency was measured.")
    if not PLOTS:
        lines.append("Without matplotlib there are no plots.")
    return lines
