"""weave-share: merge the pair of trees with the largest cost reduction until no merge reduces the cost.

Guirguis, Sharaf, Chrysanthis, Labrinidis, CIKM 2011, section 5.1, with the three optimizations of section 8.
By default they are taken further: the bitmaps of all trees are over the same instants, and common edges are
counted 64 at a time.
"""

from __future__ import annotations

from weft.planning.counted import weave_counted
from weft.planning.guard import no_worse
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy
from weft.planning.weaving import weave_classes


@strategy("weave-share", cost_based=True)
def weave_share(
    problem: Problem,
    *,
    counter: str = "table",
    lookup: bool = True,
    bitmap: bool = True,
    smaller: bool = True,
) -> TreeAssignment:
    """Greedy merging of the trees that gain most by it.

    ``counter`` names an exact edge counter to use instead of the common table. The other options turn off
    the paper's optimizations, to measure them: the cost look-up table, the edge bitmap, and probing with the
    tree that has fewer edges.
    """
    if counter == "table" and lookup and bitmap and smaller:
        return no_worse(problem, TreeAssignment.of(weave_classes(problem)))
    return no_worse(problem, TreeAssignment.of(weave_counted(problem, counter, lookup, bitmap, smaller)))
