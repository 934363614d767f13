"""weave-balance: total cost no higher than WG_TN's and the busiest node no busier than WG_I's, ours.

WG_TN weaves for the lowest total and leaves nodes unbalanced; WG_I balances and pays for it in total. Here
both are made, as bounds and as starting points, beside a third that weaves at this strategy's own price;
annealing then goes from each towards both bounds, and the best end is taken. Nodes are priced as reading the
stream once each (TriWeave on every node), which is how the trees of one node can be run; priced as *separate*
the two bounds cannot always be met together, and then the least violation is taken.
"""

from __future__ import annotations

import numpy as np

from weft.optimize.nodes.annealing import anneal
from weft.optimize.nodes.placing import to_lowest
from weft.optimize.nodes.weave_group_inserted import weave_group_inserted
from weft.optimize.nodes.weave_group_to_nodes import weave_group_to_nodes
from weft.optimize.problem import Grouping, Problem
from weft.optimize.registry import strategy
from weft.optimize.table import count_rows
from weft.optimize.weaving import weave_classes

MOST_CLASSES = 1024
WORDS = 2048
WORK = 1 << 31
MARGIN = 1e-5


@strategy("weave-balance", places=True, model="per-node")
def weave_balance(problem: Problem, *, steps: int = 20_000) -> Grouping:
    """The total of WG_TN and the balance of WG_I or better, by annealing from both."""
    baseline = problem.priced(problem.price.separate() if problem.price.node else problem.price)
    starts = [weave_group_to_nodes(baseline), weave_group_inserted(baseline)]
    own = Grouping.of(weave_classes(problem))
    starts.append(own.on(to_lowest(problem.costs(own).trees, problem.capacities)))
    most_total = baseline.costs(starts[0]).total
    most_busy = baseline.costs(starts[1]).largest(problem.capacities)
    ends = list(starts)
    if len(problem) <= MOST_CLASSES and problem.nodes > 1:
        ends += [_anneal(problem, start, most_total, most_busy, steps) for start in starts]

    def violation(grouping: Grouping) -> tuple[float, float]:
        costs = problem.costs(grouping)
        ratios = costs.total / most_total, costs.largest(problem.capacities) / most_busy
        return max(*ratios, 1.0), sum(ratios)

    return min(ends, key=violation)


def _anneal(problem: Problem, start: Grouping, most_total: float, most_busy: float, steps: int) -> Grouping:
    table, price = problem.table, problem.price
    bits = np.ascontiguousarray(table.bits[:, :WORDS])
    steps = min(steps, WORK // bits.shape[1] // 8)
    node_of = np.zeros(len(problem), dtype=np.int64)
    node_of[: start.trees] = start.node_of
    tree_of, node_of = anneal(
        bits,
        count_rows(bits),
        table.rates,
        np.arange(len(problem)),
        problem.loads,
        problem.code,
        np.array([price.node, price.tree, price.combine, price.answer, price.lone_free]),
        problem.capacities,
        start.tree_of.copy(),
        node_of,
        (most_total - price.base) * (1 - MARGIN),
        most_busy * (1 - MARGIN),
        steps,
        problem.seed,
    )
    return Grouping.of(tree_of, node_of)
