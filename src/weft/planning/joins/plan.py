"""Plans of joins: a chain for those of two streams, one state for those of more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from weft.model.join import JoinQuery
from weft.planning.joins.chain_plan import ChainPlan, plan_chain
from weft.planning.joins.member import check_sides, sharing
from weft.planning.joins.multiway_plan import MultiwayPlan, plan_multiway
from weft.planning.joins.rates import ChainCosts, assumed, calibrated

SharedPlan: TypeAlias = ChainPlan | MultiwayPlan
"""The plan of joins on one condition."""


def plan_joins(
    queries: Sequence[JoinQuery],
    rate: float = 1000.0,
    shape: str | float = "mem-opt",
    costs: ChainCosts | None = None,
) -> list[SharedPlan]:
    """Plan what some joins share at a rate, before anything is known of the streams.

    Selections are taken to let half of the rows pass, the condition of a chain one pair in a hundred.

    >>> import weft
    >>> joins = weft.sql("SELECT a.x FROM a [RANGE '1 min'], b [RANGE '1 min'] WHERE a.x = b.x")
    >>> plan_joins(joins, rate=10.0)[0].rows
    1200.0
    """
    plans: list[SharedPlan] = []
    for members in sharing(queries):
        check_sides(members)
        rates = assumed(members, rate)
        two = len(members[0].sides) == 2
        plans.append(
            plan_chain(members, rates, shape, costs or calibrated()) if two else plan_multiway(members, rates)
        )
    return plans
