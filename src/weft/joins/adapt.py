"""Chains sliced anew when measured rates make other slices clearly cheaper (Wang, section 7.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from weft.errors import QueryError
from weft.joins.chain import Chain
from weft.joins.explain import choose_ends
from weft.joins.member import Member
from weft.joins.rates import Costs, Rates, rates_of
from weft.joins.shape import mem_opt, priced
from weft.joins.signs import Signs
from weft.joins.sliced import Counts, Sliced

CLEARLY = 1.1
"""By how much slices must be dearer than others to be changed."""


def better_ends(
    members: Sequence[Member],
    ends: Sequence[Sequence[int]],
    rates: Rates,
    shape: str | float,
    costs: Costs,
) -> list[list[int]] | None:
    """Where slices should end at these rates; None where they are about as good as they can be.

    Where no chain keeps as few rows as a bound says, it is the one with the fewest.
    """
    try:
        wanted = choose_ends(members, shape, rates, costs)
    except QueryError:
        wanted = mem_opt(members)
    if wanted == [list(some) for some in ends]:
        return None
    now, then = (priced(members, some, rates, costs) for some in (ends, wanted))
    too_many = not isinstance(shape, str) and sum(s.rows for s in now) > shape
    cheaper = sum(s.cpu for s in now) > CLEARLY * sum(s.cpu for s in then)
    return wanted if too_many or cheaper else None


class Watch:
    """What a chain has seen since it was last looked at; it is looked at once per longest range of time."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = members
        self.counts = Counts.of(len(members[0].sides))
        self.signs = [Signs(len(members)) for _ in members[0].sides]

    def add(self, said: Mapping[str, Any], near: int, found: int) -> None:
        """Count what tasks said of the rows that came, and of the pairs that were near and joined."""
        counts = self.counts
        counts.near += near
        counts.found += found
        for side, came in enumerate(said["sides"]):
            if not came["rows"]:
                continue
            counts.rows[side] += came["rows"]
            first, last = counts.first[side], counts.last[side]
            counts.first[side] = came["first"] if first is None else min(first, came["first"])
            counts.last[side] = came["last"] if last is None else max(last, came["last"])
            bits = np.array([[bit == "1" for bit in text] for text in came["signs"]], np.bool_)
            numbers = self.signs[side].number(bits)
            seen = np.zeros(len(self.signs[side].bits), np.int64)
            seen[: counts.signs[side].size] += counts.signs[side]
            np.add.at(seen, numbers, list(came["signs"].values()))
            counts.signs[side] = seen

    @property
    def rates(self) -> Rates | None:
        """The rates, once the longest range of time has passed in all streams."""
        for side in range(len(self.signs)):
            first, last = self.counts.first[side], self.counts.last[side]
            longest = max(m.ranges[side] for m in self.members)
            if first is None or last is None or last - first < longest:
                return None
        return rates_of(self.counts, [signs.bits for signs in self.signs])


def said_of(chain: Sliced[Any], before: Counts | None = None) -> dict[str, Any]:
    """What rows a chain has taken, in all or since then, as plain data."""
    sides = []
    for side in range(len(chain.sides)):
        counts = chain.counts.signs[side].copy()
        if before is not None:
            counts[: before.signs[side].size] -= before.signs[side]
        texts = [
            "".join("01"[bit] for bit in row) for row in chain.signs[side].bits[: counts.size].astype(int)
        ]
        rows = chain.counts.rows[side] - (before.rows[side] if before else 0)
        first = before.last[side] if before and before.last[side] is not None else chain.counts.first[side]
        merged: dict[str, int] = {}
        for text, count in zip(texts, counts.tolist()):
            merged[text] = merged.get(text, 0) + count
        sides.append({"rows": rows, "first": first, "last": chain.counts.last[side], "signs": merged})
    return {"sides": sides}


def adapt(chain: Sliced[Any], looked: Counts | None, shape: str | float, costs: Costs) -> Counts | None:
    """Slice a running chain anew if the rates since it was last looked at make that clearly cheaper.

    Returns its counts when it was last looked at, which may be now.
    """
    if shape == "mem-opt" or not isinstance(chain, Chain):  # which depend on no rate
        return None
    near, found = (looked.near, looked.found) if looked else (0, 0)
    watch = Watch(chain.members)
    watch.add(said_of(chain, looked), chain.counts.near - near, chain.counts.found - found)
    if (rates := watch.rates) is None:
        return looked
    ends = better_ends(chain.members, [slices.ends for slices in chain.sides], rates, shape, costs)
    if ends is not None:
        chain.reshape(ends)
    return _copied(chain.counts)


def _copied(counts: Counts) -> Counts:
    return replace(
        counts,
        rows=list(counts.rows),
        signs=list(counts.signs),
        first=list(counts.first),
        last=list(counts.last),
    )
