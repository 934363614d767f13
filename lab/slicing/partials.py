"""Partials per window: how the papers compare ways of cutting a window."""

from __future__ import annotations

from math import gcd

from weft.model.window import Window


def partials_per_window(slicer: str, window: Window) -> int:
    """Return the largest number of slices of its own that one window is combined from.

    >>> [partials_per_window(name, Window(range=18, slide=15)) for name in ("panes", "pairs", "cutty")]
    [6, 3, 2]
    """
    if slicer == "panes":
        return window.range // gcd(window.range, window.slide)
    if slicer == "cutty":
        return -(-window.range // window.slide)
    whole, rest = divmod(window.range, window.slide)
    return 2 * whole + 1 if rest else whole
