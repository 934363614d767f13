"""The techniques, found in the modules of this package; which one runs a monoid, and which cannot."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weft.aggregates.monoid import Monoid
from weft.errors import QueryError
from weft.final.costs import cheapest
from weft.final.runs import total_length
from weft.final.technique import Technique


def _discover() -> dict[str, type[Technique]]:
    techniques = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)], f"{__package__}."):
        for member in vars(importlib.import_module(module.name)).values():
            if isinstance(member, type) and issubclass(member, Technique) and hasattr(member, "name"):
                techniques[member.name] = member
    return dict(sorted(techniques.items()))


TECHNIQUES: dict[str, type[Technique]] = _discover()
"""Every technique by its name."""

AUTO = "auto"
"""The name that leaves the choice to the costs of each call."""


@dataclass(frozen=True, slots=True)
class ChosenTechnique:
    """A technique chosen by name for a whole tree, whose parts may each need their own variant of it."""

    name: str

    def answer(self, monoid: Monoid, states: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return one state per run ``[low[k], high[k])`` of the states, which are those of one part.

        >>> from weft.aggregates.monoid import ADD, Monoid
        >>> states, low, high = np.array([[6], [5], [0], [1]]), np.array([0, 1]), np.array([3, 4])
        >>> technique("auto").answer(Monoid(ADD, 1, invertible=True), states, low, high).ravel().tolist()
        [11, 6]
        """
        name = self.name
        if name == AUTO:
            name = cheapest(monoid, len(states), len(low), total_length(low, high))
        return technique_for(name, monoid)(monoid, states).answer(low, high)


def technique(name: str) -> ChosenTechnique:
    """Return the technique of this name, or ``auto``.

    >>> technique("daba-lite").name
    'daba_lite'
    """
    canonical = name.replace("-", "_")
    if canonical not in TECHNIQUES and canonical != AUTO:
        raise QueryError(
            f"no technique is called {name!r}", hint=f"choose auto or one of {', '.join(TECHNIQUES)}"
        )
    return ChosenTechnique(canonical)


def technique_for(name: str, monoid: Monoid) -> type[Technique]:
    """Return the technique, in its variant for invertible monoids where it has one and the monoid is.

    >>> from weft.aggregates.monoid import ADD, MAX, Monoid
    >>> technique_for("slideside", Monoid(ADD, 1, invertible=True)).name
    'slideside_inv'
    >>> technique_for("slideside", Monoid(MAX, 1, selective=True)).name
    'slideside'
    """
    chosen = technique(name).name
    if monoid.invertible and f"{chosen}_inv" in TECHNIQUES:
        return TECHNIQUES[f"{chosen}_inv"]
    return TECHNIQUES[chosen]


def fits(name: str, monoid: Monoid) -> bool:
    """Return whether the technique can run the monoid; ``auto`` can run any."""
    return name == AUTO or not technique_for(name, monoid).card.lacks(monoid)


def check_technique(name: str, monoids: Mapping[str, Monoid]) -> None:
    """Raise QueryError unless the technique can run all parts of a tree: their names, and their monoids.

    >>> from weft.aggregates.monoid import ADD, MAX, Monoid
    >>> check_technique("soe", {"count(*)": Monoid(ADD, 1, invertible=True)})
    >>> check_technique("soe", {"max(price)": Monoid(MAX, 1, selective=True)})
    Traceback (most recent call last):
    weft.errors.QueryError: subtract-on-evict needs an exact inverse, which max(price) has not; choose auto...
    """
    for label, monoid in monoids.items():
        if not fits(name, monoid):
            card = technique_for(name, monoid).card
            others = [t for t in TECHNIQUES if all(fits(t, m) for m in monoids.values())]
            card.check(monoid, label, hint=f"choose auto or one of {', '.join(others)}")
