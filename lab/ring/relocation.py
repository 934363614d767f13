"""Places where nodes are added to a ring, or taken out, so that state moves between neighbours only.

Wang, section 14.2 and formula 14.1. N even slices become N + M: node i from the head keeps one new slice, and
passes on what it has too much of. Measured in new slices, i nodes have too much by i*M/N; whenever that
comes to a whole slice, it fills a new node, and only the fraction goes on to the next old one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import floor
from typing import TypeVar

T = TypeVar("T")


def shift(nodes: int, added: int, i: int) -> Fraction:
    """Return what the i-th node from the head (from 1) passes on, in new slices (formula 14.1).

    >>> [str(shift(3, 1, i)) for i in (1, 2, 3)]
    ['1/3', '2/3', '0']
    """
    moved = Fraction(added, nodes) * i
    return moved - floor(moved)


def inserted_after(nodes: int, added: int) -> list[int]:
    """After which of the old nodes (from 1) each new one comes: the first with a whole slice too much.

    >>> inserted_after(3, 1), inserted_after(3, 2), inserted_after(2, 4)
    ([3], [2, 3], [1, 1, 2, 2])
    """
    return [-(-nodes * number // added) for number in range(1, added + 1)]


def changed(ring: Sequence[T], count: int, new: Callable[[], T]) -> list[T]:
    """A ring, from its head on, with nodes inserted or left out until there are so many.

    >>> changed("abc", 5, lambda: "+"), changed("abcde", 3, lambda: "+")
    (['a', 'b', '+', 'c', '+'], ['a', 'b', 'd'])
    """
    few = min(len(ring), count)
    after = inserted_after(few, abs(count - len(ring)))
    old, nodes = iter(ring), []
    for number in range(1, few + 1):
        nodes.append(next(old))
        for _ in range(after.count(number)):
            if count > len(ring):
                nodes.append(new())
            else:
                next(old)
    return nodes
