"""The plan of joins that run: the chains as they are sliced, in the join orders of now."""

from __future__ import annotations

from collections.abc import Sequence

from weft.operators.joins.multiway.order_statistics import OrderStatistics
from weft.operators.joins.program import JoinProgram
from weft.planning.joins.chain_plan import plan_chain
from weft.planning.joins.multiway_plan import plan_multiway
from weft.planning.joins.plan import JoinPlan, SharedPlan
from weft.planning.joins.rates import assumed


def running_plan(
    programs: Sequence[JoinProgram],
    ends: Sequence[Sequence[Sequence[int]]],
    statistics: OrderStatistics | None = None,
) -> JoinPlan:
    """Plan programs that run, sliced so, in the orders of the statistics, at rates that are assumed."""
    plans: list[SharedPlan] = []
    for program, slice_ends in zip(programs, ends):
        members, rates = program.members, assumed(program.members)
        if len(program.sides) == 2:
            plans.append(plan_chain(members, rates, "as they are", ends=slice_ends))
        else:
            plans.append(plan_multiway(members, rates, statistics.of_join(program) if statistics else None))
    return JoinPlan(tuple(plans))
