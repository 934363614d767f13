"""Rows that missed a window, or have no time, or are too far ahead of the clock: which, and the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weft.model.window import Window
from weft.operators.contract import Missed
from weft.operators.late import AHEAD_REASON


class MissedMasks(NamedTuple):
    """Masks of the rows that have no time, missed a window in time, missed one in rows, or are too far ahead;
    None where no row is."""

    untimed: np.ndarray | None
    missed: np.ndarray | None
    uncounted: np.ndarray | None
    ahead: np.ndarray | None


def missed_rows(
    windows: Sequence[Window], times: np.ndarray, masks: MissedMasks, watermark: int | None
) -> Missed:
    """The rows of masks, of which each has the first of its reasons: no time, windows, ahead."""
    no_rows = np.zeros(len(times), dtype=np.bool_)
    untimed, missed, uncounted, ahead = (no_rows if mask is None else mask for mask in masks)
    places = np.flatnonzero(untimed | missed | uncounted | ahead)
    reasons = np.full(len(places), AHEAD_REASON, dtype=object)
    reasons[uncounted[places]] = "late for its windows in rows"
    in_time = np.flatnonzero(missed[places])
    missed_counts, window_counts = missed_windows(windows, times[places[in_time]], watermark)
    reasons[in_time] = [
        f"late for {g} of its {a} windows" for g, a in zip(missed_counts.tolist(), window_counts.tolist())
    ]
    reasons[untimed[places]] = "no event time"
    return Missed(places, reasons.tolist())


def missed_windows(
    windows: Sequence[Window], times: np.ndarray, watermark: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Of how many windows that hold each time the watermark has passed the end, and how many there are.

    >>> missed_windows([Window(range=12, slide=5)], np.array([11, 16]), 17)
    (array([2, 1]), array([3, 3]))
    """
    missed, total = np.zeros(len(times), dtype=np.int64), np.zeros(len(times), dtype=np.int64)
    for window in windows:
        end = window.offset + window.range
        before = (times - end) // window.slide
        last = times + window.range
        total += (last - end) // window.slide - before
        if watermark is not None:
            missed += (np.clip(watermark, times, last) - end) // window.slide - before
    return missed, total
