"""A plan as the problem it solves, to be priced again where something about it changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.optimize.problem import Grouping, Problem
from weft.optimize.windows import Windows
from weft.plan import Plan


def problem_of(plan: Plan, capacities: Sequence[float] = ()) -> tuple[list[int], Problem, Grouping]:
    """The numbers of the plan's trees in time, the problem of their queries, each a class of its own, and how
    the plan solves it.

    >>> import weft
    >>> plan = weft.plan(weft.sql("SELECT count(*) AS n FROM t [RANGE '2 s']"))
    >>> trees, problem, grouping = problem_of(plan)
    >>> problem.costs(grouping).total == plan.cost
    True
    """
    timed = [number for number, tree in enumerate(plan.trees) if not tree.rows]
    trees = [plan.trees[number] for number in timed]
    technique, slicer = (trees[0].technique, trees[0].slicer) if trees else ("bulk", "pairs")
    shares = capacities or plan.capacities or (1.0,) * plan.nodes
    windows = Windows.of([query for tree in trees for query in tree.queries])
    problem = Problem.of(windows, plan.price, technique, shares, slicer, merge=False)
    tree_of = np.repeat(np.arange(len(trees)), [len(tree.queries) for tree in trees])
    return timed, problem, Grouping(tree_of, np.array([tree.node for tree in trees], dtype=np.int64))
