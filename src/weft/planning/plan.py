"""The Plan: trees of queries that share slices, a technique and a node for each, and the estimated cost."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from typing import Any

from weft.model.duration import format_length
from weft.model.query import Query
from weft.planning.cost.price import Price
from weft.planning.picture import plan_svg
from weft.planning.tree import Tree
from weft.slicing import Progression, reduce_progressions

OPERATIONS = Price()
"""The price where none is given: operations, as many as there are."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Trees that run, every query in one; costs in operations per second at ``rate`` rows per second.

    ``alone`` is what the same queries would cost one by one. ``model`` says whether each tree reads the
    stream (*separate*), each node once (*per-node*), or all get their slices from one *composite*; ``price``
    is what that comes to, and in which unit. ``capacities`` are the nodes', as shares of the strongest.
    """

    trees: tuple[Tree, ...]
    strategy: str
    rate: float
    nodes: int = 1
    cost: float = 0.0
    alone: float = 0.0
    model: str = "separate"
    capacities: tuple[float, ...] = ()
    price: Price = OPERATIONS

    @property
    def queries(self) -> tuple[Query, ...]:
        """All queries, tree by tree."""
        return tuple(q for tree in self.trees for q in tree.queries)

    @property
    def progressions(self) -> tuple[Progression, ...]:
        """The edges of the composite of all trees in time: where the raw rows are cut."""
        return reduce_progressions(p for tree in self.trees if not tree.rows for p in tree.progressions)

    @property
    def node_costs(self) -> tuple[float, ...]:
        """The cost of the trees of each node together, reading included where nodes read."""
        used = {tree.node for tree in self.trees}
        costs = [self.price.node if node in used else 0.0 for node in range(self.nodes)]
        for tree in self.trees:
            costs[tree.node] += tree.cost
        return tuple(costs)

    def __str__(self) -> str:
        if not self.trees:
            return f"no query, by {self.strategy}"
        unit = f"{self.price.unit}/s"
        total = f"{self.cost:,.6g} {unit}"
        if self.price.unit == "ns":
            total += f" ({self.cost / 1e7:.2g}% of one core)"
        head = (
            f"{_counted(len(self.queries), 'query', 'queries')} in {_counted(len(self.trees), 'tree')} by "
            f"{self.strategy}, at {self.rate:,.6g} rows/s: {total}, "
            f"{self.alone / self.cost:.1f} times fewer than one by one ({self.alone:,.6g})"
        )
        rows = [("tree", "queries", "edges/s", "technique", "node", unit, "which")]
        for number, tree in enumerate(self.trees[:MOST_TREES]):
            rows.append(
                (
                    str(number),
                    str(len(tree.queries)),
                    f"{tree.edge_rate:.4g}",
                    tree.answered_by,
                    str(tree.node),
                    f"{tree.cost:,.6g}",
                    _names(tree.queries),
                )
            )
        widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        if len(self.trees) > MOST_TREES:
            lines.append(f"and {_counted(len(self.trees) - MOST_TREES, 'more tree')}")
        if self.nodes > 1:
            costs = ", ".join(f"{cost:,.6g}" for cost in self.node_costs)
            lines.append(f"nodes: {costs} {unit}")
        return "\n".join([head, *lines])

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return {
            "strategy": self.strategy,
            "rate": self.rate,
            "model": self.model,
            "unit": f"{self.price.unit}/s",
            "nodes": self.nodes,
            "capacities": list(self.capacities) or [1.0] * self.nodes,
            "node_costs": list(self.node_costs),
            "cost": self.cost,
            "alone": self.alone,
            "trees": [
                {
                    "queries": [_query_dict(q) for q in tree.queries],
                    "technique": tree.technique,
                    "expected": list(tree.expected),
                    "slicer": tree.slicer,
                    "node": tree.node,
                    "edge_rate": tree.edge_rate,
                    "cost": tree.cost,
                }
                for tree in self.trees
            ],
        }

    def to_json(self) -> str:
        """Return the plan as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    def to_svg(self, tree: int | None = None) -> str:
        """Draw the plan, or one tree of it: slices and windows on a timeline."""
        return plan_svg(self, tree)

    def _repr_html_(self) -> str:
        """Return the plan for a notebook: its costs in words, and its picture where that is not too long."""
        head, *more = str(self).splitlines()
        if len(self.trees) > MOST_PICTURED:
            return f"<p>{escape(head)}</p><pre>{escape(chr(10).join(more))}</pre>"
        return f"<p>{escape(head)}</p>{self.to_svg() if self.trees else ''}"


MOST_TREES = 50
"""Trees that the text of a plan lists; JSON has all."""

MOST_PICTURED = 20
"""Trees that a notebook shows as a picture."""


def _counted(count: int, noun: str, plural: str = "") -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {plural or noun + 's'}"


def _names(queries: tuple[Query, ...], most: int = 4) -> str:
    names = ", ".join(q.name for q in queries[:most])
    return names if len(queries) <= most else f"{names} and {len(queries) - most} more"


def _query_dict(query: Query) -> dict[str, Any]:
    return {
        "name": query.name,
        **{
            name: format_length(getattr(query.window, name), query.window.rows)
            for name in ("range", "slide", "offset")
        },
        "group_by": list(query.group_by),
        "joins": [str(join) for join in query.lookups],
        "where": None if query.predicate is None else str(query.predicate),
        "aggregates": [f"{a} AS {a.alias}" for a in query.aggregates],
    }
