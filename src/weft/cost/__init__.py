"""Costs: rates, edge rates and operations per technique."""

from weft.cost.model import edges_per_second, final_operations

__all__ = ["edges_per_second", "final_operations"]
