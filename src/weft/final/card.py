"""Algorithm cards: needs, costs and paper of an algorithm, and what to mend in the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weft.aggregates.monoid import ADD, AFFINE, MAX, MIN, MOMENTS, PRODUCT, SUM_FLOAT, SUM_INT, Monoid
from weft.errors import QueryError

NEEDS: dict[str, tuple[str, Callable[[Monoid], bool]]] = {
    "associative": ("an associative combine", lambda monoid: True),
    "inverse": ("an exact inverse", lambda monoid: monoid.invertible),
    "selective": ("a combine that gives either of its arguments", lambda monoid: monoid.selective),
}
"""Needs that an algorithm may have of a monoid: in words, and as a test."""

NAMES = {
    ADD: "a count",
    SUM_INT: "a sum of integers",
    SUM_FLOAT: "a sum of floats",
    MIN: "a minimum",
    MAX: "a maximum",
    MOMENTS: "a variance",
    PRODUCT: "a product",
    AFFINE: "an affine map",
}


@dataclass(frozen=True, slots=True)
class Card:
    """An algorithm in a few lines: operations per slide for a window of n partials, space in partials."""

    title: str
    paper: str
    amortised: str
    worst: str
    all_queries: str
    space: str
    needs: frozenset[str] = frozenset({"associative"})
    erratum: str = ""

    def lacks(self, monoid: Monoid) -> list[str]:
        """Return the needs of the algorithm that the monoid does not meet.

        >>> card = Card("subtract-on-evict", "", "2", "2", "", "n", frozenset({"associative", "inverse"}))
        >>> card.lacks(Monoid(MAX, 1, selective=True))
        ['an exact inverse']
        """
        return [words for need, (words, has) in NEEDS.items() if need in self.needs and not has(monoid)]

    def check(self, monoid: Monoid, label: str = "", hint: str | None = None) -> None:
        """Raise QueryError unless the algorithm can run the monoid, which the message calls ``label``."""
        unmet = self.lacks(monoid)
        if unmet:
            label = label or NAMES.get(monoid.code, "this aggregate")
            raise QueryError(f"{self.title} needs {' and '.join(unmet)}, which {label} has not", hint=hint)
