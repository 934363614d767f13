"""W_TN: Weave Share until there are no more trees than nodes, at a loss if need be (Shein 2019, algorithm 5).

As its text has it, merging ends once there are as few trees as nodes; the pseudocode would go on as long as
a merge saves anything, and leave nodes idle.
"""

from __future__ import annotations

from weft.planning.nodes.placing import to_lowest
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy
from weft.planning.weaving import weave_classes


@strategy("W_TN", places=True)
def weave_to_nodes(problem: Problem) -> TreeAssignment:
    """Weave Share down to one tree per node."""
    trees = TreeAssignment.of(weave_classes(problem, stop_at=problem.nodes, force_to=problem.nodes))
    return trees.on(to_lowest(problem.costs(trees).trees, problem.capacities))
