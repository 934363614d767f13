"""What joins would share: a chain for those of two streams, one state for those of more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from weft.joins.explain import ChainPlan, plan_chain
from weft.joins.member import check_sides, sharing
from weft.joins.multiway.book import OrderBook
from weft.joins.multiway.explain import MultiwayPlan, plan_multiway
from weft.joins.program import JoinProgram
from weft.joins.rates import Costs, assumed, calibrated
from weft.query import JoinQuery

SharedPlan: TypeAlias = ChainPlan | MultiwayPlan
"""What joins on one condition share."""


@dataclass(frozen=True)
class JoinPlan:
    """The chains of all joins of a stream, and its joins of more than two streams."""

    chains: tuple[SharedPlan, ...]

    @classmethod
    def of(
        cls,
        programs: Sequence[JoinProgram],
        ends: Sequence[Sequence[Sequence[int]]],
        book: OrderBook | None = None,
    ) -> JoinPlan:
        """Those of some programs, sliced so, in the orders of the book, at rates that are assumed."""
        found: list[SharedPlan] = []
        for program, some in zip(programs, ends):
            members, rates = program.members, assumed(program.members)
            if len(program.sides) == 2:
                found.append(plan_chain(members, rates, "as they are", ends=some))
            else:
                found.append(plan_multiway(members, rates, book.page(program) if book else None))
        return cls(tuple(found))

    @property
    def cost(self) -> float:
        """Comparisons per second that all of them should make."""
        return sum(chain.cpu for chain in self.chains)

    @property
    def alone(self) -> float:
        """Comparisons per second that the joins should make one by one."""
        return sum(chain.alone_cpu for chain in self.chains)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.chains))

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"chains": [chain.to_dict() for chain in self.chains]}


def plan_joins(
    queries: Sequence[JoinQuery],
    rate: float = 1000.0,
    shape: str | float = "mem-opt",
    costs: Costs | None = None,
) -> list[SharedPlan]:
    """What some joins share at a rate, before anything is known of the streams.

    Selections are taken to let half of the rows pass, the condition of a chain one pair in a hundred.

    >>> import weft
    >>> joins = weft.sql("SELECT a.x FROM a [RANGE '1 min'], b [RANGE '1 min'] WHERE a.x = b.x")
    >>> plan_joins(joins, rate=10.0)[0].rows
    1200.0
    """
    found: list[SharedPlan] = []
    for members in sharing(queries):
        check_sides(members)
        rates = assumed(members, rate)
        two = len(members[0].sides) == 2
        found.append(
            plan_chain(members, rates, shape, costs or calibrated()) if two else plan_multiway(members, rates)
        )
    return found
