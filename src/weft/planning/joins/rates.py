"""Rates that the cost of a chain depends on: how many rows come, how selective queries and condition are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from weft.final.calibration import stored
from weft.planning.joins.member import Member

SECOND = 1_000_000
NO_COUNTS = np.zeros(0, np.int64)


@dataclass(frozen=True)
class ChainCosts:
    """Comparisons that a probed row, a purge, a routed result and the running of a slice are worth.

    Wang, section 7.2: all alike, but the last, C_sys, which is a matter of the system.
    """

    probe: float = 1.0
    purge: float = 1.0
    route: float = 1.0
    system: float = 1.0


COMPARISONS = ChainCosts()


def calibrated() -> ChainCosts:
    """Return what ``weft bench calibrate`` measured on this machine; all alike where it has not been run."""
    return stored("joins", lambda measured: ChainCosts(**measured), COMPARISONS)


@dataclass
class Counts:
    """Counts of what joins have done so far.

    Rows taken per side, also by signature, and their first and last times; pairs near enough in time, pairs
    looked at, pairs joined; values that failed.
    """

    rows: list[int] = field(default_factory=list)
    signatures: list[np.ndarray] = field(default_factory=list)
    first: list[int | None] = field(default_factory=list)
    last: list[int | None] = field(default_factory=list)
    near: int = 0
    tried: int = 0
    joined: int = 0
    bad: int = 0

    @classmethod
    def of(cls, sides: int) -> Counts:
        """Nothing done yet."""
        return cls([0] * sides, [NO_COUNTS] * sides, [None] * sides, [None] * sides)


@dataclass(frozen=True, eq=False)
class Rates:
    """Rows per second of each side, the share of pairs that join, and which rows the selections take.

    ``signatures`` are, per side, one row of booleans each, one column per query, and their shares.
    """

    rows: tuple[float, ...]
    join: float
    signatures: tuple[tuple[np.ndarray, np.ndarray], ...]

    def share(self, side: int, queries: Collection[int]) -> float:
        """The share of a side's rows that at least one of these queries selects."""
        bits, shares = self.signatures[side]
        return float(shares[bits[:, sorted(queries)].any(axis=1)].sum())


def assumed(
    members: Sequence[Member],
    rows: float | Sequence[float] = 1000.0,
    join: float = 0.01,
    selection: float = 0.5,
) -> Rates:
    """Rates where nothing is known: every selection takes this share of the rows, whatever others take."""
    sides = len(members[0].sides)
    per_side = tuple(rows) if isinstance(rows, Sequence) else (rows,) * sides
    signatures = []
    for side in range(sides):
        distinct = [s for s in dict.fromkeys(m.selections[side] for m in members) if s is not None]
        draws, shares = _independent(len(distinct), selection)
        bits = np.ones((len(draws), len(members)), np.bool_)
        for number, member in enumerate(members):
            if (chosen := member.selections[side]) is not None:
                bits[:, number] = draws[:, distinct.index(chosen)]
        signatures.append((bits, shares))
    return Rates(per_side, join, tuple(signatures))


def _independent(count: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Return which of some independent selections take a row: every case with its share, or a sample."""
    if count > 12:
        draws = np.random.default_rng(0).random((4096, count)) < share
        return draws, np.full(len(draws), 1 / len(draws))
    draws = (np.arange(1 << count)[:, None] >> np.arange(count)) & 1 == 1
    return draws, np.where(draws, share, 1 - share).prod(axis=1)


def rates_of(counts: Counts, bits: Sequence[np.ndarray]) -> Rates | None:
    """The rates behind counts; ``bits`` are the signatures of each side."""
    rows, signatures = [], []
    for side in range(len(bits)):
        first, last = counts.first[side], counts.last[side]
        if first is None or last is None or last <= first:
            return None
        rows.append(counts.rows[side] * SECOND / (last - first))
        weights = counts.signatures[side][: len(bits[side])].astype(float)
        signatures.append((bits[side], weights / max(1.0, weights.sum())))
    # Of all pairs that nested loops would compare, not only of those that an index looked at.
    join = counts.joined / counts.near if counts.near else 0.0
    return Rates(tuple(rows), min(1.0, join), tuple(signatures))
