"""The algebra of aggregates: monoids, the parts they share, and the functions made of them."""

from weft.aggregates.function import ALIASES, FUNCTIONS, AggregateFunction
from weft.aggregates.monoid import Monoid
from weft.aggregates.part import Part, States
from weft.aggregates.registry import USER_FUNCTIONS, named, names
from weft.aggregates.sketch import SKETCHES

__all__ = [
    "ALIASES",
    "FUNCTIONS",
    "SKETCHES",
    "USER_FUNCTIONS",
    "AggregateFunction",
    "Monoid",
    "Part",
    "States",
    "named",
    "names",
]
