"""The Plan: trees of queries that share slices, chains of joins, and the estimated cost.

Each tree has a technique and a node; a plan of several streams is put together of one for each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import QueryError
from weft.model.duration import format_length
from weft.model.join import JoinQuery, window_query
from weft.model.query import Query
from weft.planning.cost.price import Price
from weft.planning.drawing import aligned, few
from weft.planning.tree import Tree
from weft.slicing import Progression, reduce_progressions

if TYPE_CHECKING:
    from weft.planning.joins.plan import SharedPlan

OPERATIONS = Price()
"""The price where none is given: operations, as many as there are."""

COMPARISONS_UNIT = "comparisons/s"
"""The unit of the costs of joins."""

JOINED = "joined"
"""The stream of the trees over results of joins."""


class PlanCost(NamedTuple):
    """The estimated cost of queries together, and one by one."""

    cost: float
    alone: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Trees and chains that run, every window query in a tree, every join in a chain; costs at ``rate``.

    Trees are priced in operations or nanoseconds per second, chains in comparisons per second, and these are
    never added. ``cost`` is that of the trees, or of the chains in a plan of joins alone; ``alone`` is what
    the same queries would cost one by one; ``unit`` is the unit of both, and ``costs`` has every unit. Rows
    are taken to come at ``rate`` from each stream, results of joins that are aggregated too.

    ``model`` says whether each tree reads the stream (*separate*), each node once (*per-node*), or all get
    their slices from one *composite*; ``price`` is what that comes to, and in which unit. ``capacities`` are
    the nodes', as shares of the strongest. Of several streams, ``parts`` are the plans of each.
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
    chains: tuple[SharedPlan, ...] = ()
    parts: tuple[Plan, ...] = field(default=(), repr=False)

    @property
    def queries(self) -> tuple[Query, ...]:
        """All window queries, tree by tree; those over results of joins have their joins' names."""
        return tuple(q for tree in self.trees for q in tree.queries)

    @property
    def joins(self) -> tuple[JoinQuery, ...]:
        """All joins, chain by chain; where they run, those that differ in their aggregates only are one."""
        return tuple(member.query for chain in self.chains for member in chain.members)

    @property
    def all_queries(self) -> tuple[Query | JoinQuery, ...]:
        """The window queries over streams, and the joins."""
        answered = {name for chain in self.chains for member in chain.members for name in member.answers}
        return (*(q for q in self.queries if q.name not in answered), *self.joins)

    @property
    def stream_plans(self) -> tuple[Plan, ...]:
        """The plans of the single streams, in the order of their trees."""
        return self.parts or ((replace(self, chains=()),) if self.trees else ())

    @property
    def progressions(self) -> tuple[Progression, ...]:
        """The edges of the composite of all trees in time: where the raw rows are cut."""
        return reduce_progressions(p for tree in self.trees if not tree.rows for p in tree.progressions)

    @property
    def unit(self) -> str:
        """The unit of ``cost`` and ``alone``."""
        return COMPARISONS_UNIT if self.chains and not self.trees else f"{self.price.unit}/s"

    @property
    def costs(self) -> dict[str, PlanCost]:
        """The costs by their unit: of the trees, and of the chains."""
        costs = {self.unit: PlanCost(self.cost, self.alone)}
        return costs | ({COMPARISONS_UNIT: chain_cost(self.chains)} if self.chains else {})

    @property
    def node_costs(self) -> tuple[float, ...]:
        """The cost of the trees of each node together, reading included where nodes read."""
        costs = [0.0] * self.nodes
        for part in self.stream_plans:
            used = {tree.node for tree in part.trees}
            for node in used:
                costs[node] += part.price.node
            for tree in part.trees:
                costs[tree.node] += tree.cost
        return tuple(costs)

    def __str__(self) -> str:
        if not self.trees and not self.chains:
            return f"no query, by {self.strategy}"
        trees = [_trees_text(self)] if self.trees else []
        return "\n\n".join([*trees, *map(str, self.chains)])

    def with_queries(self, queries: Iterable[Query]) -> Plan:
        """Return the same plan with these queries in the place of those of their names."""
        by_name = {query.name: query for query in queries}
        trees = tuple(
            replace(tree, queries=tuple(by_name.get(q.name, q) for q in tree.queries)) for tree in self.trees
        )
        return replace(
            self, trees=trees, parts=tuple(part.with_queries(by_name.values()) for part in self.parts)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        data = {
            "strategy": self.strategy,
            "rate": self.rate,
            "model": self.model,
            "unit": self.unit,
            "nodes": self.nodes,
            "capacities": list(self.capacities) or [1.0] * self.nodes,
            "node_costs": list(self.node_costs),
            "cost": self.cost,
            "alone": self.alone,
            "trees": list(map(_tree_dict, self.trees)),
        }
        if self.chains:
            data["costs"] = {unit: cost._asdict() for unit, cost in self.costs.items()}
            data["chains"] = [chain.to_dict() for chain in self.chains]
        return data

    def to_json(self) -> str:
        """Return the plan as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    def to_svg(self, tree: int | None = None) -> str:
        """Draw the plan, or one tree of it: slices and windows, and slices and ranges of joins."""
        from weft.planning.picture import plan_svg

        return plan_svg(self, tree)

    def _repr_html_(self) -> str:
        """Return the plan for a notebook: its costs in words, and its picture where that is not too long."""
        if not self.trees and self.chains:
            head, more = "\n".join(str(chain).splitlines()[0] for chain in self.chains), []
        else:
            head, *more = str(self).splitlines()
        if len(self.trees) + len(self.chains) > MOST_PICTURED:
            return f"<p>{escape(head)}</p><pre>{escape(chr(10).join(more))}</pre>"
        return f"<p>{escape(head)}</p>{self.to_svg() if self.trees or self.chains else ''}"


MOST_TREES = 50
"""Trees that the text of a plan lists; JSON has all."""

MOST_PICTURED = 20
"""Trees and chains that a notebook shows as a picture."""


def merged(plans: Mapping[str, Plan] | Sequence[tuple[str, Plan]], chains: Sequence[SharedPlan] = ()) -> Plan:
    """Return one plan of those of several streams, by stream, and of chains of joins.

    Strategy, rate and price are those of the first stream that has a tree.

    >>> import weft
    >>> text = "SELECT count(*) AS n FROM {} [RANGE '2 s']"
    >>> plans = {stream: weft.plan(weft.sql(text.format(stream))) for stream in ("trades", "quotes")}
    >>> [tree.stream for tree in merged(plans).trees], merged(plans).cost == 2 * plans["trades"].cost
    (['trades', 'quotes'], True)
    """
    named = list(plans.items() if isinstance(plans, Mapping) else plans)
    parts = tuple(
        replace(plan, trees=tuple(replace(tree, stream=stream) for tree in plan.trees))
        for stream, plan in named
        if plan.trees
    )
    first = parts[0] if parts else named[0][1] if named else Plan((), "share-all", 1000.0)
    cost = PlanCost(sum(p.cost for p in parts), sum(p.alone for p in parts)) if parts else chain_cost(chains)
    return replace(
        first,
        trees=tuple(tree for part in parts for tree in part.trees),
        nodes=max((plan.nodes for _, plan in named), default=1),
        cost=cost.cost,
        alone=cost.alone,
        chains=tuple(chains),
        parts=parts if len(parts) > 1 else (),
    )


def chain_cost(chains: Iterable[SharedPlan]) -> PlanCost:
    """Comparisons per second that chains should make, and that their joins should make one by one.

    >>> chain_cost([])
    PlanCost(cost=0.0, alone=0.0)
    """
    costs = [(chain.cpu, chain.alone_cpu) for chain in chains]
    return PlanCost(sum((cpu for cpu, _ in costs), 0.0), sum((alone for _, alone in costs), 0.0))


def check_one_stream(plan: Plan) -> None:
    """Refuse a plan of joins, or of several streams, where one stream is answered by windows."""
    for join in plan.joins:
        window_query(join)
    if plan.parts:
        streams = dict.fromkeys(tree.stream for tree in plan.trees)
        raise QueryError(
            f"the plan is of several streams: {', '.join(streams)}", hint="give its queries instead"
        )


def _trees_text(plan: Plan) -> str:
    unit = f"{plan.price.unit}/s"
    total = f"{plan.cost:,.6g} {unit}"
    if plan.price.unit == "ns":
        total += f" ({plan.cost / 1e7:.2g}% of one core)"
    head = (
        f"{_counted(len(plan.queries), 'query', 'queries')} in {_counted(len(plan.trees), 'tree')} by "
        f"{plan.strategy}, at {plan.rate:,.6g} rows/s{' of each stream' * bool(plan.parts)}: {total}, "
        f"{plan.alone / plan.cost:.1f} times fewer than one by one ({plan.alone:,.6g})"
    )
    # Whose rows they are is clear where there is one stream.
    named = bool(plan.parts or plan.chains)
    rows = [("tree", *["stream"] * named, "queries", "edges/s", "technique", "node", unit, "which")]
    for number, tree in enumerate(plan.trees[:MOST_TREES]):
        rows.append(
            (
                str(number),
                *[tree.stream] * named,
                str(len(tree.queries)),
                f"{tree.edge_rate:.4g}",
                tree.answered_by,
                str(tree.node),
                f"{tree.cost:,.6g}",
                few([query.name for query in tree.queries]),
            )
        )
    lines = aligned(rows)
    if len(plan.trees) > MOST_TREES:
        lines.append(f"and {_counted(len(plan.trees) - MOST_TREES, 'more tree')}")
    if plan.nodes > 1:
        costs = ", ".join(f"{cost:,.6g}" for cost in plan.node_costs)
        lines.append(f"nodes: {costs} {unit}")
    return "\n".join([head, *lines])


def _counted(count: int, noun: str, plural: str = "") -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {plural or noun + 's'}"


def _tree_dict(tree: Tree) -> dict[str, Any]:
    return {
        **({"stream": tree.stream} if tree.stream else {}),
        "queries": [_query_dict(q) for q in tree.queries],
        "technique": tree.technique,
        "expected": list(tree.expected),
        "slicer": tree.slicer,
        "node": tree.node,
        "edge_rate": tree.edge_rate,
        "cost": tree.cost,
    }


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
