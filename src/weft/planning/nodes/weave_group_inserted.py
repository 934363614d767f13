"""WG_I: each class to the node that is least busy with it, woven there or not (Shein 2019, algorithm 6)."""

from __future__ import annotations

from weft.planning.nodes.assigning import assign
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy


@strategy("WG_I", places=True)
def weave_group_inserted(problem: Problem, *, shuffled: bool = False) -> TreeAssignment:
    """Each class where the node stays least busy, woven there or not.

    Classes come dearest first; ``shuffled``, in random order as in the thesis.
    """
    order = problem.random.permutation(len(problem)) if shuffled else None
    return assign(problem, inserted=True, group=True, order=order)
