"""Ends of windows: which instants a watermark has closed, and for how long a slice is needed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numba import njit

from weft.aggregates.cached import read_only
from weft.model.instants import BEGINNING_OF_TIME, END_OF_TIME
from weft.model.window import Window


def last_ends(windows: Iterable[Window], starts: np.ndarray) -> np.ndarray:
    """Return the end of the last window that covers each slice, by its start; BEGINNING_OF_TIME: none does.

    >>> last_ends([Window(range=12, slide=5)], np.array([0, 5, 7])).tolist()
    [12, 17, 17]
    """
    ends = np.full(starts.size, BEGINNING_OF_TIME, dtype=np.int64)
    _last_ends(_shapes(windows), read_only(starts), END_OF_TIME, ends)
    return ends


def needed_at(windows: Iterable[Window], starts: np.ndarray, watermark: int) -> np.ndarray:
    """Return which slices, by their starts, some window covers that ends after the watermark.

    >>> needed_at([Window(range=12, slide=5)], np.array([0, 5, 7]), 12).tolist()
    [False, True, True]
    """
    ends = np.full(starts.size, BEGINNING_OF_TIME, dtype=np.int64)
    _last_ends(_shapes(windows), read_only(starts), watermark, ends)
    return ends > watermark


def first_ends(windows: Iterable[Window], starts: np.ndarray) -> np.ndarray:
    """Return the end of the first window that covers each slice, by its start; END_OF_TIME: none does.

    >>> first_ends([Window(range=12, slide=5)], np.array([0, 5, 7])).tolist()
    [2, 7, 12]
    """
    ends = np.full(starts.size, END_OF_TIME, dtype=np.int64)
    _first_ends(_shapes(windows), read_only(starts), ends)
    return ends


def _shapes(windows: Iterable[Window]) -> np.ndarray:
    """Range, slide and offset of each, the longest first."""
    shapes = sorted(((w.range, w.slide, w.offset) for w in windows), reverse=True)
    return np.array(shapes, dtype=np.int64).reshape(-1, 3)


@njit(cache=True, nogil=True)
def _last_ends(shapes, starts, enough, ends):  # type: ignore[no-untyped-def]
    """The last end of each slice, or the first found that is after ``enough``."""
    for i in range(starts.size):
        start, latest = starts[i], ends[i]
        for w in range(shapes.shape[0]):
            length, slide, offset = shapes[w]
            last = start - (start - offset) % slide + length
            if last > start and last > latest:
                latest = last
                if latest > enough:
                    break
        ends[i] = latest


@njit(cache=True, nogil=True)
def _first_ends(shapes, starts, ends):  # type: ignore[no-untyped-def]
    for i in range(starts.size):
        start, earliest = starts[i], ends[i]
        for w in range(shapes.shape[0]):
            length, slide, offset = shapes[w]
            first = start + 1 + (offset + length - start - 1) % slide
            if first - length <= start and first < earliest:
                earliest = first
        ends[i] = earliest
