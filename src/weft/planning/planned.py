"""A plan as the problem it solves, to be priced again where something about it changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weft.planning.plan import Plan, check_one_stream
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.windows import Windows


class SolvedProblem(NamedTuple):
    """The numbers of a plan's trees in time, the problem of their queries, and how the plan solves it."""

    timed: list[int]
    problem: Problem
    assignment: TreeAssignment


def problem_of(plan: Plan, capacities: Sequence[float] = ()) -> SolvedProblem:
    """Return the problem that a plan solves, each query a class of its own.

    >>> import weft
    >>> plan = weft.plan(weft.sql("SELECT count(*) AS n FROM t [RANGE '2 s']"))
    >>> trees, problem, grouping = problem_of(plan)
    >>> problem.costs(grouping).total == plan.cost
    True
    """
    check_one_stream(plan)
    timed = [number for number, tree in enumerate(plan.trees) if not tree.rows]
    trees = [plan.trees[number] for number in timed]
    technique, slicer = (trees[0].technique, trees[0].slicer) if trees else ("bulk", "pairs")
    shares = capacities or plan.capacities or (1.0,) * plan.nodes
    windows = Windows.of([query for tree in trees for query in tree.queries])
    problem = Problem.of(windows, plan.price, technique, shares, slicer, merge=False)
    tree_of = np.repeat(np.arange(len(trees)), [len(tree.queries) for tree in trees])
    node_of = np.array([tree.node for tree in trees], dtype=np.int64)
    return SolvedProblem(timed, problem, TreeAssignment(tree_of, node_of))
