"""Final aggregation: windows from slices. One technique, one file, one contract; found by their names.

Step by step, a technique is a window of partials: ``insert``, ``evict``, ``query(n)``. The engine gives it
the states of consecutive slices (of many groups, one after the other) and asks for all runs of them at once:
``answer(low, high)`` is one state per run ``[low[k], high[k])``.
"""

from __future__ import annotations

from weft.final.card import Card
from weft.final.registry import AUTO, TECHNIQUES, check_technique, fits, technique, technique_for
from weft.final.technique import Technique
from weft.final.window import SlidingWindow

__all__ = [
    "AUTO",
    "TECHNIQUES",
    "Card",
    "SlidingWindow",
    "Technique",
    "check_technique",
    "fits",
    "technique",
    "technique_for",
]
