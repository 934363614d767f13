"""Costs of sharing two joins, in rows kept and comparisons per second: Wang, chapters 4 and 5.

Query 1 joins A and B with window W1, query 2 with the longer W2 and a selection on A; both streams have the
same rate. ``savings`` are what state-slice saves over its rivals where rates are high enough that only
terms with their square count (equation 5.2).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Table 4.1: rows per second of each stream, both windows in seconds, how selective are the selection
    on A and the join, and the size of a row.
    """

    rate: float
    first: float
    second: float
    selection: float
    join: float
    row: float = 1.0


@dataclass(frozen=True)
class Cost:
    """State memory (in units of a row's size) and comparisons per second."""

    memory: float
    cpu: float


def pull_up(s: Settings) -> Cost:
    """One join with the longer window, a router and the selection behind it (equation 4.1).

    >>> pull_up(Settings(rate=10, first=1, second=5, selection=0.5, join=0.1)).memory
    100.0
    """
    results = 2 * s.rate**2 * s.second * s.join
    return Cost(2 * s.rate * s.second * s.row, 2 * s.rate**2 * s.second + 2 * s.rate + results + results)


def push_down(s: Settings) -> Cost:
    """Stream A split by the selection, a join for each part, routed and merged (equation 4.2)."""
    memory = (2 - s.selection) * s.rate * s.first + (1 + s.selection) * s.rate * s.second
    split, purge = s.rate, 3 * s.rate
    probe = 2 * (1 - s.selection) * s.rate**2 * s.first + 2 * s.selection * s.rate**2 * s.second
    route = 2 * s.selection * s.rate**2 * s.second * s.join
    union = 2 * s.rate**2 * s.first * s.join
    return Cost(memory * s.row, split + probe + purge + route + union)


def state_slice(s: Settings) -> Cost:
    """Two sliced joins with the selection between them (equation 5.1)."""
    memory = 2 * s.rate * s.first + (1 + s.selection) * s.rate * (s.second - s.first)
    probe = 2 * s.rate**2 * s.first + 2 * s.rate**2 * s.selection * (s.second - s.first)
    select, purge, union = s.rate, 4 * s.rate, 2 * s.rate
    select_results = 2 * s.rate**2 * s.join * s.first
    return Cost(memory * s.row, probe + select + purge + union + select_results)


@dataclass(frozen=True)
class Savings:
    """Shares of memory and CPU that state-slice saves over selection pull-up and push-down."""

    memory_over_pull_up: float
    memory_over_push_down: float
    cpu_over_pull_up: float
    cpu_over_push_down: float


def savings(ratio: float, selection: float, join: float) -> Savings:
    """Equation 5.2, with the ratio of the windows, W1 / W2.

    >>> savings(0.5, 1.0, 0.1).memory_over_pull_up      # nothing to select: the same memory
    0.0
    """
    return Savings(
        (1 - ratio) * (1 - selection) / 2,
        ratio / (1 + 2 * ratio + (1 - ratio) * selection),
        ((1 - ratio) * (1 - selection) + (2 - ratio) * join) / (1 + 2 * join),
        selection * join / (ratio * (1 - selection) + selection + selection * join + ratio * join),
    )
