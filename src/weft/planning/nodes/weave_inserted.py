"""W_I: each class into the one tree of the node that is least busy with it (Shein 2019, algorithm 6)."""

from __future__ import annotations

from weft.planning.nodes.assigning import assign
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy


@strategy("W_I", places=True)
def weave_inserted(problem: Problem, *, shuffled: bool = False) -> TreeAssignment:
    """One tree per node, each class where the node stays least busy.

    Classes come dearest first; ``shuffled``, in random order as in the thesis.
    """
    order = problem.random.permutation(len(problem)) if shuffled else None
    return assign(problem, inserted=True, group=False, order=order)
