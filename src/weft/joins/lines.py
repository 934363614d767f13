"""Lines: which rows of long ago count for which join, while joins come and go.

State is kept as bits, one per join of a chain, in the order that the joins had when it was written. A join is
known by an id of its own, whatever its name and place. One that a running join covers goes on from that one:
its line is its own id, then that of the other, then what that one went on from. In state of any version, the
bit of the first id of its line that is there says which rows count for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.engine.due import NEVER
from weft.joins.chain import Chain
from weft.joins.rows import Rows
from weft.joins.sliced import Sliced
from weft.joins.slices import useful
from weft.joins.union import Pairs, placed
from weft.joins.union import columns as with_columns


@dataclass(frozen=True, slots=True)
class Line:
    """How a join came: its id and those it goes on from; its results from ``since`` on are all there."""

    ids: tuple[str, ...]
    since: int = NEVER

    @property
    def id(self) -> str:
        """Its own id."""
        return self.ids[0]


@dataclass(frozen=True, slots=True)
class Layout:
    """What the state of one version looks like: the key of each chain, and the ids of its joins.

    >>> layout = Layout((("a, b", ("1-0-0", "2-0-1")),))
    >>> Layout.from_data(layout.to_data()) == layout
    True
    """

    chains: tuple[tuple[str, tuple[str, ...]], ...]

    def to_data(self) -> list[list[Any]]:
        """As plain data."""
        return [[key, list(ids)] for key, ids in self.chains]

    @classmethod
    def from_data(cls, data: Sequence[Sequence[Any]]) -> Layout:
        """The layout behind ``to_data``."""
        return cls(tuple((key, tuple(ids)) for key, ids in data))


class Transfer:
    """Carries state of one layout over to another's chains, of which ``lines`` are the joins."""

    def __init__(self, old: Layout, new: Layout, lines: Sequence[Sequence[Line]]) -> None:
        keys = {key: number for number, (key, _) in enumerate(new.chains)}
        self.numbers = [keys.get(key) for key, _ in old.chains]
        """The new number of each old chain, None where it is gone."""
        self.moves: list[Move | None] = []
        for (_, ids), number in zip(old.chains, self.numbers):
            places = {id: place for place, id in enumerate(ids)}
            self.moves.append(None if number is None else Move.of(places, lines[number]))


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """How bits of ``queries`` joins become those of others: where each is taken from, -1: from nowhere."""

    queries: int
    places: np.ndarray

    @classmethod
    def of(cls, places: Mapping[str, int], lines: Sequence[Line]) -> Move:
        """The move to joins of these lines from ids in these places."""
        found = [next((places[id] for id in line.ids if id in places), -1) for line in lines]
        return cls(len(places), np.array(found, np.int64))

    def bits(self, before: np.ndarray) -> np.ndarray:
        """Signatures as one row of booleans each, one column per join.

        >>> Move(2, np.array([1, -1, 1])).bits(np.array([[True, False], [False, True]])).tolist()
        [[False, False, False], [True, False, True]]
        """
        return np.hstack([before, np.zeros((len(before), 1), np.bool_)])[:, self.places]


def fitted(side: int, rows: Rows, chain: Sliced[Any]) -> Rows:
    """Rows of another version, signed as in a chain, that are of use to it, with its columns."""
    reach = chain.signs[side].reach([m.ranges[side] for m in chain.members])
    rows = useful(rows, 0, reach)
    return replace(rows, table=with_columns(rows.table, chain.program.schemas[side]))


def fitted_pairs(pairs: Pairs, chain: Chain) -> Pairs:
    """Pairs of another version with the places and columns that they have in a chain."""
    kept = placed(pairs, chain.windows)
    return replace(kept, table=with_columns(kept.table, chain.program.selected_schema))
