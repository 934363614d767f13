"""Slices and edges: how windows are cut, alone and together."""

from weft.slicing.manager import SliceManager
from weft.slicing.progression import Progression, align, edges_between, reduce_progressions, slices_of
from weft.slicing.rate import edge_rate
from weft.slicing.slicers import SLICERS, partials_per_window

__all__ = [
    "SLICERS",
    "Progression",
    "SliceManager",
    "align",
    "edge_rate",
    "edges_between",
    "partials_per_window",
    "reduce_progressions",
    "slices_of",
]
