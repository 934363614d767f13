"""The reason for a query's tree: the costs of the plan with the query elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from weft.errors import QueryError
from weft.model.duration import format_length
from weft.model.query import Query
from weft.planning.plan import Plan
from weft.planning.planned import problem_of
from weft.planning.problem import TreeAssignment
from weft.planning.tree import Tree
from weft.slicing import SLICERS
from weft.slicing.progression import Progression
from weft.slicing.rate import measure_rate

MOST_TREES = 20
"""Other trees that a query is tried in: those that weave best with it."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A place for a query: a tree's number or None for a tree of its own; which share of its edges the other
    queries there have anyway, and what the whole plan costs then."""

    tree: int | None
    common: float
    cost: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """The tree of a query, and the costs of the plan with it in other places, cheapest first."""

    query: Query
    plan: Plan
    tree: int
    common: float
    elsewhere: tuple[Elsewhere, ...]

    def __str__(self) -> str:
        tree, window = self.plan.trees[self.tree], self.query.window
        length = [format_length(extent, window.rows) for extent in (window.range, window.slide)]
        lines = [
            f"'{self.query.name}' (range {length[0]}, slide {length[1]}) is in tree {self.tree} with "
            f"{_others(len(tree.queries) - 1)}, on node {tree.node}, answered by {tree.answered_by}."
        ]
        if window.rows:
            lines.append(
                "Its windows are counted in rows: it shares slices with the queries of the same group-by and "
                "predicate, whose rows have the same numbers, and with no others."
            )
            return "\n".join(lines)
        unit, rows = f"{self.plan.price.unit}/s", [("where", "its edges there", "plan costs", "difference")]
        here = Elsewhere(self.tree, self.common, self.plan.cost)
        for place in (here, *self.elsewhere):
            name = "its own tree" if place.tree is None else f"tree {place.tree}"
            common = "" if place.tree is None else f"{place.common:.0%}"
            more = "(here)" if place is here else f"{place.cost - here.cost:+,.6g}"
            rows.append((name, common, f"{place.cost:,.6g} {unit}", more))
        widths = [max(len(row[c]) for row in rows) for c in range(4)]
        lines += ["  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows]
        better = [place for place in self.elsewhere if place.cost < here.cost * (1 - 1e-9)]
        if better:
            lines.append(
                f"It would cost less elsewhere: {self.plan.strategy} does not look for the cheapest place of "
                "each query, or finds it only with other queries moved as well."
            )
        else:
            lines.append("No other place for this query alone is cheaper.")
        return "\n".join(lines)


def explain(plan: Plan, name: str) -> Explanation:
    """Explain why the query of this name is in its tree.

    >>> import weft
    >>> text = "SELECT count(*) AS n FROM t [RANGE '{} s']"
    >>> queries = weft.sql(";".join(map(text.format, (2, 4))))
    >>> [place.tree for place in explain(weft.plan(queries), "q2").elsewhere]
    [None]
    """
    names = [query.name for query in plan.all_queries]
    if name not in names:
        raise QueryError(f"no query is called {name!r}", hint=f"there are {', '.join(names[:10])}")
    if name not in [query.name for query in plan.queries]:
        raise QueryError("it is a join, in a chain and no tree", query=name, hint="print the plan's chains")
    if plan.parts:
        return _explain_part(plan, name)
    number, query = next((n, q) for n, tree in enumerate(plan.trees) for q in tree.queries if q.name == name)
    if query.window.rows:
        return Explanation(query, plan, number, 1.0, ())
    timed, problem, grouping = problem_of(replace(plan, chains=()))
    tree_of, nodes = grouping.tree_of, grouping.node_of
    place = [q.name for n in timed for q in plan.trees[n].queries].index(name)
    # What windows in rows cost does not change.
    rest = plan.cost - problem.costs(grouping).total
    edges = SLICERS[plan.trees[number].slicer](query.window)
    woven = {n: _common(edges, plan.trees[n], query) for n in timed}
    tried = sorted((n for n in timed if n != number), key=lambda n: -woven[n])[:MOST_TREES]
    alone = len(plan.trees[number].queries) == 1
    places = [Elsewhere(n, woven[n], 0.0) for n in tried] + ([] if alone else [Elsewhere(None, 0.0, 0.0)])
    priced = []
    for other in places:
        moved = tree_of.copy()
        moved[place] = len(timed) if other.tree is None else timed.index(other.tree)
        used, labels = np.unique(moved, return_inverse=True)
        node_of = np.append(nodes, plan.trees[number].node)[used]
        priced.append(
            Elsewhere(other.tree, other.common, rest + problem.costs(TreeAssignment(labels, node_of)).total)
        )
    priced.sort(key=lambda place: place.cost)
    return Explanation(query, plan, number, woven[number], tuple(priced))


def _explain_part(plan: Plan, name: str) -> Explanation:
    """Explain a query of one of several streams: only trees of the same stream can have it."""
    first = 0
    for part in plan.parts:
        if any(query.name == name for query in part.queries):
            break
        first += len(part.trees)
    explanation, rest = explain(part, name), plan.cost - part.cost
    places = tuple(
        replace(place, tree=None if place.tree is None else place.tree + first, cost=place.cost + rest)
        for place in explanation.elsewhere
    )
    return replace(explanation, plan=plan, tree=explanation.tree + first, elsewhere=places)


def _common(edges: tuple[Progression, ...], tree: Tree, query: Query) -> float:
    """Return the share of the edges that the tree's other queries have."""
    others = tuple(q for q in tree.queries if q.name != query.name)
    if not others:
        return 0.0
    other_edges = replace(tree, queries=others).progressions
    union = (*edges, *other_edges)
    own, other, together = (measure_rate(sides).value for sides in (edges, other_edges, union))
    return (own + other - together) / own


def _others(count: int) -> str:
    return "no other query" if count == 0 else f"{count} other {'query' if count == 1 else 'queries'}"
