"""When windows end: which instants a watermark has closed, and for how long a slice is needed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from weft.query import Window

NEVER = np.iinfo(np.int64).min
ALWAYS = np.iinfo(np.int64).max


def last_ends(windows: Iterable[Window], starts: np.ndarray) -> np.ndarray:
    """For each slice, by its start, the end of the last window that covers it (NEVER where none does).

    >>> last_ends([Window(range=12, slide=5)], np.array([0, 5, 7])).tolist()
    [12, 17, 17]
    """
    ends = np.full(starts.size, NEVER, dtype=np.int64)
    for w in windows:
        last = starts - (starts - w.offset) % w.slide + w.range
        np.maximum(ends, np.where(last > starts, last, NEVER), out=ends)
    return ends


def first_ends(windows: Iterable[Window], starts: np.ndarray) -> np.ndarray:
    """For each slice, by its start, the end of the first window that covers it (ALWAYS where none does).

    >>> first_ends([Window(range=12, slide=5)], np.array([0, 5, 7])).tolist()
    [2, 7, 12]
    """
    ends = np.full(starts.size, ALWAYS, dtype=np.int64)
    for w in windows:
        begin = w.offset + w.range
        first = starts + 1 + (begin - starts - 1) % w.slide
        np.minimum(ends, np.where(first - w.range <= starts, first, ALWAYS), out=ends)
    return ends


def is_due(window: Window, answered: int | None, watermark: int) -> bool:
    """Whether some instance of the window ends after ``answered`` and not after ``watermark``.

    >>> is_due(Window(range=12, slide=5), 12, 16), is_due(Window(range=12, slide=5), 12, 17)
    (False, True)
    """
    if answered is None:
        return True
    last = watermark - (watermark - window.offset - window.range) % window.slide
    return last > answered
