"""Adaptation: the ring's length and join orders follow what is measured (Wang, chapter 14).

Every so often the rates of the last while are taken, conditions are tried on a sample of its rows, and
theorem 9 says how many nodes there should be. The ring changes when that promises enough.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.ring.cost import Model
from lab.ring.multijoin import Row
from lab.ring.orders import best_orders
from lab.ring.psp import Psp
from lab.ring.slicing import balanced
from lab.ring.statistics import Statistics, measured


@dataclass(frozen=True)
class Change:
    """Decision to change a ring: when, on what statistics, and to which nodes and orders."""

    time: float
    statistics: Statistics
    nodes: int
    orders: tuple[tuple[int, ...], ...]


class Adapter:
    """Adaptation of a ring every ``period``, which changes it if latency is to fall by the share ``gain``.

    >>> from lab.ring.machine import Costs
    >>> from lab.ring.multijoin import MultiJoin, rows_of
    >>> ring = Psp(MultiJoin((10, 10)), 2, Costs(join=0.01, send=1e-3, hop=0.01))
    >>> adapter = Adapter(ring, 10, most=8)
    >>> _ = ring.run(rows_of((n % 2, n / 10, n) for n in range(400)))
    >>> [(change.time, change.nodes) for change in adapter.changes]
    [(10, 5)]
    """

    def __init__(
        self, ring: Psp, period: float, *, most: int, aggressive: bool = False, gain: float = 0.1
    ) -> None:
        self.ring, self.period, self.most = ring, period, most
        self.aggressive, self.gain = aggressive, gain
        self.changes: list[Change] = []
        self.rows: list[Row] = []
        ring.watch = self.rows.append
        ring.at(period, self.look)

    def look(self) -> None:
        """Measure, and change the ring if that pays."""
        ring = self.ring
        if not ring.coming:
            return
        ring.at(ring.now + self.period, self.look)
        if self.rows:
            statistics = measured(ring.join, self.rows, self.period)
            self.rows.clear()
            orders = best_orders(statistics)
            now, then = Model(statistics, ring.join.orders, ring.costs), Model(statistics, orders, ring.costs)
            nodes = then.ring_length(self.most)
            if then.latency(nodes) < (1 - self.gain) * now.latency(ring.slicing.nodes):
                self.changes.append(Change(ring.now, statistics, nodes, orders))
                slicing = balanced(statistics.rows, [nodes] * len(orders))
                ring.resize(slicing, aggressive=self.aggressive, join=ring.join.ordered(orders))
