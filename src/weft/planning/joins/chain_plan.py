"""A chain in words: slice by slice, whom it serves, and what it should keep and cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.errors import JobError
from weft.model.duration import format_duration
from weft.planning.drawing import aligned, few
from weft.planning.joins.member import Member
from weft.planning.joins.rates import COMPARISONS, ChainCosts, Rates
from weft.planning.joins.shape import Slice, bounded, cpu_opt, mem_opt, priced


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
        """Return where the slices of each side end."""
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
        head = (
            f"{heading(self.members)} in one chain by {self.shape}: {self.rows:,.6g} rows kept and "
            f"{self.cpu:,.6g} comparisons/s, against {self.alone_rows:,.6g} and {self.alone_cpu:,.6g} "
            "one by one"
        )
        sides = self.members[0].sides
        table = [("side", "from", "to", "rows", "comparisons/s", "serves")]
        for piece in self.slices:
            table.append(
                (
                    sides[piece.side],
                    format_duration(piece.start) if piece.start else "0",
                    format_duration(piece.end),
                    f"{piece.rows:,.6g}",
                    f"{piece.cpu:,.6g}",
                    few(piece.serves),
                )
            )
        return "\n".join([head, *aligned(table)])

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        first = self.members[0]
        return {
            **described(self.members),
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


def heading(members: Sequence[Member]) -> str:
    """Say how many joins there are, of what, and on which condition."""
    first, *before, last = (members[0], *members[0].sides)
    condition = " AND ".join(map(str, first.conditions)) or "any rows"
    count = f"{len(members)} join{'s' * (len(members) > 1)}"
    return f"{count} of {', '.join(before)} and {last} on {condition}"


def described(members: Sequence[Member]) -> dict[str, Any]:
    """Joins that share their state, as plain data."""
    first = members[0]
    return {
        "joins": [
            {
                "name": m.name,
                "ranges": dict(zip(m.sides, map(format_duration, m.ranges))),
                "where": {side: str(s) for side, s in zip(m.sides, m.selections) if s is not None},
                "aggregate": None if m.query.aggregate is None else list(m.query.result_columns),
            }
            for m in members
        ],
        "sides": list(first.sides),
        "conditions": list(map(str, first.conditions)),
    }


def read_shape(text: str) -> str | float:
    """Read how chains are sliced: ``mem-opt``, ``cpu-opt``, or the most rows kept.

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
    members: Sequence[Member], shape: str | float, rates: Rates, costs: ChainCosts = COMPARISONS
) -> list[list[int]]:
    """Choose where slices end: by ``mem-opt``, by ``cpu-opt``, or with at most so many rows kept.

    Those of a join of more than two streams end at every range.
    """
    if shape == "mem-opt" or len(members[0].sides) > 2:
        return mem_opt(members)
    if shape == "cpu-opt":
        return cpu_opt(members, rates, costs)
    if isinstance(shape, str):
        raise ValueError(f"a chain is 'mem-opt', 'cpu-opt' or the most rows it may keep, not {shape!r}")
    return bounded(members, rates, shape, costs)


def plan_chain(
    members: Sequence[Member],
    rates: Rates,
    shape: str | float,
    costs: ChainCosts = COMPARISONS,
    ends: Sequence[Sequence[int]] | None = None,
) -> ChainPlan:
    """One chain with what it should cost at these rates; ``ends`` is how it is sliced, if it is already."""
    slices = priced(members, ends or choose_ends(members, shape, rates, costs), rates, costs)
    alone = []
    for number, member in enumerate(members):
        signatures = tuple((bits[:, [number]], shares) for bits, shares in rates.signatures)
        alone += priced([member], mem_opt([member]), Rates(rates.rows, rates.join, signatures), costs)
    name = shape if isinstance(shape, str) else f"at most {shape:,.6g} rows"
    return ChainPlan(
        tuple(members), name, tuple(slices), sum(s.rows for s in alone), sum(s.cpu for s in alone)
    )
