"""WG_TN: Weave Share, and its trees to the least busy nodes, dearest first (Shein 2019, algorithm 5).

As its text has it, merging ends once there are as few trees as nodes; the pseudocode would go on as long as
a merge saves anything, and leave nodes idle.
"""

from __future__ import annotations

from weft.planning.nodes.placing import to_lowest
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy
from weft.planning.weaving import weave_classes


@strategy("WG_TN", places=True)
def weave_group_to_nodes(problem: Problem) -> TreeAssignment:
    """Weave Share, then trees to the least busy nodes."""
    trees = TreeAssignment.of(weave_classes(problem, stop_at=problem.nodes))
    return trees.on(to_lowest(problem.costs(trees).trees, problem.capacities))
