"""Prices: what a plan costs, as ``base + sum over trees of (tree + combine * E * Omega + answer * answers)``.

*Separate* trees each read the stream, as in Guirguis et al., CIKM 2011: ``m*lambda + sum E_i*Omega_i``.
*Composite* trees get their slices from one shared stream of partials, as in TriWeave: the stream is read once,
and each tree merges the composite's slices into its own. The papers give no formula for it; ours is
``lambda + m*E_all + sum E_i*Omega_i``, E_all the edge rate of the composite of all trees.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weft.cost.constants import Constants
from weft.errors import QueryError

MODELS = ("separate", "composite")


@dataclass(frozen=True, slots=True)
class Price:
    """What is paid once, per tree, per final operation and per answered window; in ``unit`` per second."""

    base: float
    tree: float
    combine: float = 1.0
    answer: float = 0.0
    unit: str = "operations"

    def of_tree(self, edges: float, omega: float, answers: float = 0.0) -> float:
        """What one tree costs, the base apart.

        >>> Price(base=0.0, tree=1.2).of_tree(edges=0.25, omega=6.0)
        2.7
        """
        return self.tree + self.combine * edges * omega + self.answer * answers


def find_price(
    model: str,
    rate: float,
    composite: float,
    constants: Constants | None = None,
    predicates: int = 0,
    groups: float = 1.0,
) -> Price:
    """The price of a model at ``rate`` rows per second, where all edges together are ``composite`` per second.

    With constants, in nanoseconds, for so many predicates and groups (the mean number per slice).

    >>> find_price("composite", rate=100.0, composite=0.44)
    Price(base=100.0, tree=0.44, combine=1.0, answer=0.0, unit='operations')
    """
    if model not in MODELS:
        raise QueryError(f"no cost model is called {model!r}", hint=f"choose one of {', '.join(MODELS)}")
    if constants is None:
        return Price(0.0, rate) if model == "separate" else Price(rate, composite)
    reading = rate * (constants.row + predicates * constants.predicate)
    merging = composite * groups * constants.merge
    base, tree = (0.0, reading) if model == "separate" else (reading, merging)
    return Price(base, tree, groups * constants.combine, groups * constants.answer, "ns")


def separate_cost(rate: float, trees: Iterable[tuple[float, float]]) -> float:
    """``m*lambda + sum E_i*Omega_i`` of trees given as (E, Omega).

    >>> round(separate_cost(1.2, [(0.25, 6.0), (0.2, 2.0)]), 9)
    4.3
    """
    price = find_price("separate", rate, 0.0)
    return price.base + sum(price.of_tree(edges, omega) for edges, omega in trees)


def composite_cost(rate: float, composite: float, trees: Iterable[tuple[float, float]]) -> float:
    """``lambda + m*E_all + sum E_i*Omega_i`` of trees given as (E, Omega).

    >>> round(composite_cost(1.2, 0.4, [(0.25, 6.0), (0.2, 2.0)]), 9)
    3.9
    """
    price = find_price("composite", rate, composite)
    return price.base + sum(price.of_tree(edges, omega) for edges, omega in trees)
