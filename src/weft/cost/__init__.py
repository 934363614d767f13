"""Costs: operations per edge of each technique, prices of trees, and what operations cost on a machine."""

from weft.cost.constants import Constants, constants
from weft.cost.expected import expected_techniques
from weft.cost.omega import OMEGAS, Omega, find_omega, operations_per_edge
from weft.cost.price import MODELS, Price, composite_cost, find_price, separate_cost

__all__ = [
    "MODELS",
    "OMEGAS",
    "Constants",
    "Omega",
    "Price",
    "composite_cost",
    "constants",
    "expected_techniques",
    "find_omega",
    "find_price",
    "operations_per_edge",
    "separate_cost",
]
