"""Ways to cut one window: panes, pairs, cutty. Each gives the progressions of its edges.

Panes: J. Li et al., SIGMOD Record 2005. Pairs: Krishnamurthy, Wu, Franklin, SIGMOD 2006, section 3.
Cutty: P. Carbone et al., CIKM 2016.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from weft.model.window import Window
from weft.slicing.progression import Progression


def panes(window: Window, ordered: bool = False) -> tuple[Progression, ...]:
    """Equal panes of gcd(range, slide).

    >>> panes(Window(range=18, slide=15))
    (Progression(period=3, residue=0),)
    """
    return (Progression(gcd(window.range, window.slide), window.offset),)


def pairs(window: Window, ordered: bool = False) -> tuple[Progression, ...]:
    """The start edge and the end edge of each slide: the fewest edges that keep every answer.

    >>> pairs(Window(range=14, slide=8))
    (Progression(period=8, residue=0), Progression(period=8, residue=6))
    """
    start = Progression(window.slide, window.offset)
    end = Progression(window.slide, window.offset + window.range)
    return (start,) if start == end else (start, end)


def cutty(window: Window, ordered: bool = False) -> tuple[Progression, ...]:
    """Start edges only, where rows come in order up to each end; otherwise an edge at the end as well.

    >>> cutty(Window(range=14, slide=8), ordered=True)
    (Progression(period=8, residue=0),)
    """
    return (Progression(window.slide, window.offset),) if ordered else pairs(window)


SLICERS: dict[str, Callable[..., tuple[Progression, ...]]] = {"pairs": pairs, "panes": panes, "cutty": cutty}
