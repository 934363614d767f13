"""Aligned tuple routing: one stream is cut into segments, the others are copied around them.

Gu, Yu and Wang (ICDE 2007), as reviewed by Wang, section 15.1. Segments of the master stream go to the nodes
in turn. Rows of the others go to every node that has a segment with a row they may join with, so that each
node joins its segments alone: there is nothing to synchronise, and no row is worked on by more than one.
"""

from __future__ import annotations

from math import floor

from lab.ring.machine import Costs, Node, Scheme
from lab.ring.multijoin import MultiJoin, Row


class Atr(Scheme):
    """Stream ``master`` in segments of so much time, by default as long as the longest window.

    A node keeps its segment until the next one of its own begins, as the thesis counts its memory;
    with ``keep=False`` it purges rows as soon as they are too old.

    >>> from lab.ring.multijoin import rows_of
    >>> account = Atr(MultiJoin((4, 4)), 3).run(rows_of([(1, 3, "b"), (0, 5, "a")]))
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
        master: int = 0,
        segment: float | None = None,
        keep: bool = True,
    ) -> None:
        super().__init__(join, nodes, costs, seed=seed)
        self.master, self.keep = master, keep
        self.segment = segment or max(join.windows)
        self.source = self.new_node()
        self.left: dict[int, int] = {}
        self.segments: dict[tuple[Node, int], int] = {}
        self.current: dict[Node, int] = {}

    def arrive(self, row: Row) -> None:
        targets: dict[int, int] = {}
        for segment in range(*self.segments_of(row)):
            targets[segment % len(self.nodes)] = segment
        self.left[row.number] = len(targets)
        for at, segment in targets.items():
            self.source.clock = max(self.source.clock, self.now)
            self.account.began.setdefault(row.number, self.source.clock)
            self.send(self.source, self.nodes[at], (row, segment), "row")

    def segments_of(self, row: Row) -> tuple[int, int]:
        """From which segment up to which, without it, a row is needed."""
        if row.stream == self.master:
            own = floor(row.time / self.segment)
            return own, own + 1
        # It joins master rows up to the master's window before it, and up to its own window after it.
        first = floor((row.time - self.join.windows[self.master]) / self.segment)
        last = floor((row.time + self.join.windows[row.stream]) / self.segment)
        return first, last + 1

    def receive(self, node: Node, message: tuple[Row, int]) -> None:
        row, segment = message
        self.store(node, row)
        self.segments[node, row.number] = segment
        self.current[node] = max(segment, self.current.get(node, segment))
        self.purge(node, row)
        joined: list[tuple[Row, ...]] = [(row,)]
        for stream in self.join.orders[row.stream]:
            window = self.join.windows[stream]
            young = [stored for stored in node.state[stream] if row.time - stored.row.time < window]
            longer = []
            for parts in joined:
                for extended in self.partners(node, parts, stream, young):
                    if len(extended) == len(self.join.windows):
                        self.emit_result(node, extended)
                    else:
                        longer.append(extended)
            joined = longer
        self.left[row.number] -= 1
        if not self.left[row.number]:
            self.account.finished[row.number] = node.clock

    def purge(self, node: Node, row: Row) -> None:
        """Drop what is too old; where segments are kept, of segments before the current one only."""
        for stream, window in enumerate(self.join.windows):
            state = node.state[stream]
            while state and row.time - state[0].row.time >= window:
                key = node, state[0].row.number
                if self.keep and self.segments[key] >= self.current[node]:
                    break
                self.remove(node, state[0])
                del self.segments[key]
