"""Statistics of join orders: what the nodes of a ring measure, and the orders of the next step by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.operators.joins.program import JoinProgram
from weft.planning.joins.levels import Levels
from weft.planning.joins.member import Key
from weft.planning.joins.orders import LevelKey, LevelWork, Orders, choose_orders


@dataclass
class JoinStatistics:
    """Measurements of one join: its levels, its orders, what the levels have done, and the rows that each
    side kept after the last step (empty: there was none)."""

    levels: Levels
    orders: Orders
    work: dict[LevelKey, LevelWork] = field(default_factory=dict)
    stored: list[float] = field(default_factory=list)


class OrderStatistics:
    """The join orders of the joins of more than two streams, which are chosen by what steps report."""

    def __init__(self) -> None:
        self._joins: dict[Key, JoinStatistics] = {}

    def of_join(self, program: JoinProgram) -> JoinStatistics:
        """Return what is known of a join."""
        key = program.members[0].key
        if key not in self._joins:
            levels = Levels(program.members, program.schemas)
            self._joins[key] = JoinStatistics(levels, choose_orders(levels, [0.0] * len(program.sides), {}))
        return self._joins[key]

    def orders(self, programs: Sequence[JoinProgram]) -> tuple[Orders | None, ...]:
        """The orders of each join; None for one of two streams."""
        return tuple(self.of_join(p).orders if len(p.sides) > 2 else None for p in programs)

    def learn(self, programs: Sequence[JoinProgram], reports: Iterable[Mapping[str, Any]]) -> None:
        """Choose orders by what the nodes report of a step; earlier steps count half of the later ones."""
        reports = list(reports)
        for number, program in enumerate(programs):
            if len(program.sides) == 2:
                continue
            join, stored_rows = self.of_join(program), [0.0] * len(program.sides)
            for done in join.work.values():
                done.near, done.tried, done.joined = done.near / 2, done.tried / 2, done.joined / 2
            for report in reports:
                for _, bound, side, *counts in (w for w in report["work"] if w[0] == number):
                    done = join.work.setdefault((frozenset(bound), side), LevelWork())
                    done.near, done.tried, done.joined = map(
                        sum, zip((done.near, done.tried, done.joined), counts)
                    )
                stored_rows = [a + b for a, b in zip(stored_rows, report["kept"][str(number)])]
            join.orders, join.stored = choose_orders(join.levels, stored_rows, join.work), stored_rows
