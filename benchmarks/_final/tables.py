"""The benchmark's tables as printed."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.table import Table

from _final.ratios import AGAINST_C, ALL_QUERIES, LATENCY, MANY_QUERIES, MEMORY, ONE_QUERY, RATIOS, Rows
from _final.throughput import IN_BATCHES, SLIDE_BY_SLIDE
from weft.cli.bench import BenchmarkResult
from weft.final import TECHNIQUES

PERCENTILES = {"min": 0, "25": 25, "50": 50, "75": 75, "99": 99, "99.9": 99.9, "max": 100}


def render(result: BenchmarkResult) -> Group:
    """A table per part, and the ratios with the papers' beside them."""
    tables = [_by_technique(result.rows, part) for part in (ONE_QUERY, ALL_QUERIES, MANY_QUERIES)]
    tables += [_kernels(result.rows), _latencies(result.rows), _memories(result.rows), _ratios(result)]
    return Group(*(table for table in tables if table.row_count))


def _by_technique(rows: Rows, part: str) -> Table:
    chosen = [row for row in rows if row["part"] == part]
    points = _spread_points(sorted({row["n"] for row in chosen}))
    counted = "queries" if part == MANY_QUERIES else "window"
    table = Table(title=f"{part.capitalize()}: million slides per second by {counted}")
    for heading in ("operation", "mode", "technique"):
        table.add_column(heading)
    for point in points:
        table.add_column(str(point), justify="right")
    for operation, mode in dict.fromkeys((row["operation"], row["mode"]) for row in chosen):
        by_point = {r["n"]: r for r in chosen if (r["operation"], r["mode"]) == (operation, mode)}
        for name in TECHNIQUES:
            if any(name in row for row in by_point.values()):
                cells = (_number(by_point[point].get(name)) for point in points)
                table.add_row(operation, mode, name, *cells)
        table.add_section()
    return table


def _kernels(rows: Rows) -> Table:
    chosen = [row for row in rows if row["part"] == AGAINST_C]
    table = Table(title="Time of each kernel over that of plain C, by window")
    table.add_column("technique")
    for row in chosen:
        table.add_column(f"{row['operation']} {row['n']}", justify="right")
    for name in TECHNIQUES:
        if any(name in row for row in chosen):
            table.add_row(name, *(f"{row[name]:.2f}" if name in row else "" for row in chosen))
    return table


def _latencies(rows: Rows) -> Table:
    table = Table(title="Nanoseconds per slide, one window of 1024")
    for heading in ("technique", "operation"):
        table.add_column(heading)
    for heading in PERCENTILES:
        table.add_column(heading, justify="right")
    for row in rows:
        if row["part"] == LATENCY:
            table.add_row(row["technique"], row["operation"], *(f"{row[key]:.0f}" for key in PERCENTILES))
    return table


def _memories(rows: Rows) -> Table:
    chosen = [row for row in rows if row["part"] == MEMORY]
    shown = _spread_points(chosen)
    table = Table(title="Partials kept at most, by window")
    table.add_column("technique")
    for row in shown:
        table.add_column(str(row["n"]), justify="right")
    for name in TECHNIQUES if chosen else ():
        table.add_row(name, *(str(row[name]) for row in shown))
    return table


def _ratios(result: BenchmarkResult) -> Table:
    table = Table(title="Ratios: ours and the papers'")
    table.add_column("ratio")
    for heading in (IN_BATCHES, SLIDE_BY_SLIDE, "paper"):
        table.add_column(heading, justify="right")
    for ratio in RATIOS:
        ours = (result.figures.get(ratio.name + suffix) for suffix in ("", "_single"))
        table.add_row(ratio.name, *(_number(value) for value in ours), ratio.paper)
    return table


def _spread_points(points: list[Any]) -> list[Any]:
    """Return as many points as fit a line, from the first to the last; the plots have them all.

    >>> _spread_points([*range(21)]), _spread_points([1, 2])
    ([0, 4, 8, 12, 16, 20], [1, 2])
    """
    step = max((len(points) + 2) // 5, 1)
    return points[-1::-step][::-1]


def _number(value: float | None) -> str:
    """Three digits.

    >>> _number(1234.5), _number(1.2345), _number(0.01234), _number(None)
    ('1234', '1.23', '0.0123', '')
    """
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
