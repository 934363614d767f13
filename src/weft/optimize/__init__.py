"""The planner: queries in, a Plan out. One strategy, one file; found here by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from weft.cost import edges_per_second, final_operations
from weft.errors import QueryError
from weft.final import technique as find_technique
from weft.optimize.no_share import no_share
from weft.optimize.share_all import share_all
from weft.plan import Plan, Tree
from weft.query import Query
from weft.slicing import SLICERS

if TYPE_CHECKING:
    from weft.builder import QueryBuilder

Strategy = Callable[[tuple[Query, ...], float], list[tuple[Query, ...]]]

STRATEGIES: dict[str, Strategy] = {"share-all": share_all, "no-share": no_share}


def plan(
    queries: Iterable[Query | QueryBuilder],
    rate: float = 1000.0,
    strategy: str = "share-all",
    nodes: int = 1,
    technique: str = "auto",
    slicer: str = "pairs",
) -> Plan:
    """Decide what is shared: trees of queries, a technique and a node for each, and the estimated cost.

    >>> import weft
    >>> queries = weft.sql("SELECT sum(price) AS s FROM trades [RANGE '12 min' SLIDE '5 min']")
    >>> len(plan(queries, rate=375.0).trees)
    1
    """
    chosen = tuple(q if isinstance(q, Query) else q.build() for q in queries)
    if not chosen:
        raise QueryError("there is no query to plan")
    if not rate > 0:
        raise QueryError(f"the rate must be positive rows per second, not {rate}")
    if nodes < 1:
        raise QueryError(f"there must be at least one node, not {nodes}")
    if strategy not in STRATEGIES:
        raise QueryError(f"no strategy is called {strategy!r}", hint=f"choose one of {', '.join(STRATEGIES)}")
    if slicer not in SLICERS:
        raise QueryError(f"no slicer is called {slicer!r}", hint=f"choose one of {', '.join(SLICERS)}")
    name = find_technique(technique).name
    groups = STRATEGIES[strategy](chosen, rate)
    trees = tuple(_tree(g, name, i % nodes, slicer, rate) for i, g in enumerate(groups))
    alone = sum(_tree((q,), name, 0, slicer, rate).cost for q in chosen)
    return Plan(trees, strategy, rate, nodes, sum(t.cost for t in trees), alone)


def _tree(queries: tuple[Query, ...], technique: str, node: int, slicer: str, rate: float) -> Tree:
    tree = Tree(queries, technique, node, slicer)
    edges = edges_per_second(tree.progressions)
    return Tree(queries, technique, node, slicer, edges, rate + final_operations(queries, technique, edges))


__all__ = ["STRATEGIES", "plan"]
