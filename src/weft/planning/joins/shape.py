"""Ends of the slices of a chain: Mem-Opt, CPU-Opt, and what lies between them (Wang, chapter 7).

A slice per range keeps the least rows. A slice over several ranges saves purging and running slices, and
costs routing, and rows that live longer than their selection needs. The best chain is the shortest path
from age 0 to the longest range in the graph whose edge (i, j) is one slice over the ranges between (section
7.2); with a bound on the rows kept, the shortest of those that keep it. Each side is a chain of one-way
joins and has a path of its own, so ranges may differ from side to side.

In the formula of section 7.2 for what merging saves, the system's overhead is counted for one slice too
many; here it is once per slice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from weft.errors import QueryError
from weft.planning.joins.member import Member
from weft.planning.joins.rates import COMPARISONS, SECOND, ChainCosts, Rates


@dataclass(frozen=True)
class Slice:
    """One slice of a side: the ages it holds, the queries it serves, and what it should cost."""

    side: int
    start: int
    end: int
    serves: tuple[str, ...]
    rows: float
    cpu: float


@dataclass(frozen=True)
class _Path:
    rows: float
    cpu: float
    slices: tuple[Slice, ...]


MAX_LABELS_PER_RANGE = 64
"""Partial chains remembered per range where rows are bounded."""


def mem_opt(members: Sequence[Member]) -> list[list[int]]:
    """A slice per distinct range of each side."""
    return [sorted({m.ranges[side] for m in members}) for side in range(len(members[0].sides))]


def cpu_opt(members: Sequence[Member], rates: Rates, costs: ChainCosts = COMPARISONS) -> list[list[int]]:
    """The chain with the fewest comparisons per second."""
    return bounded(members, rates, costs=costs)


def bounded(
    members: Sequence[Member], rates: Rates, most_rows: float = inf, costs: ChainCosts = COMPARISONS
) -> list[list[int]]:
    """The chain with the fewest comparisons per second of those that keep at most so many rows."""
    labels = 1 if most_rows == inf else MAX_LABELS_PER_RANGE
    first, second = (_paths(members, rates, side, costs, labels) for side in range(2))
    fits = [(a.cpu + b.cpu, a.rows + b.rows, a, b) for a in first for b in second]
    # Sums of the same numbers in another order differ in their last digits.
    good = [f for f in fits if f[1] <= most_rows * (1 + 1e-9)]
    if not good:
        least = min(f[1] for f in fits)
        raise QueryError(
            f"no chain keeps at most {most_rows:,.6g} rows",
            hint=f"the least for these queries at these rates is {least:,.6g}",
        )
    chosen = min(good, key=lambda f: f[:2])
    return [[s.end for s in path.slices] for path in chosen[2:]]


def priced(
    members: Sequence[Member], ends: Sequence[Sequence[int]], rates: Rates, costs: ChainCosts = COMPARISONS
) -> list[Slice]:
    """The slices of a chain, each with what it should keep and cost."""
    slices = []
    for side, last in enumerate(ends):
        for start, end in zip([0, *last], last):
            slices.append(_slice(_Flow.of(members, rates, side, start), end, rates.join, costs))
    return slices


@dataclass(frozen=True)
class _Flow:
    """Queries that a slice from some age on serves, and rows per second that enter and probe it."""

    side: int
    start: int
    serves: tuple[str, ...]
    ranges: tuple[int, ...]
    entering: float
    probing: float

    @classmethod
    def of(cls, members: Sequence[Member], rates: Rates, side: int, start: int) -> _Flow:
        served = [n for n, m in enumerate(members) if m.ranges[side] > start]
        return cls(
            side,
            start,
            tuple(members[n].name for n in served),
            tuple(sorted({members[n].ranges[side] for n in served})),
            rates.rows[side] * rates.share(side, served),
            rates.rows[1 - side] * rates.share(1 - side, served),
        )


def _slice(flow: _Flow, end: int, join: float, costs: ChainCosts) -> Slice:
    inside = bisect_right(flow.ranges, end)
    rows = flow.entering * (end - flow.start) / SECOND
    cpu = (
        flow.probing * rows * costs.probe
        + flow.probing * costs.purge
        + flow.probing * rows * join * max(0, inside - 1) * costs.route
        + (flow.probing + flow.entering) / 2 * costs.system
    )
    return Slice(flow.side, flow.start, end, flow.serves, rows, cpu)


def _paths(members: Sequence[Member], rates: Rates, side: int, costs: ChainCosts, labels: int) -> list[_Path]:
    """The chains of one side of which none keeps and costs more than another; with one label, the cheapest.

    With several, at most so many are remembered per range, spread evenly from the fewest rows on.
    """
    nodes = [0, *mem_opt(members)[side]]
    flows = [_Flow.of(members, rates, side, start) for start in nodes[:-1]]
    best: list[list[_Path]] = [[_Path(0.0, 0.0, ())], *([] for _ in nodes[1:])]
    for j in range(1, len(nodes)):
        reached = []
        for i in range(j):
            edge = _slice(flows[i], nodes[j], rates.join, costs)
            reached += [_Path(p.rows + edge.rows, p.cpu + edge.cpu, (*p.slices, edge)) for p in best[i]]
        if labels == 1:
            best[j] = [min(reached, key=lambda p: (p.cpu, p.rows))]
            continue
        cheapest = inf
        for path in sorted(reached, key=lambda p: (round(p.rows, 6), p.cpu)):
            if path.cpu < cheapest * (1 - 1e-12):
                cheapest = path.cpu
                best[j].append(path)
        best[j] = best[j][:: -(-len(best[j]) // labels)]
    return best[-1]
