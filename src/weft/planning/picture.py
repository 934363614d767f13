"""A plan as a picture: per tree, the slices on a timeline and a line for each of its windows, as SVG."""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol
from xml.sax.saxutils import escape

from weft.model.duration import format_length
from weft.model.query import Query
from weft.model.window import Window
from weft.planning.cost.price import Price
from weft.planning.tree import Tree
from weft.slicing import edges_between

WIDTH, LEFT, RIGHT, LINE, HEAD = 1000, 190, 20, 16, 46
MOST_WINDOWS, MOST_EDGES, MOST_LANES, MOST_NAMES = 24, 400, 12, 50
# A style inside SVG holds for the whole page that the picture is put into, such as a notebook.
STYLE = (
    ".weft text{font:11px system-ui,sans-serif;fill:#333}.weft .h{font-weight:600;font-size:13px}"
    ".weft .e{stroke:#bbb}.weft .a{fill:#4c78a8}.weft .b{fill:#9ecae9}.weft .s{fill:#f2e6c9;stroke:#b79a5b}"
    "@media(prefers-color-scheme:dark){.weft text{fill:#ddd}.weft .e{stroke:#555}.weft .s{fill:#4a4230}}"
)


class DrawnPlan(Protocol):
    """The part of a plan that the picture shows."""

    @property
    def nodes(self) -> int: ...
    @property
    def price(self) -> Price: ...
    @property
    def trees(self) -> tuple[Tree, ...]: ...
    @property
    def queries(self) -> tuple[Query, ...]: ...
    @property
    def node_costs(self) -> tuple[float, ...]: ...


def plan_svg(plan: DrawnPlan, tree: int | None = None) -> str:
    """Draw the whole plan, tree below tree, or one tree of it.

    >>> import weft
    >>> plan_svg(weft.plan(weft.sql("SELECT count(*) AS n FROM t [RANGE '2 s']")))[:4]
    '<svg'
    """
    body: list[str] = []
    top = 10
    for number, planned in enumerate(plan.trees):
        if tree in (None, number):
            drawn, height = _tree(planned, number, top)
            body += drawn
            top += height
    if plan.nodes > 1 and tree is None:
        drawn, height = _nodes(plan, top)
        body += drawn
        top += height
    return (
        f'<svg class="weft" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img" '
        f'aria-label="{len(plan.queries)} queries in {len(plan.trees)} trees">'
        f"<style>{STYLE}</style>{''.join(body)}</svg>\n"
    )


def _tree(tree: Tree, number: int, top: int) -> tuple[list[str], int]:
    by_window: dict[Window, list[Query]] = {}
    for query in tree.queries:
        by_window.setdefault(query.window, []).append(query)
    every = sorted(by_window, key=lambda w: (w.range, w.slide, w.offset))
    windows = every[:MOST_WINDOWS]
    span = 2 * max(w.range + w.slide for w in windows)
    span = max(min(span, int(MOST_EDGES / sum(1 / p.period for p in tree.progressions))), 1)
    scale = (WIDTH - LEFT - RIGHT) / span
    bottom = top + HEAD + LINE * (len(windows) + 1)
    left_out = len(every) - len(windows)
    more = f", the {left_out} longest windows not drawn" if left_out else ""
    count = len(tree.queries)
    out = [
        _text(
            10,
            top + 14,
            f"tree {number} on node {tree.node}: {count} {'query' if count == 1 else 'queries'} by "
            f"{tree.answered_by}, {tree.edge_rate:.4g} edges/s, {format_length(span, tree.rows)} shown{more}",
            "h",
        )
    ]
    edges = [int(e) for e in edges_between(tree.progressions, 0, span) if 0 <= e <= span]
    y = top + HEAD - LINE
    out.append(_text(10, y + 11, "slices"))
    for start, end in pairwise(edges):
        out.append(_box(start, end, y, scale, "s", f"slice of {format_length(end - start, tree.rows)}"))
    for edge in edges:
        x = LEFT + edge * scale
        out.append(f'<line class="e" x1="{x:.1f}" x2="{x:.1f}" y1="{y + LINE - 4}" y2="{bottom - 6}"/>')
    for line, window in enumerate(windows):
        out += _line(window, by_window[window], top + HEAD + LINE * line, span, scale)
    return out, bottom - top + 14


def _line(window: Window, queries: list[Query], y: int, span: int, scale: float) -> list[str]:
    """Draw the instances of a window, one above the other where they overlap; of very many, only some."""
    overlap = -(-window.range // window.slide)
    every = -(-overlap // MOST_LANES)
    lanes = -(-overlap // every)
    thick = (LINE - 4) / lanes
    out = [_text(10, y + 11, _label(window, queries), title=", ".join(q.name for q in queries[:MOST_NAMES]))]
    first = window.offset - window.slide * (window.range // window.slide)
    for k, start in enumerate(range(first, span, window.slide * every)):
        low, high = max(start, 0), min(start + window.range, span)
        if high > low:
            x, w = LEFT + low * scale, (high - low) * scale
            out.append(
                f'<rect class="{"ab"[k % 2]}" x="{x:.1f}" y="{y + 2 + k % lanes * thick:.2f}" '
                f'width="{w:.1f}" height="{thick:.2f}"/>'
            )
    return out


def _nodes(plan: DrawnPlan, top: int) -> tuple[list[str], int]:
    """Draw the work of each node: its trees side by side, as wide as they are dear."""
    unit = f"{plan.price.unit}/s"
    scale = (WIDTH - LEFT - RIGHT) / max(plan.node_costs)
    out = [_text(10, top + 14, f"{plan.nodes} nodes, the busiest at {max(plan.node_costs):,.6g} {unit}", "h")]
    for node, cost in enumerate(plan.node_costs):
        y, at = top + HEAD - LINE + LINE * node, 0.0
        out.append(_text(10, y + 11, f"node {node}  {cost:,.4g}"))
        trees = [(number, tree) for number, tree in enumerate(plan.trees) if tree.node == node]
        if trees and plan.price.node:
            out.append(_box(0.0, plan.price.node, y, scale, "s", f"reading, {plan.price.node:,.6g} {unit}"))
            at = plan.price.node
        for place, (number, tree) in enumerate(trees):
            title = f"tree {number}: {len(tree.queries)} queries, {tree.cost:,.6g} {unit}"
            out.append(_box(at, at + tree.cost, y, scale, "ab"[place % 2], title))
            at += tree.cost
    return out, HEAD + LINE * plan.nodes + 14


def _label(window: Window, queries: list[Query]) -> str:
    length = f"{format_length(window.range, window.rows)} / {format_length(window.slide, window.rows)}"
    name = queries[0].name
    if len(queries) > 1:
        return f"{len(queries)} queries  {length}"
    return f"{name if len(name) <= 14 else name[:13] + '…'}  {length}"


def _box(start: float, end: float, y: int, scale: float, kind: str, title: str) -> str:
    x, width = LEFT + start * scale, (end - start) * scale
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{LINE - 4}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _text(x: int, y: int, text: str, kind: str = "", title: str = "") -> str:
    more = f"<title>{escape(title)}</title>" if title else ""
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(text)}{more}</text>'
