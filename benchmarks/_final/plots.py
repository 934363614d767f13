"""The benchmark's plots, in the shape of the papers' figures: SVG, the same for the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from _final.ratios import AGAINST_C, ALL_QUERIES, LATENCY, MANY_QUERIES, MEMORY, ONE_QUERY, RATIOS, Rows
from _final.throughput import IN_BATCHES, SLIDE_BY_SLIDE
from weft.final import TECHNIQUES

STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "weft",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
}
LOOKS = {
    "recompute": ("#7f7f7f", "x"),
    "soe": ("#17becf", "o"),
    "flatfat": ("#8c564b", "s"),
    "bint": ("#bcbd22", "P"),
    "twostacks": ("#ff7f0e", "^"),
    "daba": ("#2ca02c", "D"),
    "daba_lite": ("#7fc97f", "d"),
    "flatfit": ("#9467bd", "*"),
    "slickdeque": ("#1f77b4", "v"),
    "slideside": ("#d62728", "X"),
    "bulk": ("#000000", "h"),
}
"""Colour and mark by technique; both variants of one look alike."""
SPIKES = ("flatfit", "twostacks", "slickdeque", "daba")


def draw_parts(rows: Rows, folder: Path) -> list[Path]:
    """Write a file for each plot whose part was measured; the files."""
    measured = {row["part"] for row in rows}
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    with matplotlib.rc_context(STYLE):
        for name, (part, plot) in PLOTS.items():
            if part in measured:
                figure = plot([row for row in rows if row["part"] == part])
                files.append(folder / f"{name}.svg")
                figure.savefig(files[-1], bbox_inches="tight", metadata={"Date": None})
    return files


def _throughput(rows: Rows, mode: str, operations: tuple[str, str], across: str) -> Figure:
    """Million slides per second, an operation on each side (000 figures 16, 17, 23-26; 004 figure 3a-d)."""
    figure, sides = _figure(2)
    for side, operation in zip(sides, operations):
        chosen = [row for row in rows if (row["operation"], row["mode"]) == (operation, mode)]
        for name in TECHNIQUES:
            _line(side, name, [(row["n"], row[name]) for row in chosen if name in row])
        _scales(side, across, base=2)
        side.set_title(f"{operation}, {'in batches' if mode == IN_BATCHES else mode}")
    sides[0].set_ylabel("million slides per second")
    return _with_legend(figure, sides)


def _flatfit(rows: Rows) -> Figure:
    """FlatFIT over FlatFAT for all queries (000 figure 18)."""
    ratio = next(r for r in RATIOS if r.name == "flatfit_over_flatfat_all")
    figure, (side,) = _figure(1)
    for mode, mark in ((IN_BATCHES, "o-"), (SLIDE_BY_SLIDE, "s--")):
        points = ratio.at_each_point(rows, mode)
        side.plot([*points], [*points.values()], mark, color="#9467bd", label=mode)
    side.set_xscale("log", base=2)
    side.set_xlabel("widest window, all of 1..n asked")
    side.set_ylabel("FlatFIT / FlatFAT throughput")
    side.axhline(1, color="#999", linewidth=0.8)
    side.legend(frameon=False)
    return figure


def _latency(rows: Rows) -> Figure:
    """Boxes from the 25th to the 75th percentile, whiskers to the extremes (000 figure 27)."""
    figure, (side,) = _figure(1)
    for at, row in enumerate(rows):
        colour = _look(row["technique"])[0]
        side.plot([at, at], [row["min"], row["max"]], color=colour, linewidth=1)
        side.bar(at, row["75"] - row["25"] or 0.3, 0.5, row["25"], color=colour, alpha=0.5)
        for key, mark in (("50", "_"), ("99", "."), ("99.9", "+"), ("max", "v")):
            side.plot(at, row[key], mark, color=colour, markersize=7)
    for key, mark in (("50 %", "_"), ("99 %", "."), ("99.9 %", "+"), ("max", "v")):
        side.plot([], [], mark, color="#555", markersize=7, label=key)
    side.set_xticks(range(len(rows)), [row["technique"] for row in rows], rotation=40, ha="right")
    side.set_yscale("log")
    side.set_ylabel("nanoseconds per slide, window 1024")
    side.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))
    return figure


def _spikes(rows: Rows) -> Figure:
    """The slowest of every eight slides in a row (000 figure 28)."""
    figure, (side,) = _figure(1)
    traces = {row["technique"]: row["trace"] for row in rows}
    for name in SPIKES:
        side.plot(range(0, 8 * len(traces[name]), 8), traces[name], color=_look(name)[0], label=name)
    side.set_yscale("log")
    side.set_xlabel("slide")
    side.set_ylabel("nanoseconds per slide, window 1024")
    side.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))
    return figure


def _memory(rows: Rows) -> Figure:
    """Partials kept at most (000 figures 19 and 29)."""
    figure, (side,) = _figure(1)
    for name in TECHNIQUES:
        _line(side, name, [(row["n"], row[name]) for row in rows], dashed=name.endswith("_inv"))
    _scales(side, "window (partials)", base=2)
    side.set_ylabel("partials kept at most")
    return _with_legend(figure, [side], variants=True)


def _kernels(rows: Rows) -> Figure:
    """The time of each kernel over that of plain C."""
    figure, (side,) = _figure(1)
    names = [name for name in TECHNIQUES if any(name in row for row in rows)]
    for row, mark in zip(rows, "osDv^<>P"):
        shown = [(at, row[name]) for at, name in enumerate(names) if name in row]
        filled = "none" if row["operation"] == "sum" else None
        label = f"{row['operation']}, window {row['n']}"
        side.plot(*zip(*shown), mark, color="#1f77b4", markerfacecolor=filled, label=label)
    side.axhline(1.2, color="#d62728", linewidth=0.8, linestyle="--")
    side.axhline(1, color="#999", linewidth=0.8)
    side.set_xticks(range(len(names)), names, rotation=40, ha="right")
    side.set_ylabel("kernel time / C time")
    side.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _figure(sides: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(4.6 * sides + (1 if sides == 1 else 0), 3.6), layout="constrained")
    return figure, list(figure.subplots(1, sides, squeeze=False)[0])


def _look(name: str) -> tuple[str, str]:
    return LOOKS[name.removesuffix("_inv")]


def _line(side: Axes, name: str, points: list[tuple[int, float]], dashed: bool = False) -> None:
    colour, mark = _look(name)
    if points:
        side.plot(*zip(*points), "--" if dashed else "-", color=colour, marker=mark, label=name)


def _scales(side: Axes, across: str, base: int) -> None:
    side.set_xscale("log", base=base)
    side.set_yscale("log")
    side.set_xlabel(across)


def _with_legend(figure: Figure, sides: list[Axes], variants: bool = False) -> Figure:
    """One legend for all sides; the variants of a technique once, unless they differ in look."""
    lines = {}
    for side in sides:
        for line, label in zip(*side.get_legend_handles_labels()):
            lines.setdefault(label if variants else label.removesuffix("_inv"), line)
    figure.legend(lines.values(), lines.keys(), loc="outside right center", frameon=False)
    return figure


Plot = Callable[[Rows], Figure]
PLOTS: dict[str, tuple[str, Plot]] = {
    f"{name}{suffix}": (part, partial(_throughput, mode=mode, operations=operations, across=across))
    for name, part, operations, across in (
        ("one_query", ONE_QUERY, ("sum", "max"), "window (values)"),
        ("all_queries", ALL_QUERIES, ("sum", "max"), "widest window, all of 1..n asked"),
        ("many_queries", MANY_QUERIES, ("sum", "min"), "queries, windows up to 32,768"),
    )
    for mode, suffix in ((IN_BATCHES, ""), (SLIDE_BY_SLIDE, "_slide_by_slide"))
} | {
    "flatfit_over_flatfat": (ALL_QUERIES, _flatfit),
    "latency": (LATENCY, _latency),
    "latency_spikes": (LATENCY, _spikes),
    "memory": (MEMORY, _memory),
    "kernel_over_c": (AGAINST_C, _kernels),
}
"""The part that each plot shows, and how it is drawn."""
