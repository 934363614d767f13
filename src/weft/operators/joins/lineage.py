"""Lineage: which rows of long ago count for which join, while joins come and go.

State is kept as bits, one per join of a chain, in the order that the joins had when it was written. A join is
known by an id of its own, whatever its name and place. One that a running join covers goes on from that one:
its lineage is its own id, then that of the other, then what that one went on from. In state of any version,
the bit of the first id of its lineage that is there says which rows count for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.model.instants import BEGINNING_OF_TIME


@dataclass(frozen=True, slots=True)
class Lineage:
    """The ids of a join and of those it goes on from; its results from ``since`` on are all there.

    ``columns`` are those that it reads only since a query over its results was added while it ran, each with
    the time from which on all results have it: rows kept from before lack it.
    """

    ids: tuple[str, ...]
    since: int = BEGINNING_OF_TIME
    columns: Mapping[str, int] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Return the join's own id."""
        return self.ids[0]

    def to_data(self) -> dict[str, Any]:
        """As plain data."""
        data = {"ids": list(self.ids), "since": self.since}
        return data | {"columns": dict(self.columns)} if self.columns else data

    def complete_from(self, columns: Iterable[str]) -> int:
        """Return the time from which on no result lacks one of these columns.

        >>> Lineage(("1-0-0",), columns={"a.x": 7, "a.y": 9}).complete_from(["a.x", "b.x"])
        7
        """
        return max(
            (self.columns.get(column, BEGINNING_OF_TIME) for column in columns), default=BEGINNING_OF_TIME
        )


@dataclass(frozen=True, slots=True)
class JoinLayout:
    """The layout of one version's state: the key of each chain, and the ids of its joins.

    >>> layout = JoinLayout((("a, b", ("1-0-0", "2-0-1")),))
    >>> JoinLayout.from_data(layout.to_data()) == layout
    True
    """

    chains: tuple[tuple[str, tuple[str, ...]], ...]

    def to_data(self) -> list[list[Any]]:
        """As plain data."""
        return [[key, list(ids)] for key, ids in self.chains]

    @classmethod
    def from_data(cls, data: Sequence[Sequence[Any]]) -> JoinLayout:
        """The layout behind ``to_data``."""
        return cls(tuple((key, tuple(ids)) for key, ids in data))


class JoinCarryOver:
    """The carry-over of state from one layout to another's chains, of which ``lineages`` are the joins."""

    def __init__(self, old: JoinLayout, new: JoinLayout, lineages: Sequence[Sequence[Lineage]]) -> None:
        keys = {key: number for number, (key, _) in enumerate(new.chains)}
        self.numbers = [keys.get(key) for key, _ in old.chains]
        """The new number of each old chain, None where it is gone."""
        self.carry_overs: list[BitCarryOver | None] = []
        for (_, ids), number in zip(old.chains, self.numbers):
            places = {join_id: place for place, join_id in enumerate(ids)}
            self.carry_overs.append(None if number is None else BitCarryOver.of(places, lineages[number]))


@dataclass(frozen=True, slots=True, eq=False)
class BitCarryOver:
    """The carry-over of bits of ``queries`` joins: where those of others are taken from, -1: from nowhere."""

    queries: int
    places: np.ndarray

    @classmethod
    def of(cls, places: Mapping[str, int], lineages: Sequence[Lineage]) -> BitCarryOver:
        """Return the carry-over to joins of these lineages from ids in these places."""
        taken_from = [
            next((places[join_id] for join_id in lineage.ids if join_id in places), -1)
            for lineage in lineages
        ]
        return cls(len(places), np.array(taken_from, np.int64))

    def bits(self, before: np.ndarray) -> np.ndarray:
        """Signatures as one row of booleans each, one column per join.

        >>> BitCarryOver(2, np.array([1, -1, 1])).bits(np.array([[True, False], [False, True]])).tolist()
        [[False, False, False], [True, False, True]]
        """
        return np.hstack([before, np.zeros((len(before), 1), np.bool_)])[:, self.places]
