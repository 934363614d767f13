"""The chain one row at a time, with queues between its slices: the steps of Wang, figures 5.2 and 5.5.

Each row enters as a *probe*, which purges, probes and is passed on, and as a *build*, which is kept until
it is purged and then moves to the next slice. A probe that leaves the last slice tells the union that all
results up to its time are there (figure 5.7). This is slow, counts its comparisons, and is the yardstick
for the batched chain; it takes rows in order of time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One row: its side, 0 or 1, its time, what it holds, and its lineage, the last slice it is of use in."""

    side: int
    time: int
    value: Any
    lineage: int = 1 << 30


class Entry(NamedTuple):
    """A row in a queue, as a probe or as a build."""

    row: Row
    probe: bool


class Result(NamedTuple):
    """Two rows that join, that of side 0 first."""

    left: Row
    right: Row

    @property
    def time(self) -> int:
        """The time of the later row."""
        return max(self.left.time, self.right.time)


@dataclass
class Comparisons:
    """Counts of the cost model: one comparison each."""

    probe: int = 0
    purge: int = 0
    route: int = 0


Condition = Callable[[Any, Any], bool]


@dataclass
class SlicedJoin:
    """One slice: the states of both sides between two ages per side, and its queue of input."""

    number: int
    ends: tuple[int, int]
    condition: Condition
    counts: Comparisons
    states: tuple[deque[Row], deque[Row]] = field(default_factory=lambda: (deque(), deque()))
    queue: deque[Entry] = field(default_factory=deque)
    after: SlicedJoin | None = None
    results: list[Result] = field(default_factory=list)

    def run(self) -> Row | None:
        """Process one entry of the queue; returns a probe that leaves the chain."""
        row, probe = self.queue.popleft()
        if not probe:
            self.states[row.side].append(row)
            return None
        other = 1 - row.side
        self.purge(other, row.time)
        for stored in self.states[other]:
            self.counts.probe += 1
            left, right = (row, stored) if row.side == 0 else (stored, row)
            if self.condition(left.value, right.value):
                self.results.append(Result(left, right))
        if self.after is None or row.lineage < self.after.number:
            return row
        self.after.queue.append(Entry(row, True))
        return None

    def purge(self, side: int, now: int) -> None:
        """Let the rows of a side that are too old at this time move on."""
        state = self.states[side]
        while state:
            self.counts.purge += 1
            if now - state[0].time < self.ends[side]:
                break
            row = state.popleft()
            if self.after is not None and row.lineage >= self.after.number:
                self.after.queue.append(Entry(row, False))


class ReferenceChain:
    """Sliced joins with queues between them; ``ends`` are the ages at which slices end, for each side.

    >>> chain = ReferenceChain([(2, 2), (4, 4)], lambda a, b: True)
    >>> for row in [Row(0, 1, "a1"), Row(1, 2, "b1"), Row(1, 4, "b2")]:
    ...     chain.push(row)
    >>> [(r.left.value, r.right.value, number) for number, r in chain.take()]
    [('a1', 'b1', 0), ('a1', 'b2', 1)]
    """

    def __init__(self, ends: Sequence[tuple[int, int]], condition: Condition) -> None:
        self.counts = Comparisons()
        self.slices = [SlicedJoin(n, pair, condition, self.counts) for n, pair in enumerate(ends)]
        for one, after in zip(self.slices, self.slices[1:]):
            one.after = after

    def push(self, row: Row) -> None:
        """Let a row enter, as probe and as build, and run until the queues are empty."""
        first = self.slices[0]
        first.queue.append(Entry(row, True))
        first.queue.append(Entry(row, False))
        for piece in self.slices:
            while piece.queue:
                piece.run()

    def take(self) -> Iterable[tuple[int, Result]]:
        """The results so far with the slices they are from, in order of time: the union's buffers emptied."""
        results = [(piece.number, result) for piece in self.slices for result in piece.results]
        for piece in self.slices:
            piece.results = []
        return sorted(results, key=lambda pair: pair[1].time)

    @property
    def state_rows(self) -> int:
        """Return how many rows are kept."""
        return sum(len(state) for piece in self.slices for state in piece.states)
