"""PSP with a dynamic head and tail: rows stay where they are stored, the ends of the ring move instead.

Wang, sections 12.5 and 12.6. A row is stored at its stream's head. When the head's slice is full, by time or,
where slices are bounded, by rows, the head moves on against the direction of the ring, to the node with the
oldest rows. Every row is inserted once and purged once, when it is too old for the join, and never moves.
Several rows may be in work, with the marks of PSP-I.

All rows enter the ring at the same node, wherever their head is: so they pass every node in the same order,
and a row finds all earlier ones stored (docs/decisions/0024).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import inf

from lab.ring.machine import Costs, Node
from lab.ring.multijoin import MultiJoin, Row
from lab.ring.psp_i import PspI
from lab.ring.slicing import Slicing


@dataclass
class Head:
    """Place where a stream's rows are stored now, since when, and how many so far."""

    node: Node
    since: float = inf
    rows: int = 0


class PspD(PspI):
    """The ring whose head and tail move.

    >>> from lab.ring.multijoin import rows_of
    >>> ring = PspD(MultiJoin((10, 10)), 5)
    >>> account = ring.run(rows_of([(0, time, None) for time in range(100)]))
    >>> account.operations["insert"], account.operations["purge"], [node.rows for node in ring.nodes]
    (100, 90, [2, 2, 2, 2, 2])
    """

    unique = True

    def __init__(
        self,
        join: MultiJoin,
        slicing: Slicing | int,
        costs: Costs | None = None,
        *,
        seed: int | None = None,
        limit: int = 1,
    ) -> None:
        self.heads: list[Head] = []
        super().__init__(join, slicing, costs, seed=seed, limit=limit)
        self.heads = [Head(self.nodes[0]) for _ in join.windows]

    def slice(self, slicing: Slicing) -> None:
        super().slice(slicing)
        idle = [0.0] * (len(self.nodes) - slicing.nodes)
        windows = self.join.windows
        self.widths = [[w * share for share in some] + idle for w, some in zip(windows, slicing.shares)]
        self.full = self.bounds
        self.ends = [[w] * len(self.nodes) for w in windows]
        self.bounds = [[inf] * len(self.nodes) for _ in windows]
        for head in self.heads:
            if head.node not in self.places:
                head.node, head.since, head.rows = self.nodes[0], inf, 0

    def home(self, row: Row) -> int:
        """The place of the head, which first moves on if it is full."""
        head = self.heads[row.stream]
        place = self.places[head.node]
        width, full = self.widths[row.stream][place], self.full[row.stream][place]
        head.since = min(head.since, row.time)
        if head.rows >= full if full < inf else row.time - head.since >= width:
            place = self._before(row.stream, place)
            head.node, head.since, head.rows = self.nodes[place], row.time, 0
        head.rows += 1
        return place

    def from_head(self) -> list[Node]:
        """The ring from the head of the stream with the most rows on."""
        rows = [sum(len(node.state[stream]) for node in self.nodes) for stream in range(len(self.heads))]
        place = self.places[self.heads[rows.index(max(rows))].node]
        return self.nodes[place:] + self.nodes[:place]

    def holder(self, stream: int, age: float) -> Node:
        """The node whose slice has this age, counted from the stream's head."""
        widths, head = self.widths[stream], self.places[self.heads[stream].node]
        places = [
            place % len(widths) for place in range(head, head + len(widths)) if widths[place % len(widths)]
        ]
        ends = accumulate(widths[place] for place in places)
        return self.nodes[next((place for place, end in zip(places, ends) if age < end), places[-1])]

    def _relocate(self, slicing: Slicing) -> None:
        super()._relocate(slicing)
        for stream, head in enumerate(self.heads):  # each has a whole slice: the next row moves it on
            head.since, head.rows = -inf, len(head.node.state[stream])

    def _before(self, stream: int, place: int) -> int:
        """The next place against the direction of the ring that has a slice of a stream."""
        count = len(self.nodes)
        return next(
            p for p in ((place - back) % count for back in range(1, count + 1)) if self.widths[stream][p]
        )
