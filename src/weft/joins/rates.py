"""What the cost of a chain depends on: how many rows come, how selective queries and condition are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.calibration import stored
from weft.joins.member import Member
from weft.joins.sliced import Counts, Sliced

SECOND = 1_000_000


@dataclass(frozen=True)
class Costs:
    """Comparisons that a probed row, a purge, a routed result and the running of a slice are worth.

    Wang, section 7.2: all alike, but the last, C_sys, which is a matter of the system.
    """

    probe: float = 1.0
    purge: float = 1.0
    route: float = 1.0
    system: float = 1.0


COMPARISONS = Costs()


def calibrated() -> Costs:
    """What ``weft bench calibrate`` has measured on this machine; all alike where it has not been run."""
    return stored("joins", lambda measured: Costs(**measured), COMPARISONS)


@dataclass(frozen=True, eq=False)
class Rates:
    """Rows per second of each side, the share of pairs that join, and which rows the selections take.

    ``signs`` hold, per side, signatures (one row of booleans each, one column per query) and their shares.
    """

    rows: tuple[float, ...]
    join: float
    signs: tuple[tuple[np.ndarray, np.ndarray], ...]

    def share(self, side: int, queries: Collection[int]) -> float:
        """The share of a side's rows that at least one of these queries selects."""
        bits, shares = self.signs[side]
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
    signs = []
    for side in range(sides):
        distinct = [s for s in dict.fromkeys(m.selections[side] for m in members) if s is not None]
        draws, shares = _independent(len(distinct), selection)
        bits = np.ones((len(draws), len(members)), np.bool_)
        for number, member in enumerate(members):
            if (chosen := member.selections[side]) is not None:
                bits[:, number] = draws[:, distinct.index(chosen)]
        signs.append((bits, shares))
    return Rates(per_side, join, tuple(signs))


def _independent(count: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Which of some independent selections take a row: every case with its share, or a sample of many."""
    if count > 12:
        draws = np.random.default_rng(0).random((4096, count)) < share
        return draws, np.full(len(draws), 1 / len(draws))
    draws = (np.arange(1 << count)[:, None] >> np.arange(count)) & 1 == 1
    return draws, np.where(draws, share, 1 - share).prod(axis=1)


def measured(state: Sliced[Any]) -> Rates | None:
    """The rates that running joins have seen; None before all streams have moved on in time."""
    return rates_of(state.counts, [signs.bits for signs in state.signs])


def rates_of(counts: Counts, bits: Sequence[np.ndarray]) -> Rates | None:
    """The rates behind counts; ``bits`` are the signatures of each side."""
    rows, signs = [], []
    for side in range(len(bits)):
        first, last = counts.first[side], counts.last[side]
        if first is None or last is None or last <= first:
            return None
        rows.append(counts.rows[side] * SECOND / (last - first))
        weights = counts.signs[side][: len(bits[side])].astype(float)
        signs.append((bits[side], weights / max(1.0, weights.sum())))
    # Of all pairs that nested loops would compare, not only of those that an index looked at.
    join = counts.found / counts.near if counts.near else 0.0
    return Rates(tuple(rows), min(1.0, join), tuple(signs))
