"""Pipelined state partitioning: a ring of sliced joins, one row in work at a time.

Wang, sections 12.1 to 12.3. A row enters at the first node, the head, and is stored there. At each node it
purges: rows too old for the node's slice move to the next node, ahead of it. Then it is passed on, and
probes. What it joins with becomes an intermediate result, which goes round the ring once to probe the next
stream of the row's join order; the node where it began is the last that it probes. Of what the head makes
of a row, or of an END, the last is an END: when it is back, all others of its kind have passed the head. The
head then begins the next one, and when END number M-1 is back, nothing of the row is left in the ring.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

from lab.ring import relocation
from lab.ring.machine import Costs, Node, Scheme, StoredRow
from lab.ring.multijoin import MultiJoin, Row
from lab.ring.slicing import Slicing, even


@dataclass(frozen=True, slots=True)
class Build:
    """A row that moves on to the next slice, because row number ``purged_by`` purged it."""

    row: Row
    purged_by: int


@dataclass(frozen=True, slots=True)
class Probe:
    """A row, or rows joined with it, on the way round the ring from the node at place ``birth``.

    ``home`` is the place where the row is to be stored. A probe without parts is an END and nothing else.
    """

    row: Row
    home: int
    parts: tuple[Row, ...]
    step: int = 0
    birth: int = 0
    end: bool = False

    @property
    def kind(self) -> str:
        """Return its kind in the account."""
        return "row" if self.step == 0 else "intermediate" if self.parts else "end"


class Psp(Scheme):
    """The ring; ``slicing`` may be a number of nodes, for even slices.

    >>> from lab.ring.multijoin import rows_of
    >>> ring = Psp(MultiJoin((10, 10, 10)), 4)
    >>> account = ring.run(rows_of([(0, 1, "a"), (1, 4, "b"), (2, 7, "c")]))
    >>> [[row.value for row in result.rows] for result in account.results], account.ends
    ([['a', 'b', 'c']], 6)
    """

    unique = True

    def __init__(
        self,
        join: MultiJoin,
        slicing: Slicing | int,
        costs: Costs | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        slicing = even(len(join.windows), slicing) if isinstance(slicing, int) else slicing
        super().__init__(join, slicing.nodes, costs, seed=seed)
        self.working, self.limit = 0, 1
        self.latest = -inf
        self.watch: Callable[[Row], object] = id
        """Called with every row that arrives."""
        self._waiting: deque[Row] = deque()
        self._changes: list[Callable[[], None]] = []
        self.slice(slicing)

    def slice(self, slicing: Slicing) -> None:
        """Take these slices from now on. Nodes of the ring beyond them get no more rows."""
        self.slicing = slicing
        self.places = {node: place for place, node in enumerate(self.nodes)}
        idle = len(self.nodes) - slicing.nodes
        self.ends = [[*ends, *[ends[-1]] * idle] for ends in slicing.ends(self.join.windows)]
        bounds = slicing.bounds or [[inf] * (slicing.nodes - 1)] * len(self.ends)
        self.bounds = [[*stream_bounds, *[inf] * (idle + 1)] for stream_bounds in bounds]

    # Rows enter and leave the ring.

    def arrive(self, row: Row) -> None:
        self.watch(row)
        self._waiting.append(row)
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.working < self.limit and not self._changes:
            row = self._waiting.popleft()
            self.working += 1
            self.latest = row.time
            self.account.began[row.number] = self.now
            self.deliver(self.nodes[0], Probe(row, self.home(row), (row,)))

    def home(self, row: Row) -> int:
        """The place where a row is stored first: the head."""
        return 0

    def _finish(self, row: Row) -> None:
        self.working -= 1
        self.account.finished[row.number] = self.now
        idle = self.nodes[self.slicing.nodes :]
        if idle and not any(node.rows for node in idle) and self._retire not in self._changes:
            self._changes.append(self._retire)
        self._settle()
        self._admit()

    # What a node does with a message.

    def receive(self, node: Node, message: Any) -> None:
        if isinstance(message, Build):
            self.store(node, message.row, message.purged_by)
            return
        place = self.places[node]
        following = self.nodes[(place + 1) % len(self.nodes)]
        if message.step == 0:
            self.maintain(node, following, message)
        # A row ends before the head, which it probed first; joined rows probe the node of their birth last.
        last = message.birth == self.places[following if message.step == 0 else node]
        if not last:
            self.send(node, following, message, message.kind)
        if message.step < len(self.join.windows) - 1:
            new_end = place == 0 and (message.step == 0 or (message.end and last))
            self.extend(node, following, message, new_end)
        else:  # the last END
            self.release(node, message.row)
            if last:
                self.at(node.clock, partial(self._finish, message.row))

    def maintain(self, node: Node, following: Node, probe: Probe) -> None:
        """Store the row where it belongs, and purge what is too old, or too much, for the slices here."""
        place, row = self.places[node], probe.row
        if place == probe.home:
            self.store(node, row, row.number)
        for stream, window in enumerate(self.join.windows):
            staying = [stored for stored in node.state[stream] if stored.left == inf]
            for over, stored in enumerate(staying):
                age = row.time - stored.row.time
                too_many = len(staying) - over > self.bounds[stream][place]
                if age < self.ends[stream][place] and not too_many:
                    break
                self.expire(node, stored, row)
                # Where slices are bounded, rows may be too old for the join before they come to the tail.
                if age < window:
                    self.send(node, following, Build(stored.row, row.number), "state")

    def extend(self, node: Node, following: Node, probe: Probe, new_end: bool) -> None:
        """Probe the state here, and send off what was found; as an END the last, where there is to be one."""
        step, place, held = probe.step + 1, self.places[node], None
        stream = self.join.orders[probe.row.stream][probe.step]
        rows = self.visible(node, probe, stream) if probe.parts else ()
        for parts in self.partners(node, probe.parts, stream, rows):
            if len(parts) == len(self.join.windows):
                self.emit_result(node, parts)
                continue
            if held is not None:
                self.send(node, following, held, held.kind)
            held = Probe(probe.row, probe.home, parts, step, place)
            if not new_end:
                self.send(node, following, held, held.kind)
                held = None
        if new_end:
            end = replace(held or Probe(probe.row, probe.home, (), step, place), end=True)
            self.account.ends += 1
            self.send(node, following, end, end.kind)

    def visible(self, node: Node, probe: Probe, stream: int) -> Iterable[StoredRow]:
        """The rows of a stream here that a probe is to be joined with."""
        return node.state[stream]

    def expire(self, node: Node, stored: StoredRow, row: Row) -> None:
        """Drop a stored row that another purged."""
        self.remove(node, stored)

    def release(self, node: Node, row: Row) -> None:
        """Nothing of a row comes to this node any more."""

    # Nodes come and go.

    def resize(
        self, slicing: Slicing | int, *, aggressive: bool = False, join: MultiJoin | None = None
    ) -> None:
        """Take other slices, on more or fewer nodes, and other join orders, once no row is in work.

        Passively, slices apply to rows that come or are purged from then on, and nodes without a slice go
        when their last row is too old. Aggressively, state moves to its new place at once while rows wait.
        """
        slicing = even(len(self.join.windows), slicing) if isinstance(slicing, int) else slicing
        self._changes.append(partial(self._resize, slicing, aggressive, join or self.join))
        self._settle()

    def _resize(self, slicing: Slicing, aggressive: bool, join: MultiJoin) -> None:
        self.join = join
        if aggressive:
            self._relocate(slicing)
        else:
            self.nodes += [self.new_node() for _ in range(slicing.nodes - len(self.nodes))]
            self.slice(slicing)

    def _settle(self) -> None:
        """Make the changes that wait for the ring to be empty."""
        while self._changes and not self.working:
            self._changes.pop(0)()

    def _retire(self) -> None:
        """Let the nodes go that have neither a slice nor rows."""
        while len(self.nodes) > self.slicing.nodes and not self.nodes[-1].rows:
            self.nodes.pop()
        self.slice(self.slicing)

    def from_head(self) -> list[Node]:
        """The ring, beginning with the node of the youngest rows."""
        return self.nodes

    def holder(self, stream: int, age: float) -> Node:
        """The node whose slice of a stream has this age; the last, for rows that are older than all."""
        ends = self.ends[stream]
        return self.nodes[next((place for place, end in enumerate(ends) if age < end), -1)]

    def _relocate(self, slicing: Slicing) -> None:
        """Move every row to the node that has its age in other slices (section 14.2)."""
        before = self.from_head()
        self.nodes = relocation.changed(before, slicing.nodes, self.new_node)
        self.slice(slicing)
        for node in {*before, *self.nodes}:
            node.clock = max(node.clock, self.now)
        for stream, window in enumerate(self.join.windows):
            for node in before:
                for stored in list(node.state[stream]):
                    age = self.latest - stored.row.time
                    to = self.holder(stream, age)
                    if age >= window:
                        self.remove(node, stored)
                    elif to is not node:
                        self.remove(node, stored)
                        self.account.messages["moved"] += 1
                        self.spend(node, "send", self.costs.send)
                        self.store(to, stored.row, stored.entered)
            for node in self.nodes:
                node.state[stream] = deque(sorted(node.state[stream], key=lambda stored: stored.row.number))
        resumed = max(node.clock for node in {*before, *self.nodes}) + self.costs.hop
        for node in self.nodes:
            node.clock = resumed
