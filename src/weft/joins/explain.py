"""A chain in words: slice by slice, whom it serves, and what it should keep and cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.duration import format_duration
from weft.errors import JobError
from weft.joins.member import Member, sharing
from weft.joins.program import JoinProgram
from weft.joins.rates import COMPARISONS, Costs, Rates, assumed
from weft.joins.shape import Slice, bounded, cpu_opt, mem_opt, priced
from weft.query import JoinQuery


@dataclass(frozen=True)
class ChainPlan:
    """The slices of one chain and what they should cost; ``alone_...`` is what its joins cost one by one."""

    members: tuple[Member, ...]
    shape: str
    slices: tuple[Slice, ...]
    alone_rows: float
    alone_cpu: float

    @property
    def ends(self) -> list[list[int]]:
        """Where the slices of each side end."""
        return [[s.end for s in self.slices if s.side == side] for side in range(2)]

    @property
    def rows(self) -> float:
        """Rows that the chain should keep."""
        return sum(s.rows for s in self.slices)

    @property
    def cpu(self) -> float:
        """Comparisons per second that it should make."""
        return sum(s.cpu for s in self.slices)

    def __str__(self) -> str:
        first = self.members[0]
        condition = " AND ".join(map(str, first.conditions)) or "any two rows"
        count = f"{len(self.members)} join{'s' * (len(self.members) > 1)}"
        head = (
            f"{count} of {' and '.join(first.sides)} on {condition} "
            f"in one chain by {self.shape}: {self.rows:,.6g} rows kept and {self.cpu:,.6g} comparisons/s, "
            f"against {self.alone_rows:,.6g} and {self.alone_cpu:,.6g} one by one"
        )
        table = [("side", "from", "to", "rows", "comparisons/s", "serves")]
        for each in self.slices:
            names = ", ".join(each.serves[:4])
            more = f" and {len(each.serves) - 4} more" if len(each.serves) > 4 else ""
            table.append(
                (
                    first.sides[each.side],
                    format_duration(each.start) if each.start else "0",
                    format_duration(each.end),
                    f"{each.rows:,.6g}",
                    f"{each.cpu:,.6g}",
                    names + more,
                )
            )
        widths = [max(len(row[c]) for row in table) for c in range(len(table[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in table]
        return "\n".join([head, *lines])

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        first = self.members[0]
        return {
            "joins": [
                {
                    "name": m.name,
                    "ranges": dict(zip(m.sides, map(format_duration, m.ranges))),
                    "where": {side: str(s) for side, s in zip(m.sides, m.selections) if s is not None},
                    "aggregate": None if m.query.aggregate is None else list(m.query.result_columns),
                }
                for m in self.members
            ],
            "sides": list(first.sides),
            "conditions": list(map(str, first.conditions)),
            "shape": self.shape,
            "rows": self.rows,
            "cpu": self.cpu,
            "alone": {"rows": self.alone_rows, "cpu": self.alone_cpu},
            "slices": [
                {
                    "side": first.sides[s.side],
                    "from": s.start,
                    "to": s.end,
                    "serves": list(s.serves),
                    "rows": s.rows,
                    "cpu": s.cpu,
                }
                for s in self.slices
            ],
        }

    def to_json(self) -> str:
        """The plan as JSON text."""
        return json.dumps(self.to_dict(), indent=2)


@dataclass(frozen=True)
class JoinPlan:
    """The chains of all joins of a stream."""

    chains: tuple[ChainPlan, ...]

    @classmethod
    def of(cls, programs: Sequence[JoinProgram], ends: Sequence[Sequence[Sequence[int]]]) -> JoinPlan:
        """The chains of some programs, sliced so, at rates that are assumed."""
        both = zip(programs, ends)
        return cls(tuple(plan_chain(p.members, assumed(p.members), "as they are", ends=e) for p, e in both))

    @property
    def cost(self) -> float:
        """Comparisons per second that all chains should make."""
        return sum(chain.cpu for chain in self.chains)

    @property
    def alone(self) -> float:
        """Comparisons per second that the joins should make one by one."""
        return sum(chain.alone_cpu for chain in self.chains)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.chains))

    def to_dict(self) -> dict[str, Any]:
        """The chains as plain data."""
        return {"chains": [chain.to_dict() for chain in self.chains]}


def read_shape(text: str) -> str | float:
    """How chains are sliced: ``mem-opt``, ``cpu-opt``, or the most rows kept.

    >>> read_shape("cpu-opt"), read_shape("100,000")
    ('cpu-opt', 100000.0)
    """
    if text in ("mem-opt", "cpu-opt"):
        return text
    try:
        return float(text.replace(",", ""))
    except ValueError:
        raise JobError(f"chain is mem-opt, cpu-opt or a number of rows, not {text!r}") from None


def choose_ends(
    members: Sequence[Member], shape: str | float, rates: Rates, costs: Costs = COMPARISONS
) -> list[list[int]]:
    """Where slices end by ``mem-opt``, by ``cpu-opt``, or with at most so many rows kept."""
    if shape == "mem-opt":
        return mem_opt(members)
    if shape == "cpu-opt":
        return cpu_opt(members, rates, costs)
    if isinstance(shape, str):
        raise ValueError(f"a chain is 'mem-opt', 'cpu-opt' or the most rows it may keep, not {shape!r}")
    return bounded(members, rates, shape, costs)


def plan_joins(
    queries: Sequence[JoinQuery],
    rate: float = 1000.0,
    shape: str | float = "mem-opt",
    costs: Costs = COMPARISONS,
) -> list[ChainPlan]:
    """The chains of some joins at a rate, before anything is known of the streams.

    Selections are taken to let half of the rows pass, conditions one pair in a hundred.

    >>> import weft
    >>> joins = weft.sql("SELECT a.x FROM a [RANGE '1 min'], b [RANGE '1 min'] WHERE a.x = b.x")
    >>> plan_joins(joins, rate=10.0)[0].rows
    1200.0
    """
    return [plan_chain(members, assumed(members, rate), shape, costs) for members in sharing(queries)]


def plan_chain(
    members: Sequence[Member],
    rates: Rates,
    shape: str | float,
    costs: Costs = COMPARISONS,
    ends: Sequence[Sequence[int]] | None = None,
) -> ChainPlan:
    """One chain with what it should cost at these rates; ``ends`` is how it is sliced, if it is already."""
    slices = priced(members, ends or choose_ends(members, shape, rates, costs), rates, costs)
    alone = []
    for number, member in enumerate(members):
        signs = tuple((bits[:, [number]], shares) for bits, shares in rates.signs)
        alone += priced([member], mem_opt([member]), Rates(rates.rows, rates.join, signs), costs)
    name = shape if isinstance(shape, str) else f"at most {shape:,.6g} rows"
    return ChainPlan(
        tuple(members), name, tuple(slices), sum(s.rows for s in alone), sum(s.cpu for s in alone)
    )
