"""The slice manager: the next edge of any number of windows, one at a time, never a whole period.

Krishnamurthy, Wu, Franklin, SIGMOD 2006, section 3.3: a priority queue of next edges. Windows come and
go at any time; an edge that several share is yielded once.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator

from weft.model.window import Window
from weft.slicing.progression import Progression
from weft.slicing.slicers import SLICERS


class SliceManager:
    """The edges of a changing set of windows, in order.

    >>> manager = SliceManager([Window(12, 9), Window(10, 6)], after=0)
    >>> [manager.next_edge() for _ in range(8)]
    [3, 4, 6, 9, 10, 12, 16, 18]
    """

    def __init__(self, windows: Iterable[Window] = (), after: int = 0, slicer: str = "pairs") -> None:
        self.at = after
        self.slicer = SLICERS[slicer]
        self._users: Counter[Progression] = Counter()
        self._queue: list[tuple[int, Progression]] = []
        for window in windows:
            self.add(window)

    def add(self, window: Window) -> None:
        """Add the edges of a window, from now on."""
        for progression in self.slicer(window):
            if not self._users[progression]:
                self._push(progression)
            self._users[progression] += 1

    def remove(self, window: Window) -> None:
        """Drop the edges that no other window shares."""
        for progression in self.slicer(window):
            if not self._users[progression]:
                raise KeyError(f"{window} is not in the slice manager")
            self._users[progression] -= 1
        self._queue = [entry for entry in self._queue if self._users[entry[1]]]
        heapq.heapify(self._queue)

    def next_edge(self) -> int:
        """Return the first edge after the last one yielded."""
        if not self._queue:
            raise StopIteration("the slice manager has no window")
        edge = self._queue[0][0]
        while self._queue[0][0] == edge:
            _, progression = self._queue[0]
            heapq.heapreplace(self._queue, (edge + progression.period, progression))
        self.at = edge
        return edge

    def slices(self) -> Iterator[tuple[int, int]]:
        """Yield slices in order, without end."""
        start = self.next_edge()
        while True:
            end = self.next_edge()
            yield start, end
            start = end

    def _push(self, progression: Progression) -> None:
        first = self.at + 1 + (progression.residue - self.at - 1) % progression.period
        heapq.heappush(self._queue, (first, progression))
