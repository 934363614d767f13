"""Two join trees over three streams, (A join B) join C: the cost model of Wang, chapter 6.

All joins are by nested loops, all rows of one size; both queries select 25% of each stream, 80% of it the
same rows. ``isolated``, ``pull_up`` and ``state_slice`` give megabytes of state (equations 6.1-6.3) and
millions of comparisons per minute (6.5-6.7).
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.joins.cost import Cost

MEGA = 1e6


@dataclass(frozen=True)
class Tree:
    """One query: windows of both joins in minutes, and the share of each stream's rows that it selects."""

    ab: float
    bc: float
    a: float = 0.25
    b: float = 0.25
    c: float = 0.25


@dataclass(frozen=True)
class StreamSettings:
    """Rows per minute, kilobytes per row, join selectivities, and how much of the selections is the same."""

    rate: float = 1000.0
    row: float = 0.1
    ab: float = 0.1
    bc: float = 0.1
    common: float = 0.8

    def union_share(self, first: float, second: float) -> float:
        """The share of rows that at least one of two selections takes."""
        return first + second - self.common * first


TABLE_6_2 = StreamSettings()
FIRST_QUERY = Tree(ab=1, bc=30)
SECOND_QUERY = Tree(ab=60, bc=15)


def isolated(tree: Tree, s: StreamSettings = TABLE_6_2) -> Cost:
    """One query alone (equations 6.1 and 6.5).

    >>> isolated(FIRST_QUERY).memory, round(isolated(SECOND_QUERY).cpu, 2)
    (75.8, 5633.25)
    """
    joined = 2 * s.rate * tree.a * (s.rate * tree.b * tree.ab) * s.ab
    singles = s.rate * (tree.a + tree.b) * tree.ab + s.rate * tree.c * tree.bc
    memory = singles + joined * tree.bc * 2
    select = 3 * s.rate
    purge = s.rate * (tree.a + tree.b + tree.c) + joined
    probe = joined / s.ab + 2 * joined * s.rate * tree.c * tree.bc
    return _cost(memory, select + purge + probe, s)


def pull_up(first: Tree, second: Tree, s: StreamSettings = TABLE_6_2) -> Cost:
    """One tree with the longer of each windows, routed and selected behind it (equations 6.2 and 6.6)."""
    a, b, c = (
        s.union_share(first.a, second.a),
        s.union_share(first.b, second.b),
        s.union_share(first.c, second.c),
    )
    ab, bc = max(first.ab, second.ab), max(first.bc, second.bc)
    joined = 2 * s.rate * a * (s.rate * b * ab) * s.ab
    results = 2 * joined * (s.rate * c * bc) * s.bc
    memory = s.rate * (a + b) * ab + s.rate * c * bc + joined * bc * 2
    select = 3 * s.rate + 2 * results
    purge = s.rate * (a + b + c) + joined
    probe = joined / s.ab + results / s.bc
    return _cost(memory, select + purge + probe + 2 * results, s)


def state_slice(first: Tree, second: Tree, s: StreamSettings = TABLE_6_2) -> Cost:
    """Three chains of sliced joins, five slices in all (equations 6.3 and 6.7).

    The first query has the shorter window of A and B, the second that of C.
    """
    a, b, c = (
        s.union_share(first.a, second.a),
        s.union_share(first.b, second.b),
        s.union_share(first.c, second.c),
    )
    later_ab, later_bc = second.ab - first.ab, first.bc - second.bc
    joined_1 = 2 * s.rate * a * (s.rate * b * first.ab) * s.ab
    joined_2 = 2 * s.rate * second.a * (s.rate * second.b * later_ab) * s.ab
    only_first = 2 * s.rate * first.a * (s.rate * first.b * first.ab) * s.ab
    memory = s.rate * ((a + b) * first.ab + (second.a + second.b) * later_ab)
    memory += s.rate * (c * second.bc + first.c * later_bc + second.c * second.bc)
    memory += 2 * (joined_1 * second.bc + only_first * later_bc + joined_2 * second.bc)
    results_1 = 2 * joined_1 * (s.rate * c * second.bc) * s.bc
    results_2 = 2 * only_first * (s.rate * first.c * later_bc) * s.bc
    results_3 = 2 * joined_2 * (s.rate * second.c * second.bc) * s.bc
    select = 7 * s.rate + 2 * results_1 + joined_1
    purge = s.rate * (2 * a + 2 * b + 3 * c) + 2 * joined_1 + joined_2
    probe = (joined_1 + joined_2) / s.ab + (results_1 + results_2 + results_3) / s.bc
    return _cost(memory, select + purge + probe + 2 * results_1 + results_2 + results_3, s)


def _cost(rows: float, comparisons: float, s: StreamSettings) -> Cost:
    return Cost(rows * s.row / 1000, comparisons / MEGA)
