"""triweave: Weave Share over one shared stream of composite slices.

S. Guirguis, M. Sharaf, P. Chrysanthis, A. Labrinidis, Three-Level Processing of Multiple Aggregate Continuous
Queries, ICDE 2012, and Shein 2019, section 2.4.2. The stream is read and partially aggregated once for all
trees, so a further tree costs merging the composite's slices into its own, not reading the rows again.
"""

from __future__ import annotations

from weft.planning.guard import no_worse
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy
from weft.planning.weaving import weave_classes


@strategy("triweave", cost_based=True, model="composite")
def triweave(problem: Problem) -> TreeAssignment:
    """Greedy merging where all trees get their slices from one composite."""
    return no_worse(problem, TreeAssignment.of(weave_classes(problem)))
