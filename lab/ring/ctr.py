"""Coordinated tuple routing: segments of every stream have copies on several nodes, and probes visit a cover.

Gu, Yu and Wang (ICDE 2007), as reviewed by Wang, sections 15.1 and 16.1. A coordinator knows where the
segments of each stream are, and looks for few nodes that have them all (greedy set cover). A row is stored at
the nodes of its segment, and probes the cover of the first stream of its join order; intermediate results go
on to the cover of the next. Each segment of a cover is probed at one node, so that copies double nothing.
One row is in work at a time. The coordinator knows the end by credit: it gives a row the credit 1, who sends
messages on divides it among them, who has none to send gives it back.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any

from lab.ring.machine import Costs, Node, Scheme
from lab.ring.multijoin import MultiJoin, Row
from weft.errors import QueryError

Cover = list[tuple[Node, frozenset[int]]]


@dataclass
class Segment:
    """Rows of a stream that follow each other in time, and the nodes that have them."""

    number: int
    nodes: Sequence[Node]
    newest: float


@dataclass(frozen=True)
class Store:
    """A row for a node to keep, as one of a segment."""

    row: Row
    segment: int
    credit: Fraction


@dataclass(frozen=True)
class Route:
    """Joined rows on their way: the covers they have still to visit, and the segments to probe here."""

    parts: tuple[Row, ...]
    covers: tuple[Cover, ...]
    segments: frozenset[int]
    credit: Fraction


class Ctr(Scheme):
    """Segments of so much time, by default a quarter of the shortest window, on ``copies`` nodes each.

    >>> from lab.ring.multijoin import rows_of
    >>> account = Ctr(MultiJoin((4, 4)), 3).run(rows_of([(1, 3, "b"), (0, 5, "a")]))
    >>> len(account.results), account.operations["insert"]
    (1, 4)
    """

    def __init__(
        self,
        join: MultiJoin,
        nodes: int,
        costs: Costs | None = None,
        *,
        seed: int | None = None,
        copies: int = 2,
        segment: float | None = None,
    ) -> None:
        super().__init__(join, nodes, costs, seed=seed)
        if copies < 1:
            raise QueryError(f"{copies} copies of each row", hint="give one or more")
        self.copies = min(copies, nodes)
        self.segment = segment or min(join.windows) / 4
        self.source = self.new_node()
        self.table: list[deque[Segment]] = [deque() for _ in join.windows]
        self.segments: dict[tuple[Node, int], int] = {}
        self.waiting: deque[Row] = deque()
        self.credit = Fraction(0)
        self.working: Row | None = None
        self._deployed = random.Random(seed or 0)

    def arrive(self, row: Row) -> None:
        self.waiting.append(row)
        if self.working is None:
            self.begin()

    def begin(self) -> None:
        """Send the next row to where it is stored, and to the first cover."""
        self.working = row = self.waiting.popleft()
        self.source.clock = max(self.source.clock, self.now)
        self.account.began[row.number] = self.source.clock
        covers = [self.cover(stream, row.time) for stream in self.join.orders[row.stream]]
        segment = self.segment_of(row)
        first = covers[0] if all(covers) else []
        self.credit, share = Fraction(0), Fraction(1, len(segment.nodes) + len(first))
        for node in segment.nodes:
            self.send(self.source, node, Store(row, segment.number, share), "row")
        for node, segments in first:
            self.send(self.source, node, Route((row,), tuple(covers[1:]), segments, share), "row")

    def segment_of(self, row: Row) -> Segment:
        """The segment that a row is of; a new one is deployed at random."""
        table, number = self.table[row.stream], floor(row.time / self.segment)
        if not table or table[-1].number != number:
            table.append(Segment(number, self._deployed.sample(self.nodes, self.copies), row.time))
        table[-1].newest = row.time
        return table[-1]

    def cover(self, stream: int, now: float) -> Cover:
        """Few nodes that have all segments of a stream's window, each with those that it is to probe."""
        table = self.table[stream]
        while table and now - table[0].newest >= self.join.windows[stream]:
            table.popleft()
        holds = {node: {one.number for one in table if node in one.nodes} for node in self.nodes}
        left, cover = {one.number for one in table}, []
        while left:
            node = max(self.nodes, key=lambda node: len(holds[node] & left))
            cover.append((node, frozenset(holds[node] & left)))
            left -= holds[node]
        return cover

    def receive(self, node: Node, message: Any) -> None:
        if node is self.source:
            self.returned(message)
        elif isinstance(message, Store):
            self.purge(node, message.row.time)
            self.store(node, message.row)
            self.segments[node, message.row.number] = message.segment
            self.send(node, self.source, message.credit, "credit")
        else:
            self.probe(node, message)

    def probe(self, node: Node, route: Route) -> None:
        """Probe the segments asked for, and send what is found to every node of the next cover."""
        now, stream = route.parts[0].time, self.join.orders[route.parts[0].stream][len(route.parts) - 1]
        self.purge(node, now)
        window = self.join.windows[stream]
        probed = [
            stored
            for stored in node.state[stream]
            if now - stored.row.time < window and self.segments[node, stored.row.number] in route.segments
        ]
        intermediate = []
        for parts in self.partners(node, route.parts, stream, probed):
            if len(parts) == len(self.join.windows):
                self.emit_result(node, parts)
            else:
                intermediate.append(parts)
        if not intermediate:
            self.send(node, self.source, route.credit, "credit")
            return
        cover, later = route.covers[0], route.covers[1:]
        share = route.credit / (len(intermediate) * len(cover))
        for parts in intermediate:
            for to, some in cover:
                self.send(node, to, Route(parts, later, some, share), "intermediate")

    def purge(self, node: Node, now: float) -> None:
        """Drop what is too old."""
        for state, window in zip(node.state, self.join.windows):
            while state and now - state[0].row.time >= window:
                del self.segments[node, state[0].row.number]
                self.remove(node, state[0])

    def returned(self, credit: Fraction) -> None:
        """End the row's cycle when all credit is back, and begin the next row's."""
        self.credit += credit
        if self.credit < 1:
            return
        assert self.working is not None
        self.account.finished[self.working.number] = self.source.clock
        self.working = None
        if self.waiting:
            self.begin()
