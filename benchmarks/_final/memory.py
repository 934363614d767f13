"""The most partials that a technique ever keeps, counted step by step over a stream."""

from __future__ import annotations

import numpy as np

from _final.operations import OPERATIONS, usual_operation
from weft.final import TECHNIQUES


def peak_memory(name: str, window: int, values: np.ndarray) -> int:
    """For one query of ``window`` partials.

    >>> peak_memory("flatfat", 5, np.arange(20)), peak_memory("soe", 5, np.arange(20))
    (16, 6)
    """
    sliding = TECHNIQUES[name].window(OPERATIONS[usual_operation(name)], [window])
    most = 0
    for value in values:
        if len(sliding) == window:
            sliding.evict()
        sliding.insert(np.array([[value]]))
        most = max(most, sliding.memory)
    return most
