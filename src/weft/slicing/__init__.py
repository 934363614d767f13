"""Slices and edges: how windows are cut, alone and together."""

from weft.slicing.progression import Progression, align, edges_between, reduce_progressions, slices_of
from weft.slicing.rate import edge_rate
from weft.slicing.slicers import SLICERS

__all__ = [
    "SLICERS",
    "Progression",
    "align",
    "edge_rate",
    "edges_between",
    "reduce_progressions",
    "slices_of",
]
