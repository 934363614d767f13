"""Prices: the cost of a plan, from the operations of its trees.

*Separate* trees each read the stream, as in Guirguis et al., CIKM 2011: ``m*lambda + sum E_i*Omega_i``.
*Composite* trees get their slices from one shared stream of partials, as in TriWeave: the stream is read
once, and each tree merges the composite's slices into its own. The papers give no formula for it; ours is
``lambda + m*E_all + sum E_i*Omega_i``, E_all the edge rate of the composite of all trees. *Per node*,
TriWeave on each of many nodes: every node with a tree reads the stream once, and its trees merge slices
unless there is only one: ``sum over nodes of lambda + m_k*E_all [m_k > 1] + sum E_i*Omega_i``.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import QueryError
from weft.planning.cost.constants import Constants

MODELS = ("separate", "per-node", "composite")


@dataclass(frozen=True, slots=True)
class Price:
    """Amounts paid once, per node with a tree, per tree, per final operation and per answered window.

    Where ``lone_free``, a tree that is alone on its node does not pay the price of a tree.
    """

    base: float = 0.0
    node: float = 0.0
    tree: float = 0.0
    combine: float = 1.0
    answer: float = 0.0
    lone_free: bool = False
    unit: str = "operations"

    @property
    def reading(self) -> float:
        """The price of reading the stream once, whoever pays for it."""
        return self.base or self.node or self.tree

    def separate(self) -> Price:
        """Return the same where each tree reads the stream.

        >>> find_price("composite", 100.0, composite=0.44).separate() == find_price("separate", 100.0)
        True
        """
        return Price(0.0, 0.0, self.reading, self.combine, self.answer, False, self.unit)


def find_price(
    model: str,
    rate: float,
    composite: float = 0.0,
    constants: Constants | None = None,
    predicates: int = 0,
    groups: float = 1.0,
) -> Price:
    """Return the price of a model at ``rate`` rows and ``composite`` edges, of all trees together, a second.

    With constants, in nanoseconds, for so many predicates and groups (the mean number per slice).

    >>> price = find_price("composite", rate=100.0, composite=0.44)
    >>> price.base, price.tree, price.unit
    (100.0, 0.44, 'operations')
    """
    if model not in MODELS:
        raise QueryError(f"no cost model is called {model!r}", hint=f"choose one of {', '.join(MODELS)}")
    cost = constants or Constants(row=1.0, combine=1.0, answer=0.0, merge=1.0, predicate=0.0)
    reading = rate * (cost.row + predicates * cost.predicate)
    merging = composite * groups * cost.merge
    more = (groups * cost.combine, groups * cost.answer)
    unit = "operations" if constants is None else "ns"
    if model == "separate":
        return Price(0.0, 0.0, reading, *more, unit=unit)
    if model == "per-node":
        return Price(0.0, reading, merging, *more, lone_free=True, unit=unit)
    return Price(reading, 0.0, merging, *more, unit=unit)
