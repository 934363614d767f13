"""Every aggregate that a query can name: exact, approximate, and defined by the user."""

from __future__ import annotations

from weft.aggregates.function import ALIASES, FUNCTIONS, AggregateFunction
from weft.aggregates.sketch import SKETCHES

DEFINED: dict[str, AggregateFunction] = {}
"""The aggregates that the user of this process has defined, by name."""


def named(name: str) -> AggregateFunction | None:
    """The aggregate of this name or alias; None where there is none.

    >>> named("mean").name, named("percentile_approx").name
    ('avg', 'approx_percentile')
    """
    name = ALIASES.get(name, name)
    return FUNCTIONS.get(name) or SKETCHES.get(name) or DEFINED.get(name)


def names() -> list[str]:
    """All names and aliases."""
    return [*FUNCTIONS, *SKETCHES, *ALIASES, *DEFINED]
