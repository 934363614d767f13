"""The operations measured, and which techniques run them."""

from __future__ import annotations

from weft.aggregates.monoid import ADD, MAX, MIN, Monoid
from weft.final import TECHNIQUES, Technique

OPERATIONS = {
    "sum": Monoid(ADD, 1, invertible=True),
    "max": Monoid(MAX, 1, selective=True),
    "min": Monoid(MIN, 1, selective=True),
}


def contestants(operation: str) -> dict[str, type[Technique]]:
    """The techniques that run an operation: of two variants only the one that is made for it.

    >>> "slickdeque_inv" in contestants("sum"), "slickdeque" in contestants("sum")
    (True, False)
    """
    monoid = OPERATIONS[operation]
    fit = {name: t for name, t in TECHNIQUES.items() if not t.card.lacks(monoid)}
    return {name: t for name, t in fit.items() if f"{name}_inv" not in fit}


def usual_operation(name: str) -> str:
    """The operation that stands for a technique where one is enough: a sum where it needs an inverse.

    >>> usual_operation("soe"), usual_operation("flatfit")
    ('sum', 'max')
    """
    return "sum" if TECHNIQUES[name].card.lacks(OPERATIONS["max"]) else "max"
