"""weave-balance: total cost no higher than WG_TN's and the busiest node no busier than WG_I's, ours.

WG_TN weaves for the lowest total and leaves nodes unbalanced; WG_I balances and pays for it in total. Here
both are made, as bounds and as starting points, beside a third that weaves at this strategy's own price;
annealing then goes from each towards both bounds, and the best end is taken. Nodes are priced as reading the
stream once each (TriWeave on every node), which is how the trees of one node can be run; priced as *separate*
the two bounds cannot always be met together, and then the least violation is taken.
"""

from __future__ import annotations

import numpy as np

from weft.planning.nodes.annealing import ClassEdges, CostBounds, NodePrice, Placement, TreeParts, anneal
from weft.planning.nodes.placing import to_lowest
from weft.planning.nodes.weave_group_inserted import weave_group_inserted
from weft.planning.nodes.weave_group_to_nodes import weave_group_to_nodes
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy
from weft.planning.table import count_rows
from weft.planning.weaving import weave_classes

MAX_CLASSES = 1024
MAX_TABLE_WORDS = 2048
MAX_WORD_STEPS = 1 << 31
BOUND_MARGIN = 1e-5


@strategy("weave-balance", places=True, model="per-node")
def weave_balance(problem: Problem, *, steps: int = 20_000) -> TreeAssignment:
    """The total of WG_TN and the balance of WG_I or better, by annealing from both."""
    baseline = problem.priced(problem.price.separate() if problem.price.node else problem.price)
    starts = [weave_group_to_nodes(baseline), weave_group_inserted(baseline)]
    own = TreeAssignment.of(weave_classes(problem))
    starts.append(own.on(to_lowest(problem.costs(own).trees, problem.capacities)))
    most_total = baseline.costs(starts[0]).total
    most_busy = baseline.costs(starts[1]).largest(problem.capacities)
    ends = list(starts)
    if len(problem) <= MAX_CLASSES and problem.nodes > 1:
        bounds = CostBounds(most_total, most_busy)
        ends += [_anneal(problem, start, bounds, steps) for start in starts]

    def violation(grouping: TreeAssignment) -> tuple[float, float]:
        costs = problem.costs(grouping)
        ratios = costs.total / most_total, costs.largest(problem.capacities) / most_busy
        return max(*ratios, 1.0), sum(ratios)

    return min(ends, key=violation)


def _anneal(problem: Problem, start: TreeAssignment, bounds: CostBounds, steps: int) -> TreeAssignment:
    table, price = problem.table, problem.price
    bits = np.ascontiguousarray(table.bits[:, :MAX_TABLE_WORDS])
    steps = min(steps, MAX_WORD_STEPS // bits.shape[1] // 8)
    node_of = np.zeros(len(problem), dtype=np.int64)
    node_of[: start.trees] = start.node_of
    tree_of, node_of = anneal(
        ClassEdges(bits, count_rows(bits), table.rates),
        TreeParts(np.arange(len(problem)), problem.loads),
        NodePrice(problem.code, price.node, price.tree, price.combine, price.answer, price.lone_free),
        problem.capacities,
        Placement(start.tree_of.copy(), node_of),
        CostBounds((bounds.total - price.base) * (1 - BOUND_MARGIN), bounds.busiest * (1 - BOUND_MARGIN)),
        steps,
        problem.seed,
    )
    return TreeAssignment.of(tree_of, node_of)
