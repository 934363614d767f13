"""random: queries thrown into trees at random; the strategy every other should beat."""

from __future__ import annotations

from weft.errors import QueryError
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy


@strategy("random")
def random_trees(problem: Problem, *, trees: int | None = None) -> TreeAssignment:
    """Each class in a tree drawn at random, of as many as there are classes or of ``trees``."""
    if trees is not None and trees < 1:
        raise QueryError(f"there must be at least one tree, not {trees}")
    return TreeAssignment.of(problem.random.integers(0, trees or len(problem), len(problem)))
