"""A plan as a picture: per tree, the slices on a timeline and a line for each of its windows, as SVG.

Chains of joins follow, each with the slices of its sides.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

from weft.model.duration import format_length
from weft.model.query import Query
from weft.model.window import Window
from weft.planning.cost.price import Price
from weft.planning.drawing import HEAD, LEFT, LINE, MOST_LINES, RIGHT, WIDTH, box, short, text
from weft.planning.joins.picture import draw_chain
from weft.planning.joins.plan import SharedPlan
from weft.planning.tree import Tree
from weft.slicing import edges_between

MOST_EDGES, MOST_LANES, MOST_NAMES = 400, 12, 50
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
    @property
    def chains(self) -> tuple[SharedPlan, ...]: ...


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
    if plan.nodes > 1 and plan.trees and tree is None:
        drawn, height = _nodes(plan, top)
        body += drawn
        top += height
    for number, chain in enumerate(plan.chains if tree is None else ()):
        drawn, height = draw_chain(chain, number, top)
        body += drawn
        top += height
    shown = (
        [f"{len(plan.queries)} queries in {len(plan.trees)} trees"] if plan.trees or not plan.chains else []
    )
    if plan.chains and tree is None:
        shown.append(f"{sum(len(c.members) for c in plan.chains)} joins in {len(plan.chains)} chains")
    return (
        f'<svg class="weft" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img" '
        f'aria-label="{", ".join(shown)}">'
        f"<style>{STYLE}</style>{''.join(body)}</svg>\n"
    )


def _tree(tree: Tree, number: int, top: int) -> tuple[list[str], int]:
    by_window: dict[Window, list[Query]] = {}
    for query in tree.queries:
        by_window.setdefault(query.window, []).append(query)
    every = sorted(by_window, key=lambda w: (w.range, w.slide, w.offset))
    windows = every[:MOST_LINES]
    span = 2 * max(w.range + w.slide for w in windows)
    span = max(min(span, int(MOST_EDGES / sum(1 / p.period for p in tree.progressions))), 1)
    scale = (WIDTH - LEFT - RIGHT) / span
    bottom = top + HEAD + LINE * (len(windows) + 1)
    left_out = len(every) - len(windows)
    more = f", the {left_out} longest windows not drawn" if left_out else ""
    of_stream = f" of {tree.stream}" if tree.stream else ""
    count = f"{len(tree.queries)} {'query' if len(tree.queries) == 1 else 'queries'}"
    out = [
        text(
            10,
            top + 14,
            f"tree {number}{of_stream} on node {tree.node}: {count} by "
            f"{tree.answered_by}, {tree.edge_rate:.4g} edges/s, {format_length(span, tree.rows)} shown{more}",
            "h",
        )
    ]
    edges = [int(e) for e in edges_between(tree.progressions, 0, span) if 0 <= e <= span]
    y = top + HEAD - LINE
    out.append(text(10, y + 11, "slices"))
    for start, end in pairwise(edges):
        out.append(box(start, end, y, scale, "s", f"slice of {format_length(end - start, tree.rows)}"))
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
    out = [text(10, y + 11, _label(window, queries), title=", ".join(q.name for q in queries[:MOST_NAMES]))]
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
    out = [text(10, top + 14, f"{plan.nodes} nodes, the busiest at {max(plan.node_costs):,.6g} {unit}", "h")]
    for node, cost in enumerate(plan.node_costs):
        y, at = top + HEAD - LINE + LINE * node, 0.0
        out.append(text(10, y + 11, f"node {node}  {cost:,.4g}"))
        trees = [(number, tree) for number, tree in enumerate(plan.trees) if tree.node == node]
        if trees and plan.price.node:
            at = cost - sum(tree.cost for _, tree in trees)
            out.append(box(0.0, at, y, scale, "s", f"reading, {at:,.6g} {unit}"))
        for place, (number, tree) in enumerate(trees):
            title = f"tree {number}: {len(tree.queries)} queries, {tree.cost:,.6g} {unit}"
            out.append(box(at, at + tree.cost, y, scale, "ab"[place % 2], title))
            at += tree.cost
    return out, HEAD + LINE * plan.nodes + 14


def _label(window: Window, queries: list[Query]) -> str:
    length = f"{format_length(window.range, window.rows)} / {format_length(window.slide, window.rows)}"
    name = queries[0].name
    if len(queries) > 1:
        return f"{len(queries)} queries  {length}"
    return f"{short(name)}  {length}"
