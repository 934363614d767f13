"""Where the slices of a chain should end: Mem-Opt, CPU-Opt, and what lies between them (Wang, chapter 7).

A slice per range keeps the least rows. A slice over several ranges saves purging and running slices, and
costs routing, and rows that live longer than their selection needs. The best chain is the shortest path
from age 0 to the longest range in the graph whose edge (i, j) is one slice over the ranges between (section
7.2); with a bound on the rows kept, the shortest of those that keep it. Each side is a chain of one-way
joins and has a path of its own, so ranges may differ from side to side.

In the formula of section 7.2 for what merging saves, the system's overhead is counted for one slice too
many; here it is once per slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from weft.errors import QueryError
from weft.joins.member import Member
from weft.joins.rates import COMPARISONS, SECOND, Costs, Rates


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


def mem_opt(members: Sequence[Member]) -> list[list[int]]:
    """A slice per distinct range of each side."""
    return [sorted({m.ranges[side] for m in members}) for side in range(2)]


def cpu_opt(members: Sequence[Member], rates: Rates, costs: Costs = COMPARISONS) -> list[list[int]]:
    """The chain with the fewest comparisons per second."""
    return bounded(members, rates, costs=costs)


def bounded(
    members: Sequence[Member], rates: Rates, most_rows: float = inf, costs: Costs = COMPARISONS
) -> list[list[int]]:
    """The chain with the fewest comparisons per second of those that keep at most so many rows."""
    first, second = (_paths(members, rates, side, costs) for side in range(2))
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
    members: Sequence[Member], ends: Sequence[Sequence[int]], rates: Rates, costs: Costs = COMPARISONS
) -> list[Slice]:
    """The slices of a chain, each with what it should keep and cost."""
    found = []
    for side, last in enumerate(ends):
        for start, end in zip([0, *last], last):
            found.append(_slice(members, rates, side, start, end, costs))
    return found


def _paths(members: Sequence[Member], rates: Rates, side: int, costs: Costs) -> list[_Path]:
    """The chains of one side of which none keeps and costs more than another, the dearest to keep last."""
    nodes = [0, *mem_opt(members)[side]]
    best: list[list[_Path]] = [[_Path(0.0, 0.0, ())], *([] for _ in nodes[1:])]
    for j in range(1, len(nodes)):
        reached = []
        for i in range(j):
            edge = _slice(members, rates, side, nodes[i], nodes[j], costs)
            reached += [_Path(p.rows + edge.rows, p.cpu + edge.cpu, (*p.slices, edge)) for p in best[i]]
        cheapest = inf
        for path in sorted(reached, key=lambda p: (round(p.rows, 6), p.cpu)):
            if path.cpu < cheapest * (1 - 1e-12):
                cheapest = path.cpu
                best[j].append(path)
    return best[-1]


def _slice(members: Sequence[Member], rates: Rates, side: int, start: int, end: int, costs: Costs) -> Slice:
    served = [n for n, m in enumerate(members) if m.ranges[side] > start]
    inside = len({m.ranges[side] for m in members if start < m.ranges[side] <= end})
    entering = rates.rows[side] * rates.share(side, served)
    probing = rates.rows[1 - side] * rates.share(1 - side, served)
    rows = entering * (end - start) / SECOND
    cpu = (
        probing * rows * costs.probe
        + probing * costs.purge
        + probing * rows * rates.join * max(0, inside - 1) * costs.route
        + (probing + entering) / 2 * costs.system
    )
    return Slice(side, start, end, tuple(members[n].name for n in served), rows, cpu)
