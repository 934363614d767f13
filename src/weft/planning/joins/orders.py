"""Join orders: for the rows of each stream, in which order the other streams' states are probed.

The best order makes the fewest candidates and intermediate results, by how many rows each side keeps and how
selective the conditions of each level are. It is found exactly, since the number of joined rows of some
sides does not depend on the order in which they met: a shortest path over sets of sides.

What is known of a level is what was measured there. A level that no order uses yet is estimated from its
conditions: as measured where one was alone, or as its share of those it was tested with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import TypeAlias

from weft.model.expression import Call, Expr
from weft.planning.joins.levels import Level, Levels

LevelKey: TypeAlias = tuple[frozenset[int], int]
Orders: TypeAlias = tuple[tuple[int, ...], ...]

ASSUMED_PAIRS = 100.0
"""Pairs that what is assumed of a condition counts for, beside those that were measured."""

LOOKUP_CANDIDATES = 4.0
"""Candidates that looking one row up costs as much as."""


@dataclass
class LevelWork:
    """Work that a level has done: pairs it stands for, candidates it looked at, joined rows it made."""

    near: float = 0.0
    tried: float = 0.0
    joined: float = 0.0


class Selectivity:
    """The share of pairs that pass a level."""

    def __init__(self, levels: Levels, work: Mapping[LevelKey, LevelWork]) -> None:
        self.levels, self.work = levels, work
        self._conditions: dict[Expr, float] = {}
        for (bound, side), done in sorted(work.items(), key=lambda item: len(item[0][0]), reverse=True):
            conditions = levels.level(bound, side).conditions
            if not conditions or not done.near:
                continue
            share = self._measured(done, _assumed(conditions))
            total = sum(log(assumed(c)) for c in conditions)
            for condition in conditions:
                # Levels of fewer sides come later and are nearer to the condition itself.
                self._conditions[condition] = exp(log(share) * log(assumed(condition)) / total)

    def of(self, level: Level) -> float:
        """The share of all pairs that pass."""
        guess = self.of_conditions(level.conditions)
        done = self.work.get((level.bound, level.side))
        return guess if done is None else self._measured(done, guess)

    def of_conditions(self, conditions: Sequence[Expr]) -> float:
        """The share that some conditions let pass, if none of them knows of the others."""
        share = 1.0
        for condition in conditions:
            share *= self._conditions.get(condition, assumed(condition))
        return share

    @staticmethod
    def _measured(done: LevelWork, guess: float) -> float:
        return min(1.0, (done.joined + ASSUMED_PAIRS * guess) / (done.near + ASSUMED_PAIRS))


def choose_orders(levels: Levels, rows: Sequence[float], work: Mapping[LevelKey, LevelWork]) -> Orders:
    """The order of each side, by the rows that each keeps and by what levels have done so far.

    A side that keeps none yet is taken to be like the others.
    """
    counts = [count for count in rows if count] or [1000.0]
    rows = [count or sum(counts) / len(counts) for count in rows]
    selectivity = Selectivity(levels, work)
    return tuple(_best(side, levels, rows, selectivity) for side in range(len(rows)))


def order_cost(
    order: Sequence[int],
    start: int,
    levels: Levels,
    rows: Sequence[float],
    work: Mapping[LevelKey, LevelWork],
) -> float:
    """Candidates that a row of side ``start`` should have to be compared with in this order, in all."""
    selectivity = Selectivity(levels, work)
    bound, size, cost = frozenset((start,)), 1.0, 0.0
    for side in order:
        level = levels.level(bound, side)
        cost += _cost(level, size, rows[side], selectivity)
        size *= rows[side] * selectivity.of(level)
        bound |= {side}
    return cost


def _best(start: int, levels: Levels, rows: Sequence[float], selectivity: Selectivity) -> tuple[int, ...]:
    """The cheapest order from one side: for every set of sides, the cheapest way to have joined it.

    A side is never met without a condition while another could be met with one: estimates of the product of
    two streams that turn out too low would cost too much.
    """
    reached: dict[frozenset[int], tuple[float, float, tuple[int, ...]]] = {
        frozenset((start,)): (0.0, 1.0, ())
    }
    for _ in rows[1:]:
        longer: dict[frozenset[int], tuple[float, float, tuple[int, ...]]] = {}
        for bound, (cost, size_before, order) in reached.items():
            ways = [levels.level(bound, side) for side in range(len(rows)) if side not in bound]
            for level in [way for way in ways if way.conditions] or ways:
                more = cost + _cost(level, size_before, rows[level.side], selectivity)
                size = size_before * rows[level.side] * selectivity.of(level)
                way, whole = (more, size, (*order, level.side)), bound | {level.side}
                longer[whole] = min(way, longer.get(whole, way))
        reached = longer
    ((_, _, order),) = reached.values()
    return order


def _cost(level: Level, joined: float, rows: float, selectivity: Selectivity) -> float:
    """Return the cost of joined rows meeting kept ones: looking up, candidates, results."""
    looked_up = selectivity.of_conditions([key.condition for key in level.keys])
    return joined * (LOOKUP_CANDIDATES + rows * looked_up + rows * selectivity.of(level))


def assumed(condition: Expr) -> float:
    """The share of pairs that a condition is taken to let pass before anything is measured.

    >>> from weft.model.expression import Column
    >>> assumed(Call("=", (Column("a.x"), Column("b.x"))))
    0.01
    """
    if isinstance(condition, Call):
        if condition.function == "=":
            return 0.01
        if condition.function in ("<", "<=") and str(condition.args[0]).startswith("abs("):
            return 0.1
    return 0.5


def _assumed(conditions: Sequence[Expr]) -> float:
    share = 1.0
    for condition in conditions:
        share *= assumed(condition)
    return share
