"""The algebra of aggregates: monoids, the parts they share, and the functions made of them."""

from weft.aggregates.function import ALIASES, FUNCTIONS, AggregateFunction
from weft.aggregates.monoid import Monoid
from weft.aggregates.part import Part, States

__all__ = ["ALIASES", "FUNCTIONS", "AggregateFunction", "Monoid", "Part", "States"]
