"""Monoids and parts whose states are Python objects: sketches, and aggregates that users write.

The states of n cells are an object matrix ``[n, 1]``; None is the neutral state. In Arrow and Parquet a state
is bytes. Nothing here changes a state in place: states are shared between cells, windows and techniques.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from weft.aggregates.monoid import OBJECTS, Monoid
from weft.aggregates.part import LiftedRows, Part, States
from weft.aggregates.word import Word

MAX_WRITTEN_STATES = 32
"""States that are looked at to estimate the memory of all."""


class Algebra(ABC):
    """Operations on states that are Python objects; none is ever None here."""

    invertible = False
    commutative = True

    @abstractmethod
    def rows(self, types: Sequence[str], arrays: Sequence[pa.Array], times: np.ndarray) -> LiftedRows:
        """Return the rows for ``add_rows``, from the evaluated arguments and the event times."""

    @abstractmethod
    def add_rows(self, states: np.ndarray, cell: np.ndarray, values: np.ndarray, valid: np.ndarray) -> None:
        """Add row j to ``states[cell[j], 0]``, unless the cell is negative or the row not valid."""

    @abstractmethod
    def combine(self, older: Any, newer: Any) -> Any:
        """Return two states as one."""

    def inverse(self, total: Any, oldest: Any) -> Any:
        """Return a total without its oldest state; only asked of what is ``invertible``."""
        raise TypeError(f"{type(self).__name__} has no inverse")

    @abstractmethod
    def write(self, state: Any) -> bytes:
        """Return a state as bytes."""

    @abstractmethod
    def read(self, data: bytes) -> Any:
        """Return the state behind bytes."""

    def ready(self, states: np.ndarray) -> tuple[Algebra, np.ndarray]:
        """Return the algebra and the states that windows are answered from, cells in the order of time."""
        return self, states


@dataclass(frozen=True, slots=True)
class ObjectMonoid(Monoid):
    """A monoid whose states are Python objects."""

    algebra: Algebra = field(kw_only=True)

    @classmethod
    def of(cls, algebra: Algebra) -> ObjectMonoid:
        """Return the monoid of an algebra."""
        return cls(OBJECTS, 1, algebra.invertible, False, algebra.commutative, algebra=algebra)

    def identity(self, n: int) -> np.ndarray:
        """None, n times."""
        return np.full((n, 1), None, dtype=object)

    def add_rows(self, states: np.ndarray, cell: np.ndarray, values: np.ndarray, valid: np.ndarray) -> None:
        """Add row j to ``states[cell[j]]``, in place."""
        self.algebra.add_rows(states, cell, values, valid)

    def merge(self, into: np.ndarray, target: np.ndarray, order: np.ndarray, states: np.ndarray) -> None:
        """Fold ``states[order[k]]`` into ``into[target[k]]``, in place."""
        for t, k in zip(target.tolist(), order.tolist()):
            into[t, 0] = self.combine(into[t, 0], states[k, 0])

    def combine(self, older: Any, newer: Any) -> Any:
        """Two states as one, either of which may be None."""
        if older is None or newer is None:
            return newer if older is None else older
        return self.algebra.combine(older, newer)

    def inverse(self, total: Any, oldest: Any) -> Any:
        """Return a total without its oldest state, either of which may be None."""
        return total if oldest is None else self.algebra.inverse(total, oldest)


@dataclass(frozen=True, slots=True)
class ObjectPart(Part):
    """A part whose states are Python objects."""

    algebra: Algebra

    @property
    def words(self) -> tuple[tuple[str, Word], ...]:
        """One column, of bytes."""
        return (("state", Word.OBJECT),)

    @property
    def monoid(self) -> Monoid:
        """The monoid that combines states of this part."""
        return ObjectMonoid.of(self.algebra)

    def lift(self, arrays: Sequence[pa.Array], times: np.ndarray) -> LiftedRows:
        """Rows to values, from the evaluated arguments and the event times."""
        return self.algebra.rows(self.types, arrays, times)

    def ready(self, states: np.ndarray) -> tuple[Monoid, np.ndarray]:
        """Return the monoid and the states that windows are answered from, cells in the order of time."""
        algebra, states = self.algebra.ready(states)
        return ObjectMonoid.of(algebra), states

    @property
    def ordered(self) -> bool:
        """True where the order of rows matters to the states that windows are answered from."""
        return not self.ready(self.monoid.identity(0))[0].commutative

    def nbytes(self, states: States) -> int:
        """Return about how many bytes the states take: some of them are written to see."""
        sample = [s for s in states.words[:: len(states) // MAX_WRITTEN_STATES + 1, 0] if s is not None]
        mean = sum(len(self.algebra.write(s)) for s in sample) / max(len(sample), 1)
        return int(states.words.nbytes + len(states) * mean)

    def columns(self, states: States) -> list[tuple[str, pa.Array]]:
        """The states as a column of bytes, null where there is none."""
        write = self.algebra.write
        data = [None if s is None else write(s) for s in states.words[:, 0]]
        return [(f"{self}.state", pa.array(data, pa.binary()))]

    def states(self, columns: Sequence[pa.Array]) -> States:
        """The states behind a column of bytes."""
        read = self.algebra.read
        return States(object_column(None if d is None else read(d) for d in columns[0].to_pylist()))


def object_column(values: Iterable[Any]) -> np.ndarray:
    """Values as a matrix of one column, whatever they are.

    >>> object_column([(1, 2), None, [3]]).tolist()
    [[(1, 2)], [None], [[3]]]
    """
    return np.fromiter(values, dtype=object).reshape(-1, 1)


def by_cell(cell: np.ndarray, valid: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each cell that has a valid row, and its rows.

    >>> [(at, rows.tolist()) for at, rows in by_cell(np.array([1, -1, 0, 1]), np.zeros(0, np.bool_))]
    [(0, [2]), (1, [0, 3])]
    """
    counts = cell >= 0
    rows = np.flatnonzero(counts & valid if valid.size else counts)
    cells = cell[rows]
    # Sixteen bits are sorted by counting.
    order = np.argsort(cells.astype(np.uint16) if cell.max(initial=0) < 1 << 16 else cells, kind="stable")
    rows, cells = rows[order], cells[order]
    bounds = np.append(np.flatnonzero(np.diff(cells, prepend=-1)), len(rows))
    for first, last in pairwise(bounds.tolist()):
        yield int(cells[first]), rows[first:last]
