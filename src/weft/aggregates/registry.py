"""Every aggregate that a query can name: exact, approximate, and defined by the user."""

from __future__ import annotations

from weft.aggregates.function import ALIASES, FUNCTIONS, AggregateFunction
from weft.aggregates.sketch import SKETCHES

USER_FUNCTIONS: dict[str, AggregateFunction] = {}
"""The aggregates that the user of this process has defined, by name."""


def named(name: str) -> AggregateFunction | None:
    """Return the aggregate of this name or alias; None where there is none.

    >>> named("mean").name, named("percentile_approx").name
    ('avg', 'approx_percentile')
    """
    name = ALIASES.get(name, name)
    return FUNCTIONS.get(name) or SKETCHES.get(name) or USER_FUNCTIONS.get(name)


def names() -> list[str]:
    """Return all names and aliases."""
    return [*FUNCTIONS, *SKETCHES, *ALIASES, *USER_FUNCTIONS]
