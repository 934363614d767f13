"""The plan of joins that run: the chains as they are sliced, in the join orders of now."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from weft.operators.joins.multiway.order_statistics import JoinStatistics
from weft.operators.joins.program import JoinProgram
from weft.planning.joins.chain_plan import plan_chain
from weft.planning.joins.levels import Levels
from weft.planning.joins.multiway_plan import plan_multiway
from weft.planning.joins.orders import Orders
from weft.planning.joins.plan import SharedPlan
from weft.planning.joins.rates import assumed


def running_chains(
    programs: Sequence[JoinProgram],
    ends: Sequence[Sequence[Sequence[int]]],
    orders: Sequence[Orders | None] = (),
) -> tuple[SharedPlan, ...]:
    """Plan programs of joins, sliced so, in these orders where they have been measured, at assumed rates."""
    plans: list[SharedPlan] = []
    for program, slice_ends, order in zip_longest(programs, ends, orders):
        members, rates = program.members, assumed(program.members)
        if len(program.sides) == 2:
            plans.append(plan_chain(members, rates, "as they are", ends=slice_ends))
        else:
            running = order and JoinStatistics(Levels(members, program.schemas), order)
            plans.append(plan_multiway(members, rates, running or None))
    return tuple(plans)
