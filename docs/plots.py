"""The plots of docs/benchmarks.md from the results in docs/benchmarks: ``python docs/plots.py``.

A result is a file that ``weft bench NAME --json FILE`` has written, or the part of it that was kept.
"""

from __future__ import annotations

import json
from math import floor, log10
from pathlib import Path
from typing import Any, TypeAlias

RESULTS = Path(__file__).parent / "benchmarks"
STYLE = (
    "text{font:11px system-ui,sans-serif;fill:#333}.e{text-anchor:end}.m{text-anchor:middle}"
    ".g{stroke:#ddd}.one{stroke:#c62828;stroke-dasharray:4 3}path{fill:none;stroke-width:1.8}"
)
COLOURS = (
    *("#c62828", "#ef6c00", "#8d6e63", "#00897b", "#3f51b5", "#8e24aa"),
    *("#546e7a", "#2e7d32", "#ad1457", "#0277bd", "#9e9d24"),
)
Series: TypeAlias = dict[str, dict[int, float]]
"""What was measured, by a name and the number of queries."""


def main() -> None:
    """Write all plots."""
    for name, picture in plots().items():
        (RESULTS / f"{name}.svg").write_text(picture)


def plots() -> dict[str, str]:
    """The plots, by name."""
    return {
        "spark-native": _bars(_result("spark-native")["figures"], "times as fast as native Spark"),
        "plan-cost": _lines(
            _plan_cost(_result("plan-cost")["rows"]),
            "queries; estimated operations per second",
            "estimated cost of a plan by the number of queries",
        ),
        "peers": _lines(
            _peers(_result("peers")["rows"]),
            "queries; seconds for 10 million rows",
            "seconds of weft and its peers by the number of queries",
        ),
    }


def _result(name: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return result


def _bars(figures: dict[str, float], what: str) -> str:
    """A bar per figure on a logarithmic scale, with a line where both sides are equal."""
    low, high, left, width = 0.5, 100.0, 150, 480

    def across(value: float) -> float:
        return left + width * log10(value / low) / log10(high / low)

    body = []
    for number, (name, value) in enumerate(figures.items()):
        y, x = 14 + 26 * number, across(value)
        body += [
            f'<text class="e" x="{left - 8}" y="{y + 14}">{name}</text>',
            f'<rect x="{left}" y="{y}" width="{x - left:.0f}" height="20" rx="3" fill="{COLOURS[4]}"/>',
            f'<text x="{x + 6:.0f}" y="{y + 14}">{value:g}</text>',
        ]
    bottom = 14 + 26 * len(figures)
    body += [
        f'<path class="one" d="M{across(1):.0f} 8V{bottom}"/>',
        f'<text class="m" x="{across(1):.0f}" y="{bottom + 14}">1: equal</text>',
        f'<text class="e" x="{left + width}" y="{bottom + 14}">{what} (logarithmic)</text>',
    ]
    return _svg(700, bottom + 24, what, body)


def _plan_cost(rows: list[dict[str, Any]]) -> Series:
    rows = [row for row in rows if row["figure"] == "figure 42" and row["strategy"] == "weave-share"]
    names = ("recompute", "flatfat", "flatfit", "slickdeque-inv", "slideside-inv", "bulk")
    return {name: {row["queries"]: row[name] for row in rows} for name in names}


def _peers(rows: list[dict[str, Any]]) -> Series:
    names = dict.fromkeys(row["rival"] for row in rows)
    return {n: {row["queries"]: row["seconds"] for row in rows if row["rival"] == n} for n in names}


def _lines(series: Series, caption: str, label: str) -> str:
    """A line per series, by the number of queries, both on logarithmic scales."""
    counts = sorted({count for line in series.values() for count in line})
    exponents = [log10(value) for line in series.values() for value in line.values()]
    low, high = floor(min(exponents)), floor(max(exponents)) + 1
    left, right, top, bottom = 60, 560, 16, 236

    def place(queries: float, value: float) -> tuple[float, float]:
        x = left + (right - left) * log10(queries) / log10(counts[-1])
        return x, bottom - (bottom - top) * (log10(value) - low) / (high - low)

    body = []
    for exponent in range(low, high + 1):
        _, y = place(1, 10.0**exponent)
        body += [
            f'<path class="g" d="M{left} {y:.0f}H{right}"/>',
            f'<text class="e" x="{left - 6}" y="{y + 4:.0f}">{10.0**exponent:g}</text>',
        ]
    for count in counts:
        x, _ = place(count, 1)
        body.append(f'<text class="m" x="{x:.0f}" y="{bottom + 16}">{count:,}</text>')
    ends = sorted((place(1, line[max(line)])[1], name) for name, line in series.items())
    labels: dict[str, float] = {}
    for y, name in ends:
        labels[name] = max(y, max(labels.values(), default=0) + 13)
    for number, (name, line) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x:.0f} {y:.0f}" for x, y in (place(*point) for point in line.items()))
        body += [
            f'<path stroke="{colour}" d="M{path}"/>',
            f'<text x="{right + 8}" y="{labels[name] + 4:.0f}" style="fill:{colour}">{name}</text>',
        ]
    middle = (left + right) / 2
    body.append(f'<text class="m" x="{middle:.0f}" y="{bottom + 32}">{caption}</text>')
    return _svg(720, bottom + 42, label, body)


def _svg(width: int, height: int, label: str, body: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" '
        f'aria-label="{label}"><style>{STYLE}</style>\n<rect width="{width}" height="{height}" rx="8" '
        f'fill="#fafafa"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


if __name__ == "__main__":
    main()
