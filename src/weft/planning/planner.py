"""plan(): queries in, a Plan out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from weft.errors import QueryError
from weft.final import AUTO
from weft.final import technique as find_technique
from weft.model.join import JoinQuery, built_query
from weft.model.names import check_names
from weft.model.query import Buildable, Query
from weft.planning.cost.constants import Constants
from weft.planning.cost.expected import expected_techniques
from weft.planning.cost.price import Price, find_price
from weft.planning.joins.chain_plan import read_shape
from weft.planning.joins.feeding import result_queries
from weft.planning.joins.plan import plan_joins
from weft.planning.nodes.placing import to_lowest
from weft.planning.plan import JOINED, Plan, merged
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import Strategy, find_strategy
from weft.planning.rows import ROW_A_MICROSECOND, at_rate, joined, numbered_alike
from weft.planning.tree import Tree
from weft.planning.windows import SECOND, Edges, Windows
from weft.slicing import SLICERS
from weft.slicing.rate import measure_rate


def plan(  # noqa: PLR0913 (the keywords are public)
    queries: Iterable[Query | Buildable | JoinQuery],
    rate: float = 1000.0,
    strategy: str = "share-all",
    nodes: int = 1,
    technique: str = "auto",
    slicer: str = "pairs",
    *,
    capacities: Sequence[float] | None = None,
    model: str | None = None,
    constants: Constants | None = None,
    groups: float = 1.0,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    streams: Collection[str] | None = None,
    chain: str | float = "mem-opt",
) -> Plan:
    """Decide what is shared: trees of window queries, chains of joins, and the estimated cost.

    Each tree has a technique and a node.

    ``capacities`` gives nodes of different strength instead of ``nodes`` equal ones. ``model`` prices trees
    as *separate* (each reads the stream) or *composite* (the stream is read once); by default as the strategy
    does. With ``constants`` costs are nanoseconds instead of operations, for so many ``groups`` per slice.
    ``options`` are the strategy's own. ``streams`` are the names that FROM may have, where they are known.
    ``chain`` says how joins are sliced: *mem-opt*, *cpu-opt*, or the most rows that a chain may keep.

    Window queries over different streams never share a tree; without ``streams`` and joins all are over one
    stream, whatever FROM calls it. Queries over results of joins have trees of their own.

    >>> import weft
    >>> queries = weft.sql("SELECT sum(price) AS s FROM trades [RANGE '12 min' SLIDE '5 min']")
    >>> len(plan(queries, rate=375.0).trees)
    1
    >>> queries += weft.sql('''-- name: near
    ...     SELECT t.price FROM trades t [RANGE '1 min'], quotes q [RANGE '1 min'] WHERE t.price < q.bid''')
    >>> len(plan(queries).trees), len(plan(queries).chains)
    (1, 1)
    """
    all_queries = list(map(built_query, queries))
    if not all_queries:
        raise QueryError("there is no query to plan")
    check_names(all_queries, streams)
    if not (rate > 0 and isfinite(rate)):
        raise QueryError(f"the rate must be positive rows per second, not {rate}")
    shares = check_capacities(nodes, capacities)
    chosen = find_strategy(strategy)
    cost_model = model or chosen.model
    if slicer not in SLICERS:
        raise QueryError(f"no slicer is called {slicer!r}", hint=f"choose one of {', '.join(SLICERS)}")
    name = find_technique(technique).name

    def planned(members: Sequence[Query], by: Strategy, rate: float) -> Plan:
        windows = Windows.of(members)
        price = make_price(windows, slicer, rate, cost_model, constants, _predicates(members), groups)
        problem = Problem.of(windows, price, name, shares, slicer, by.merge, seed)
        grouping = solve(problem, by, options if by is chosen else None)
        return make_plan(members, problem, grouping, strategy, rate, slicer, cost_model, groups)

    def planned_stream(members: Sequence[Query]) -> Plan:
        in_time = [q for q in members if not q.window.rows]
        plans = [planned(in_time, chosen, rate)] if in_time else []
        for alike in numbered_alike([q for q in members if q.window.rows]):
            plans.append(at_rate(planned(alike, find_strategy("share-all"), ROW_A_MICROSECOND), rate))
        return joined(plans, members) if len(plans) > 1 else plans[0]

    joins = [q for q in all_queries if isinstance(q, JoinQuery)]
    chains = plan_joins(joins, rate, read_shape(chain) if isinstance(chain, str) else chain)
    by_stream = _by_stream(all_queries, bool(joins) or streams is not None)
    plans = [(stream, planned_stream(members)) for stream, members in by_stream.items()]
    if results := result_queries(joins):
        aggregates = [join.aggregate for join in joins if join.aggregate is not None]
        plans.append((JOINED, planned_stream(results).with_queries(aggregates)))
    empty = Plan((), strategy, rate, len(shares), model=cost_model, capacities=shares)
    together = merged(plans or [(JOINED, empty)], chains)
    return together if chosen.places else _spread(together, shares)


def solve(problem: Problem, strategy: Strategy, options: Mapping[str, Any] | None = None) -> TreeAssignment:
    """Return the strategy's grouping; trees it leaves without a node go to the least busy, dearest first."""
    grouping = strategy(problem, options)
    if strategy.places or problem.nodes == 1:
        return grouping
    return grouping.on(to_lowest(problem.costs(grouping).trees, problem.capacities))


def make_price(
    windows: Windows,
    slicer: str,
    rate: float,
    model: str,
    constants: Constants | None = None,
    predicates: int = 0,
    groups: float = 1.0,
) -> Price:
    """Return the price of trees of these windows."""
    composite = 0.0
    if model != "separate":
        edges = Edges.of(windows, slicer)
        composite = measure_rate(edges[edges.classes()[0]].progressions()).value * SECOND
    return find_price(model, rate, composite, constants, predicates, groups)


def make_plan(
    queries: Sequence[Query],
    problem: Problem,
    grouping: TreeAssignment,
    strategy: str,
    rate: float,
    slicer: str,
    model: str,
    groups: float = 1.0,
) -> Plan:
    """Return the Plan of a grouping, with its costs."""
    # Trees in order of their first query, which is how a reader meets them.
    tree_of = grouping.tree_of[problem.class_of]
    _, first = np.unique(tree_of, return_index=True)
    order = np.argsort(first)
    grouping = TreeAssignment(np.argsort(order)[grouping.tree_of], grouping.node_of[order])
    tree_of = grouping.tree_of[problem.class_of]
    costs = problem.costs(grouping)
    members: list[list[Query]] = [[] for _ in range(grouping.trees)]
    for query, tree in zip(queries, tree_of.tolist()):
        members[tree].append(query)
    auto = problem.technique == AUTO
    trees = tuple(
        Tree(
            tuple(tree_queries),
            problem.technique,
            node,
            slicer,
            edges,
            cost,
            expected_techniques(tree_queries, edges, groups) if auto else (),
        )
        for tree_queries, node, edges, cost in zip(
            members, grouping.node_of.tolist(), costs.edges.tolist(), costs.trees.tolist()
        )
    )
    return Plan(
        trees,
        strategy,
        rate,
        problem.nodes,
        costs.total,
        alone_cost(problem),
        model=model,
        capacities=tuple(problem.capacities.tolist()),
        price=problem.price,
    )


def alone_cost(problem: Problem) -> float:
    """Return the cost of the queries one by one, each reading the stream."""
    classes = np.arange(len(problem.windows))
    alone = replace(
        problem,
        class_of=classes,
        edges=problem.edges[problem.class_of],
        price=problem.price.separate(),
        capacities=np.ones(1),
    )
    return alone.costs(TreeAssignment(classes, np.zeros_like(classes))).total


def check_capacities(nodes: int, capacities: Sequence[float] | None) -> tuple[float, ...]:
    """Return the nodes' capacities, checked."""
    if capacities is None:
        if nodes < 1:
            raise QueryError(f"there must be at least one node, not {nodes}")
        return (1.0,) * nodes
    if not capacities or not all(c > 0 and isfinite(c) for c in capacities):
        raise QueryError(f"every node's capacity must be positive, not {list(capacities)}")
    if nodes not in (1, len(capacities)):
        raise QueryError(
            f"there are {nodes} nodes but {len(capacities)} capacities", hint="give one of the two"
        )
    return tuple(capacities)


def _spread(plan: Plan, capacities: Sequence[float]) -> Plan:
    """Place the trees of several streams together, where their cost is the same on any node."""
    if not plan.parts or plan.model == "per-node" or len(capacities) == 1:
        return plan
    nodes = to_lowest(np.array([tree.cost for tree in plan.trees]), np.array(capacities)).tolist()
    trees = [replace(tree, node=node) for tree, node in zip(plan.trees, nodes)]
    ends = np.cumsum([len(part.trees) for part in plan.parts])[:-1].tolist()
    parts = [
        replace(part, trees=tuple(trees[start:end]))
        for part, start, end in zip(plan.parts, [0, *ends], [*ends, len(trees)])
    ]
    return replace(plan, trees=tuple(trees), parts=tuple(parts))


def _by_stream(queries: Iterable[Query | JoinQuery], named: bool) -> dict[str, list[Query]]:
    """Return the window queries by the stream that they read; where streams have no names, all read one."""
    by_stream: dict[str, list[Query]] = {}
    for query in queries:
        if isinstance(query, Query):
            by_stream.setdefault(query.source if named else "", []).append(query)
    return by_stream


def _predicates(queries: Sequence[Query]) -> int:
    return len({q.predicate for q in queries if q.predicate is not None})
