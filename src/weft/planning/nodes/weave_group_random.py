"""WG_RAND: classes on nodes at random, there into any tree or a new one (Shein 2019, section 6.4)."""

from __future__ import annotations

from weft.planning.nodes.choosing import choose_trees
from weft.planning.nodes.placing import at_random
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy


@strategy("WG_RAND", places=True)
def weave_group_random(problem: Problem) -> TreeAssignment:
    """Nodes at random, trees at random."""
    random = problem.random
    return choose_trees(at_random(problem), lambda trees: int(random.integers(0, trees + 1)))
