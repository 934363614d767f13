"""weave-share: merge the pair of trees with the largest cost reduction until no merge reduces the cost.

Guirguis, Sharaf, Chrysanthis, Labrinidis, CIKM 2011, section 5.1, with the three optimizations of section 8.
By default they are taken further: the bitmaps of all trees are over the same instants, and common edges are
counted 64 at a time.
"""

from __future__ import annotations

from weft.optimize.counted import weave_counted
from weft.optimize.guard import no_worse
from weft.optimize.problem import Grouping, Problem
from weft.optimize.registry import strategy
from weft.optimize.weaving import weave_classes


@strategy("weave-share", cost_based=True)
def weave_share(
    problem: Problem,
    *,
    counter: str = "table",
    lookup: bool = True,
    bitmap: bool = True,
    smaller: bool = True,
) -> Grouping:
    """Greedy merging of the trees that gain most by it.

    ``counter`` names an exact edge counter to use instead of the common table. The other options turn off
    the paper's optimizations, to measure them: the cost look-up table, the edge bitmap, and probing with the
    tree that has fewer edges.
    """
    if counter == "table" and lookup and bitmap and smaller:
        return no_worse(problem, Grouping.of(weave_classes(problem)))
    return no_worse(problem, Grouping.of(weave_counted(problem, counter, lookup, bitmap, smaller)))
