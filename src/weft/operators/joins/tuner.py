"""The tuner of joins: slices and join orders follow what the steps measure.

Chains are looked at once per longest range of time and sliced anew where that is clearly cheaper (Wang,
section 7.3). The orders of joins of more than two streams are looked at with every step; what was measured
long ago counts less and less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.operators.contract import Note
from weft.operators.joins.adapt import MIN_COST_RATIO, RateMeter, better_ends
from weft.operators.joins.multiway.order_statistics import OrderStatistics
from weft.operators.joins.program import JoinProgram
from weft.planning.joins.member import Key
from weft.planning.joins.orders import Orders, choose_orders, order_cost
from weft.planning.joins.rates import ChainCosts, Rates
from weft.planning.joins.shape import mem_opt

if TYPE_CHECKING:
    from weft.operators.joins.stage import JoinsStage


class JoinsTuner:
    """Rates and selectivities of some joins, as their steps report them.

    Notes are those of ``prepare``, ``relay`` and ``step``, all of one step together; each says what it knows.
    """

    def __init__(self, programs: Sequence[JoinProgram], shape: str | float, costs: ChainCosts) -> None:
        self.programs, self.shape, self.costs = programs, shape, costs
        self.statistics = OrderStatistics()
        self._meters = [RateMeter(program.members) for program in programs]
        self._rates: dict[int, Rates] = {}
        self._new_rates: dict[int, Rates] = {}

    def learn(self, notes: Sequence[Note]) -> None:
        """Take in the notes of one step."""
        for number, meter in enumerate(self._meters):
            for note in notes:
                if "came" in note:
                    meter.add(note["came"][number], 0, 0)
                if "pairs" in note:
                    meter.add({"sides": ()}, *note["pairs"][number])
            if (rates := meter.rates) is not None:
                self._rates[number] = self._new_rates[number] = rates
                self._meters[number] = RateMeter(meter.members)
        work = [level for note in notes for level in note.get("work", ())]
        stored: dict[str, list[float]] = {}
        for note in notes:
            for number, rows in note.get("kept", {}).items():
                stored[number] = [a + b for a, b in zip(stored.get(number, [0.0] * len(rows)), rows)]
        if stored:
            self.statistics.learn(self.programs, [{"work": work, "kept": stored}])

    def rates(self) -> dict[Key, Rates]:
        """Return the rates measured last of each chain that has been measured."""
        return {self.programs[number].members[0].key: rates for number, rates in self._rates.items()}

    def tuned(self, stage: JoinsStage) -> JoinsStage | None:
        """Return the stage with other slices or join orders, where these are clearly better."""
        ends = [self._ends(number, now) for number, now in enumerate(stage.joins.ends)]
        before = stage.orders or (None,) * len(self.programs)
        orders = [self._orders(program, now) for program, now in zip(self.programs, before)]
        if ends == [[list(side) for side in now] for now in stage.joins.ends] and orders == list(before):
            return None
        return stage.sliced(ends, orders)

    def _ends(self, number: int, now: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return where the slices of a chain should end."""
        members, better = self.programs[number].members, None
        rates = self._new_rates.pop(number, None)
        if self.shape == "mem-opt":  # which depends on no rate
            better = mem_opt(members)
        elif rates is not None:
            better = better_ends(members, now, rates, self.shape, self.costs)
        return [list(side) for side in now] if better is None else better

    def _orders(self, program: JoinProgram, now: Orders | None) -> Orders | None:
        """Return the orders that a join of more than two streams should have."""
        if len(program.sides) == 2:
            return None
        join = self.statistics.of_join(program)
        running = now or choose_orders(join.levels, [0.0] * len(program.sides), {})
        if join.orders == running or not join.stored:
            return now
        costs_now, costs_then = (
            [
                order_cost(order, side, join.levels, join.stored, join.work)
                for side, order in enumerate(orders)
            ]
            for orders in (running, join.orders)
        )
        cheaper = any(cost > MIN_COST_RATIO * best for cost, best in zip(costs_now, costs_then))
        return join.orders if cheaper else now
