"""A multi-way join in words: who probes whom in which order, slice by slice whom it serves, and the costs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from weft.model.duration import format_duration
from weft.planning.drawing import aligned, few
from weft.planning.joins.chain_plan import described, heading
from weft.planning.joins.levels import Levels
from weft.planning.joins.member import Member
from weft.planning.joins.orders import LevelKey, LevelWork, Orders, choose_orders, order_cost
from weft.planning.joins.rates import SECOND, Rates


@dataclass(frozen=True)
class StateSlice:
    """One slice of a side: the ages it holds, the queries it serves, and the rows it should keep."""

    side: int
    start: int
    end: int
    serves: tuple[str, ...]
    rows: float


@dataclass(frozen=True)
class MultiwayPlan:
    """Join orders and slices, and what they should cost; ``alone_...`` is what the joins cost one by one.

    ``probes`` are, for each side, the candidates that one of its rows should be compared with.
    """

    members: tuple[Member, ...]
    orders: Orders
    probes: tuple[float, ...]
    slices: tuple[StateSlice, ...]
    cpu: float
    alone_rows: float
    alone_cpu: float

    @property
    def rows(self) -> float:
        """Rows that should be kept."""
        return sum(s.rows for s in self.slices)

    def __str__(self) -> str:
        sides = self.members[0].sides
        head = (
            f"{heading(self.members)} through one state: {self.rows:,.6g} rows kept and {self.cpu:,.6g} "
            f"candidates/s, against {self.alone_rows:,.6g} and {self.alone_cpu:,.6g} one by one"
        )
        orders = [("new row of", "probes in this order", "candidates")]
        for side, (order, cost) in enumerate(zip(self.orders, self.probes)):
            orders.append((sides[side], " > ".join(sides[n] for n in order), f"{cost:,.6g}"))
        slices = [("side", "from", "to", "rows", "serves")]
        for piece in self.slices:
            start = format_duration(piece.start) if piece.start else "0"
            end, rows = format_duration(piece.end), f"{piece.rows:,.6g}"
            slices.append((sides[piece.side], start, end, rows, few(piece.serves)))
        return "\n".join([head, *aligned(orders), *aligned(slices)])

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        sides = self.members[0].sides
        return {
            **described(self.members),
            "orders": {sides[n]: [sides[m] for m in order] for n, order in enumerate(self.orders)},
            "rows": self.rows,
            "cpu": self.cpu,
            "alone": {"rows": self.alone_rows, "cpu": self.alone_cpu},
            "slices": [
                {
                    "side": sides[s.side],
                    "from": s.start,
                    "to": s.end,
                    "serves": list(s.serves),
                    "rows": s.rows,
                }
                for s in self.slices
            ],
        }

    def to_json(self) -> str:
        """The plan as JSON text."""
        return json.dumps(self.to_dict(), indent=2)


class Measured(Protocol):
    """Measurements of a join that runs: its levels, its orders, and what the levels have done."""

    @property
    def levels(self) -> Levels:
        """The levels."""
        ...

    @property
    def orders(self) -> Orders:
        """The order of each side."""
        ...

    @property
    def work(self) -> Mapping[LevelKey, LevelWork]:
        """Return what levels have done."""
        ...


def plan_multiway(members: Sequence[Member], rates: Rates, running: Measured | None = None) -> MultiwayPlan:
    """Joins through one state with what they should cost at these rates, in the orders of what runs.

    >>> import weft
    >>> from weft.planning.joins.member import member
    >>> from weft.planning.joins.rates import assumed
    >>> text = "SELECT a.x FROM a [RANGE '1 min'], b [RANGE '1 min'], c [RANGE '1 min'] WHERE a.x = b.x"
    >>> members = [member(q) for q in weft.sql(text + " AND b.y = c.y")]
    >>> plan_multiway(members, assumed(members)).orders       # c and a have no condition of their own
    ((1, 2), (0, 2), (1, 0))
    """
    work: Mapping[LevelKey, LevelWork] = running.work if running else {}
    levels = running.levels if running else Levels(members)
    slices = _slices(members, rates)
    rows = _state_rows(slices, len(rates.rows))
    orders = (running.orders if running else ()) or choose_orders(levels, rows, work)
    probes = tuple(order_cost(order, side, levels, rows, work) for side, order in enumerate(orders))
    cpu = _candidates(rates, probes, range(len(members)))
    alone_rows, alone_cpu = 0.0, 0.0
    for number, member in enumerate(members):
        own_rows = _state_rows(_slices([member], rates, [number]), len(rates.rows))
        best = choose_orders(levels, own_rows, work)
        costs = [order_cost(order, side, levels, own_rows, work) for side, order in enumerate(best)]
        alone_rows, alone_cpu = alone_rows + sum(own_rows), alone_cpu + _candidates(rates, costs, [number])
    # Ranges that are long on different sides make no candidates together: each serves some query.
    most = min(1.0, alone_cpu / cpu) if cpu else 1.0
    probes = tuple(most * cost for cost in probes)
    return MultiwayPlan(tuple(members), orders, probes, slices, most * cpu, alone_rows, alone_cpu)


def _slices(
    members: Sequence[Member], rates: Rates, numbers: Sequence[int] | None = None
) -> tuple[StateSlice, ...]:
    """The slices of every side; ``numbers`` are those of the members in the rates."""
    numbers = range(len(members)) if numbers is None else numbers
    slices = []
    for side in range(len(rates.rows)):
        ends = sorted({m.ranges[side] for m in members})
        for start, end in zip([0, *ends], ends):
            served = [n for n, m in enumerate(members) if m.ranges[side] > start]
            share = rates.share(side, [numbers[n] for n in served])
            rows = rates.rows[side] * share * (end - start) / SECOND
            slices.append(StateSlice(side, start, end, tuple(members[n].name for n in served), rows))
    return tuple(slices)


def _state_rows(slices: Sequence[StateSlice], sides: int) -> list[float]:
    return [sum(s.rows for s in slices if s.side == side) for side in range(sides)]


def _candidates(rates: Rates, probes: Sequence[float], queries: Sequence[int]) -> float:
    """Candidates per second, of the rows that one of these queries selects."""
    return sum(rates.rows[n] * rates.share(n, queries) * cost for n, cost in enumerate(probes))
