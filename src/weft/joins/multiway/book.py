"""The book of join orders: what the nodes of a ring measure, and the orders of the next step by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.joins.member import Key
from weft.joins.multiway.levels import Levels
from weft.joins.multiway.orders import LEVEL_OF, Orders, Work, choose_orders
from weft.joins.program import JoinProgram


@dataclass
class Page:
    """What is known of one join: its levels, its orders, and what the levels have done."""

    levels: Levels
    orders: Orders
    work: dict[LEVEL_OF, Work] = field(default_factory=dict)


class OrderBook:
    """The join orders of the joins of more than two streams, which are chosen by what steps report."""

    def __init__(self) -> None:
        self._pages: dict[Key, Page] = {}

    def page(self, program: JoinProgram) -> Page:
        """What is known of a join."""
        key = program.members[0].key
        if key not in self._pages:
            levels = Levels(program.members, program.schemas)
            self._pages[key] = Page(levels, choose_orders(levels, [0.0] * len(program.sides), {}))
        return self._pages[key]

    def orders(self, programs: Sequence[JoinProgram]) -> tuple[Orders | None, ...]:
        """The orders of each join; None for one of two streams."""
        return tuple(self.page(p).orders if len(p.sides) > 2 else None for p in programs)

    def learn(self, programs: Sequence[JoinProgram], reports: Iterable[Mapping[str, Any]]) -> None:
        """Choose orders by what the nodes report of a step; earlier steps count half of the later ones."""
        reports = list(reports)
        for number, program in enumerate(programs):
            if len(program.sides) == 2:
                continue
            page, kept = self.page(program), [0.0] * len(program.sides)
            for done in page.work.values():
                done.near, done.tried, done.found = done.near / 2, done.tried / 2, done.found / 2
            for report in reports:
                for _, bound, side, *counts in (w for w in report["work"] if w[0] == number):
                    done = page.work.setdefault((frozenset(bound), side), Work())
                    done.near, done.tried, done.found = map(
                        sum, zip((done.near, done.tried, done.found), counts)
                    )
                kept = [a + b for a, b in zip(kept, report["kept"][str(number)])]
            page.orders = choose_orders(page.levels, kept, page.work)
