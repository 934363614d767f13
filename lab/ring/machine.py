"""The machine that all schemes run on: nodes with clocks, links that keep their order, and accounts.

A node works on one message after the other, in the order of their arrival; what it does costs time on its
own clock. A message takes a hop to arrive, and none overtakes another between the same two nodes, which is
all that the schemes rely on. With a seed, hops take random times and nodes stall, so that everything that
may interleave does; without one, every run is the same and times are those of the cost model.
"""

from __future__ import annotations

import heapq
import math
import random
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from operator import attrgetter
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from lab.ring.multijoin import MultiJoin, Row
from weft.errors import QueryError

_stream = attrgetter("stream")


@dataclass(frozen=True)
class Costs:
    """Table 13.1: time to join two rows, purge one, insert one, send (and receive) one, and of one hop."""

    join: float = 1e-4
    purge: float = 1e-5
    insert: float = 1e-5
    send: float = 1e-4
    hop: float = 1e-3


class Result(NamedTuple):
    """Joined rows in the order of their streams, and when the last of them arrived, was begun, was joined."""

    rows: tuple[Row, ...]
    arrived: float
    began: float
    joined: float


@dataclass
class Account:
    """Account of a run: operations, messages by kind, END marks, state, results, and each row's times."""

    operations: Counter[str] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    ends: int = 0
    results: list[Result] = field(default_factory=list)
    began: dict[int, float] = field(default_factory=dict)
    finished: dict[int, float] = field(default_factory=dict)
    arrived: dict[int, float] = field(default_factory=dict)
    changes: list[tuple[float, int, int]] = field(default_factory=list)
    """When a row was stored (1) or removed (-1), and at which node."""

    def latency(self, since: float = -math.inf) -> float:
        """Mean time from the arrival of a result's last row to the result, of rows that came since then."""
        return _mean(r.joined - r.arrived for r in self.results if r.arrived >= since)

    def response(self, since: float = -math.inf) -> float:
        """The same without the time that the row waited for work on it to begin."""
        return _mean(r.joined - r.began for r in self.results if r.arrived >= since)

    def cycle(self) -> float:
        """Mean time from when work on a row began until nothing of it was left to do."""
        return _mean(time - self.began[number] for number, time in self.finished.items())

    def state(self, since: float = -math.inf, node: int | None = None) -> tuple[int, float]:
        """The peak, and the mean over time, of the rows stored since then, at a node or at all together."""
        changes = sorted(c for c in self.changes if node is None or c[1] == node)
        if not changes:
            return 0, 0.0
        times = np.array([time for time, _, _ in changes])
        rows = np.cumsum([change for _, _, change in changes])
        clipped = np.maximum(times, since)
        span = clipped[-1] - clipped[0]
        mean = float(rows[:-1] @ np.diff(clipped) / span) if span > 0 else float(rows[-1])
        return int(rows[times >= since].max(initial=0)), mean


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return fmean(numbers) if numbers else math.nan


class StoredRow:
    """A row in a node's state, for rows in work with a number from ``entered`` up to ``left``."""

    __slots__ = ("entered", "left", "row")

    def __init__(self, row: Row, entered: int) -> None:
        self.row, self.entered, self.left = row, entered, math.inf


class Node:
    """A place that works: its clock, and its state, a queue per stream with the oldest row first."""

    def __init__(self, number: int, streams: int) -> None:
        self.number, self.clock = number, 0.0
        self.state: list[deque[StoredRow]] = [deque() for _ in range(streams)]

    @property
    def rows(self) -> int:
        """Return how many rows are stored."""
        return sum(map(len, self.state))


class Scheme(ABC):
    """A way to run a join over nodes. Schemes say what happens when a row arrives and a message is received.

    ``unique`` schemes assert that no row is ever stored twice.
    """

    unique = False

    def __init__(self, join: MultiJoin, nodes: int, costs: Costs | None = None, *, seed: int | None = None):
        if nodes < 1:
            raise QueryError(f"{nodes} nodes", hint="give one or more")
        self.join, self.costs = join, costs or Costs()
        self._numbers = count()
        self.nodes = [self.new_node() for _ in range(nodes)]
        self.account = Account()
        self.now = 0.0
        self.coming = 0
        """How many rows have still to arrive."""
        self._random = None if seed is None else random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._scheduled = 0
        self._links: dict[tuple[int, int], float] = {}
        self._copies: Counter[int] = Counter()

    @abstractmethod
    def arrive(self, row: Row) -> None:
        """A row of a stream is there."""

    @abstractmethod
    def receive(self, node: Node, message: Any) -> None:
        """A node works on a message."""

    def run(self, rows: Sequence[Row]) -> Account:
        """Take all rows, each at its time, and work until nothing is left to do."""
        if not all(0 <= row.stream < len(self.join.windows) for row in rows):
            raise QueryError(f"a row of a stream that the join of {len(self.join.windows)} does not have")
        self.coming += len(rows)
        for row in rows:
            self.at(row.time, partial(self._arrives, row))
        while self._events:
            self.now, _, action = heapq.heappop(self._events)
            action()
        return self.account

    def _arrives(self, row: Row) -> None:
        self.coming -= 1
        self.account.arrived[row.number] = self.now
        self.arrive(row)

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Let something happen at a time."""
        self._scheduled += 1
        heapq.heappush(self._events, (time, self._scheduled, action))

    def new_node(self) -> Node:
        """One more node, with a number of its own."""
        return Node(next(self._numbers), len(self.join.windows))

    def deliver(self, node: Node, message: Any) -> None:
        """Let a node work on a message as soon as it is free."""
        node.clock = max(node.clock, self.now)
        if self._random is not None:
            node.clock += self.costs.hop * self._random.choice((0, 0, 1, 5))
        self.receive(node, message)

    def send(self, node: Node, to: Node, message: Any, kind: str) -> None:
        """Send a message; what a node leaves for itself costs nothing."""
        time = node.clock
        if to is not node:
            self.account.messages[kind] += 1
            self.spend(node, "send", self.costs.send)
            hop = 1.0 if self._random is None else self._random.choice((0, 1, 2, 9))
            time = node.clock + self.costs.hop * hop
        link = (node.number, to.number)
        self._links[link] = time = max(time, self._links.get(link, time))
        self.at(time, partial(self.deliver, to, message))

    def spend(self, node: Node, operation: str, time: float) -> None:
        """Count one operation of a node and let its time pass."""
        self.account.operations[operation] += 1
        node.clock += time

    def store(self, node: Node, row: Row, entered: int = 0) -> StoredRow:
        """Insert a row into a node's state."""
        self.spend(node, "insert", self.costs.insert)
        stored = StoredRow(row, entered)
        node.state[row.stream].append(stored)
        self.account.changes.append((node.clock, node.number, 1))
        self._copies[row.number] += 1
        assert not self.unique or self._copies[row.number] == 1, f"{row} is stored twice"
        return stored

    def remove(self, node: Node, stored: StoredRow) -> None:
        """Take a row out of a node's state."""
        self.spend(node, "purge", self.costs.purge)
        node.state[stored.row.stream].remove(stored)
        self.account.changes.append((node.clock, node.number, -1))
        self._copies[stored.row.number] -= 1

    def partners(
        self, node: Node, parts: tuple[Row, ...], stream: int, rows: Iterable[StoredRow]
    ) -> Iterator[tuple[Row, ...]]:
        """Yield joined rows with each that they join with of a stream's rows, one after the other."""
        matches, cost, tried = self.join.matcher(parts, stream), self.costs.join, 0
        for stored in rows:
            tried += 1
            node.clock += cost
            if matches(stored.row.value):
                yield (*parts, stored.row)
        self.account.operations["join"] += tried

    def emit_result(self, node: Node, parts: tuple[Row, ...]) -> None:
        """Give a result away."""
        number = parts[0].number
        times = self.account.arrived[number], self.account.began[number], node.clock
        self.account.results.append(Result(tuple(sorted(parts, key=_stream)), *times))
