"""Chains sliced anew when measured rates make other slices clearly cheaper (Wang, section 7.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.errors import QueryError
from weft.operators.joins.intake import RowIntake
from weft.operators.joins.signatures import Signatures
from weft.planning.joins.chain_plan import choose_ends
from weft.planning.joins.member import Member
from weft.planning.joins.rates import ChainCosts, Counts, Rates, rates_of
from weft.planning.joins.shape import mem_opt, priced

MIN_COST_RATIO = 1.1
"""Cost of the slices over that of others, above which they are changed."""


def better_ends(
    members: Sequence[Member],
    ends: Sequence[Sequence[int]],
    rates: Rates,
    shape: str | float,
    costs: ChainCosts,
) -> list[list[int]] | None:
    """Return where slices should end at these rates; None where they are about as good as they can be.

    Where no chain keeps as few rows as a bound says, it is the one with the fewest.
    """
    try:
        best = choose_ends(members, shape, rates, costs)
    except QueryError:
        best = mem_opt(members)
    if best == [list(side_ends) for side_ends in ends]:
        return None
    slices_now, slices_then = (priced(members, some_ends, rates, costs) for some_ends in (ends, best))
    too_many = not isinstance(shape, str) and sum(s.rows for s in slices_now) > shape
    cheaper = sum(s.cpu for s in slices_now) > MIN_COST_RATIO * sum(s.cpu for s in slices_then)
    return best if too_many or cheaper else None


class RateMeter:
    """Counts of a chain since it was last looked at, which it is once per longest range of time."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = members
        self.counts = Counts.of(len(members[0].sides))
        self.signatures = [Signatures(len(members)) for _ in members[0].sides]

    def add(self, report: Mapping[str, Any], near: int, joined: int) -> None:
        """Count what tasks report of the rows that came, and of the pairs that were near and joined."""
        counts = self.counts
        counts.near += near
        counts.joined += joined
        for side, side_report in enumerate(report["sides"]):
            if not side_report["rows"]:
                continue
            counts.rows[side] += side_report["rows"]
            first, last = counts.first[side], counts.last[side]
            counts.first[side] = side_report["first"] if first is None else min(first, side_report["first"])
            counts.last[side] = side_report["last"] if last is None else max(last, side_report["last"])
            bits = np.array([[bit == "1" for bit in text] for text in side_report["signatures"]], np.bool_)
            numbers = self.signatures[side].number(bits)
            seen = np.zeros(len(self.signatures[side].bits), np.int64)
            seen[: counts.signatures[side].size] += counts.signatures[side]
            np.add.at(seen, numbers, list(side_report["signatures"].values()))
            counts.signatures[side] = seen

    @property
    def rates(self) -> Rates | None:
        """The rates, once the longest range of time has passed in all streams."""
        for side in range(len(self.signatures)):
            first, last = self.counts.first[side], self.counts.last[side]
            longest = max(m.ranges[side] for m in self.members)
            if first is None or last is None or last - first < longest:
                return None
        return rates_of(self.counts, [side_signatures.bits for side_signatures in self.signatures])


def rows_report(chain: RowIntake) -> dict[str, Any]:
    """Return what rows a chain has taken, as plain data."""
    sides = []
    for side in range(len(chain.program.sides)):
        counts = chain.counts.signatures[side]
        texts = [
            "".join("01"[bit] for bit in row)
            for row in chain.signatures[side].bits[: counts.size].astype(int)
        ]
        merged: dict[str, int] = {}
        for text, count in zip(texts, counts.tolist()):
            merged[text] = merged.get(text, 0) + count
        report = {"rows": chain.counts.rows[side], "first": chain.counts.first[side]}
        sides.append({**report, "last": chain.counts.last[side], "signatures": merged})
    return {"sides": sides}
