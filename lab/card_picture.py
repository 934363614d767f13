"""A technique's throughput by window as a small picture: its lines, and the others' in grey, as SVG."""

from __future__ import annotations

from math import log2, log10
from typing import Any
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 460, 210, 44, 40, 14, 34
MIN_RATE, MAX_RATE = 0.1, 4000.0
STYLE = (
    "text{font:10px system-ui,sans-serif;fill:#444}.g{stroke:#e6e6e6}.o{stroke:#d0d0d0}path{fill:none}"
    ".sum{stroke:#d62728}.max{stroke:#1f77b4}text.sum{fill:#d62728;stroke:none}"
    "text.max{fill:#1f77b4;stroke:none}.b{stroke-width:1.8}.s{stroke-width:1.4;stroke-dasharray:4 3}"
    "@media(prefers-color-scheme:dark){text{fill:#ccc}.g{stroke:#333}.o{stroke:#484848}}"
)


def throughput_svg(result: dict[str, Any], name: str) -> str:
    """Draw the rows ``one query`` of a result of the benchmark ``final``.

    >>> row = {"part": "one query", "operation": "sum", "mode": "batch", "n": 2, "soe": 100.0}
    >>> throughput_svg({"rows": [row, row | {"n": 4}], "machine": {"processor": "a"}}, "soe")[:4]
    '<svg'
    """
    rows = [row for row in result["rows"] if row["part"] == "one query"]
    widest = max(log2(row["n"]) for row in rows)
    body = [*_grid(widest, result["machine"]["processor"])]
    series = dict.fromkeys((row["operation"], row["mode"]) for row in rows)
    measured = [key for row in rows for key in row if isinstance(row[key], float)]
    for other in dict.fromkeys(measured):
        if other != name:
            body += [_line(_points(rows, "max", "batch", other), widest, "o")]
    for operation, mode in series:
        points = _points(rows, operation, mode, name)
        if points:
            body.append(_line(points, widest, f"{operation} {mode[0]}"))
            if mode == "batch":
                x, y = _place(*points[-1], widest)
                body.append(_text(x + 4, y + (8 if operation == "max" else 0), operation, f"{operation}"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" '
        f'aria-label="throughput of {name} by window"><style>{STYLE}</style>{"".join(body)}</svg>\n'
    )


def _points(rows: list[dict[str, Any]], operation: str, mode: str, name: str) -> list[tuple[int, float]]:
    chosen = [row for row in rows if (row["operation"], row["mode"]) == (operation, mode)]
    return [(row["n"], row[name]) for row in chosen if name in row]


def _grid(widest: float, processor: str) -> list[str]:
    drawn = []
    for exponent in range(-1, 4):
        _, y = _place(1, 10.0**exponent, widest)
        drawn += [
            f'<path class="g" d="M{LEFT} {y:.0f}H{WIDTH - RIGHT}"/>',
            _text(LEFT - 6, y + 3, f"{10.0**exponent:g}", anchor="end"),
        ]
    for exponent in range(0, int(widest) + 1, 4):
        x, _ = _place(2**exponent, 1, widest)
        drawn.append(_text(x, HEIGHT - BOTTOM + 14, f"{2**exponent:,}", anchor="middle"))
    below = f"window (values); million slides per second on {processor}"
    return [*drawn, _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, below, anchor="middle")]


def _line(points: list[tuple[int, float]], widest: float, kind: str) -> str:
    places = " ".join(f"{x:.0f} {y:.0f}" for x, y in (_place(n, rate, widest) for n, rate in points))
    return f'<path class="{kind}" d="M{places}"/>' if points else ""


def _place(window: float, rate: float, widest: float) -> tuple[float, float]:
    """Both axes are logarithmic; what is beyond them is drawn at their ends."""
    across = log2(window) / max(widest, 1)
    up = log10(min(max(rate, MIN_RATE), MAX_RATE) / MIN_RATE) / log10(MAX_RATE / MIN_RATE)
    return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(words)}</text>'
