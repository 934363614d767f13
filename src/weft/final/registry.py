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
from weft.final.technique import Technique


def _discover() -> dict[str, type[Technique]]:
    found = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)], f"{__package__}."):
        for member in vars(importlib.import_module(module.name)).values():
            if isinstance(member, type) and issubclass(member, Technique) and hasattr(member, "name"):
                found[member.name] = member
    return dict(sorted(found.items()))


TECHNIQUES: dict[str, type[Technique]] = _discover()
"""Every technique by its name."""

AUTO = "bulk"
"""What ``auto`` stands for."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A technique chosen by name for a whole tree, whose parts may each need their own variant of it."""

    name: str

    def __call__(self, monoid: Monoid, states: np.ndarray) -> Technique:
        return technique_for(self.name, monoid)(monoid, states)


def technique(name: str) -> Choice:
    """The technique of this name.

    >>> technique("auto").name
    'bulk'
    >>> technique("daba-lite").name
    'daba_lite'
    """
    known = AUTO if name == "auto" else name.replace("-", "_")
    if known not in TECHNIQUES:
        raise QueryError(
            f"no technique is called {name!r}", hint=f"choose auto or one of {', '.join(TECHNIQUES)}"
        )
    return Choice(known)


def technique_for(name: str, monoid: Monoid) -> type[Technique]:
    """The technique, in its variant for invertible monoids where it has one and the monoid is.

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
    """Whether the technique can run the monoid."""
    return not technique_for(name, monoid).card.lacks(monoid)


def check_technique(name: str, monoids: Mapping[str, Monoid]) -> None:
    """Raise QueryError unless the technique can run all parts of a tree: their names, and their monoids.

    >>> from weft.aggregates.monoid import ADD, MAX, Monoid
    >>> check_technique("soe", {"count(*)": Monoid(ADD, 1, invertible=True)})
    >>> check_technique("soe", {"max(price)": Monoid(MAX, 1, selective=True)})
    Traceback (most recent call last):
    weft.errors.QueryError: subtract-on-evict needs an exact inverse, which max(price) has not; choose auto...
    """
    for label, monoid in monoids.items():
        card = technique_for(name, monoid).card
        if card.lacks(monoid):
            others = [t for t in TECHNIQUES if all(fits(t, m) for m in monoids.values())]
            card.check(monoid, label, hint=f"choose auto or one of {', '.join(others)}")
