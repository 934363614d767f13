"""Costs of a row on a ring of N nodes, and how long the ring should be: Wang, chapter 13.

Comparisons are those of nested loops. Formula 13.1 as printed counts what each step finds in place of what
it compares; with comparisons, 13.2 follows exactly (docs/ring.md lists the thesis' slips).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor, inf, sqrt

from lab.ring.machine import Costs
from lab.ring.statistics import Statistics
from weft.errors import QueryError


@dataclass(frozen=True)
class Step:
    """One step of a join order: the stream probed, the rows that probe it, and how many rows it holds."""

    stream: int
    probes: float
    rows: float

    @property
    def comparisons(self) -> float:
        """Return how many pairs are compared."""
        return self.probes * self.rows


def steps_of(statistics: Statistics, stream: int, order: Sequence[int]) -> tuple[list[Step], float]:
    """The steps of one row of a stream, and how many results it has.

    >>> steps_of(Statistics((50, 50), (10, 10), {(0, 1): 0.1}), 0, [1])
    ([Step(stream=1, probes=1.0, rows=500)], 50.0)
    """
    probes, steps = 1.0, []
    for at, other in enumerate(order):
        steps.append(Step(other, probes, statistics.rows[other]))
        probes *= statistics.rows[other] * statistics.selectivity([stream, *order[:at]], other)
    return steps, probes


@dataclass(frozen=True)
class Model:
    """The cost model of section 13.1 for the average row of all streams.

    >>> streams = Statistics((50, 50, 50), (10, 10, 10), {(0, 1): 0.1, (1, 2): 0.1})
    >>> model = Model(streams, ((1, 2), (0, 2), (1, 0)), Costs(join=1e-5, send=1e-5, hop=1e-4))
    >>> model.comparisons, model.transmitted, model.results, model.ring_length()
    (25500.0, 51.0, 2500.0, 30)
    """

    statistics: Statistics
    orders: Sequence[Sequence[int]]
    costs: Costs

    @cached_property
    def _steps(self) -> list[tuple[float, int, list[Step], float]]:
        """For each stream: its share of all rows, its number, its steps and its results."""
        rates = self.statistics.rates
        total = sum(rates) or 1.0
        every = enumerate(zip(rates, self.orders))
        return [(r / total, s, *steps_of(self.statistics, s, order)) for s, (r, order) in every]

    @property
    def comparisons(self) -> float:
        """Pairs compared for one row."""
        return sum(share * sum(step.comparisons for step in steps) for share, _, steps, _ in self._steps)

    @property
    def transmitted(self) -> float:
        """Return what goes round the ring for one row: itself and its intermediate results."""
        return sum(share * sum(step.probes for step in steps) for share, _, steps, _ in self._steps)

    @property
    def results(self) -> float:
        """Results of one row."""
        return sum(share * results for share, _, _, results in self._steps)

    @property
    def centralized(self) -> float:
        """Work for one row on a single node, L_C (formula 13.1)."""
        return self.costs.insert + self.costs.purge + self.costs.join * self.comparisons

    def workload(self, nodes: int) -> float:
        """Work for one row on all nodes of a ring together, L_PSP (formulas 13.1, 13.2)."""
        return self.centralized + self.costs.send * nodes * self.transmitted

    def service_rate(self, nodes: int) -> float:
        """Rows per unit of time when every node is busy (formula 13.3, for nodes that work in parallel)."""
        return nodes / self.workload(nodes)

    def output_rate(self, nodes: int) -> float:
        """Results per unit of time when every node is busy (formula 13.4)."""
        return self.results * self.service_rate(nodes)

    def latency(self, nodes: float) -> float:
        """Time from a row to its results, on average (formula 13.5)."""
        join, send, hop = self.costs.join, self.costs.send, self.costs.hop
        working = join * self.comparisons / nodes + send * self.transmitted
        return (nodes - 1) / 2 * hop + max(working, len(self.orders) * nodes * hop)

    def latency_of(self, lengths: Sequence[int]) -> float:
        """The same where each stream has slices on a number of nodes of its own (section 13.3).

        A step is worked on by the nodes of the stream that it probes; for like streams this is 13.5.
        """
        costs, total = self.costs, 0.0
        for share, stream, steps, _ in self._steps:
            working = sum(
                costs.join * step.comparisons / lengths[step.stream] + costs.send * step.probes
                for step in steps
            )
            hops = lengths[stream] + sum(lengths[step.stream] for step in steps)
            total += share * ((lengths[steps[0].stream] - 1) / 2 * costs.hop + max(working, hops * costs.hop))
        return total

    def bounds(self) -> tuple[float, float]:
        """N1 and N2 of theorem 9: up to where a node more saves work that hops do not hide, or outweigh."""
        join, send, hop = self.costs.join, self.costs.send, self.costs.hop
        if not hop:
            return inf, inf
        work, sending, streams = join * self.comparisons, send * self.transmitted, len(self.orders)
        first = (sending + sqrt(sending**2 + 4 * streams * hop * work)) / (2 * streams * hop)
        return first, 0.5 + sqrt(0.25 + 2 * work / hop)

    def ring_length(self, most: int | None = None) -> int:
        """The number of nodes with the least latency, min(N1, N2) of theorem 9 in whole nodes.

        Up to N1 a node more saves latency as long as n (n-1) hop / 2 <= work, that is up to N2 rounded down;
        beyond N1 it never does. So the best is N2 rounded down, or one of N1's neighbours.
        """
        limit = inf if most is None else most
        first, second = self.bounds()
        near = min(first, second, limit)
        if near == inf:
            raise QueryError(
                "hops take no time: the more nodes, the better", hint="give the most there may be"
            )
        around = {floor(near), ceil(near) if first <= second else floor(near)}
        return min((max(1, n) for n in around if n <= limit), key=self.latency)
