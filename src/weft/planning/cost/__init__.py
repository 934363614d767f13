"""Costs: operations per edge of each technique, prices of trees, and what operations cost on a machine."""

from weft.planning.cost.constants import Constants, constants
from weft.planning.cost.expected import expected_techniques
from weft.planning.cost.omega import OMEGAS, Omega, find_omega
from weft.planning.cost.price import MODELS, Price, find_price

__all__ = [
    "MODELS",
    "OMEGAS",
    "Constants",
    "Omega",
    "Price",
    "constants",
    "expected_techniques",
    "find_omega",
    "find_price",
]
