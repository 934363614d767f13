"""User-defined aggregates in plain Python: any state, one call per row and per combine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from weft.aggregates.definition import Definition
from weft.aggregates.encoding import PLAIN_TYPES, NotPlain, decode, encode
from weft.aggregates.objects import Algebra, by_cell, object_column
from weft.aggregates.part import LiftedRows, all_valid
from weft.errors import AggregateError, CheckpointError


class Encoded(Algebra):
    """States that are plain Python data."""

    definition: Definition

    def write(self, state: Any) -> bytes:
        """A state as bytes."""
        try:
            return encode(state)
        except (NotPlain, ValueError, RecursionError) as error:
            raise AggregateError(
                f"{self.definition.name}: its state cannot be kept: {error}; keep {PLAIN_TYPES}, "
                "or give to_state and from_state"
            ) from error

    def read(self, data: bytes) -> Any:
        """The state behind bytes."""
        try:
            return decode(data)
        except CheckpointError as error:
            raise CheckpointError(f"a state of {self.definition.name} cannot be read: {error}") from error


@dataclass(frozen=True)
class Plain(Encoded):
    """The user's own states."""

    definition: Definition

    def write(self, state: Any) -> bytes:
        """A state as bytes, by the user's own plain data where there is such."""
        if self.definition.to_state is not None:
            state = self.definition.call("to_state", state)
        return super().write(state)

    def read(self, data: bytes) -> Any:
        """The state behind bytes."""
        state = super().read(data)
        if self.definition.from_state is not None:
            state = self.definition.call("from_state", state)
        return state

    @property
    def invertible(self) -> bool:  # type: ignore[override]
        """True where there is an inverse."""
        return self.definition.inverse is not None

    @property
    def commutative(self) -> bool:  # type: ignore[override]
        """True where the order of states does not matter."""
        return self.definition.commutative

    def rows(self, types: Sequence[str], arrays: Sequence[pa.Array], times: np.ndarray) -> LiftedRows:
        """A tuple of Python values per row."""
        return LiftedRows(python_rows(arrays), all_valid(arrays))

    def add_rows(self, states: np.ndarray, cell: np.ndarray, values: np.ndarray, valid: np.ndarray) -> None:
        """Lift each row and combine it with what its cell has."""
        lift, combine = self.definition.lift, self.definition.combine
        counts = cell >= 0
        rows = np.flatnonzero(counts & valid if valid.size else counts)
        held = states[:, 0].tolist()
        for at, args in zip(cell[rows].tolist(), values[rows].tolist()):
            old = held[at]
            try:
                state = lift(*args)
                held[at] = state if old is None else combine(old, state)
                failed = held[at] is None
            except Exception:
                failed = True
            if failed:
                # Once more, and now with an error that says what happened.
                state = self.definition.call("lift", *args)
                held[at] = self.definition.call("combine", old, state)
        states[:] = object_column(held)

    def combine(self, older: Any, newer: Any) -> Any:
        """Two states as one."""
        return self.definition.call("combine", older, newer)

    def inverse(self, total: Any, oldest: Any) -> Any:
        """A total without its oldest state."""
        return self.definition.call("inverse", total, oldest)


@dataclass(frozen=True)
class Ordered(Encoded):
    """Rows in the order of event time, ties by value, for a combine that is not commutative.

    Rows come in any order and from many tasks, and cells of one slice are merged before time is settled: so a
    state is the list of its rows, and only the answer folds them.
    """

    definition: Definition
    floats: bool

    def rows(self, types: Sequence[str], arrays: Sequence[pa.Array], times: np.ndarray) -> LiftedRows:
        """A tuple of event time and Python values per row."""
        return LiftedRows(python_rows([pa.array(times), *arrays]), all_valid(arrays))

    def add_rows(self, states: np.ndarray, cell: np.ndarray, values: np.ndarray, valid: np.ndarray) -> None:
        """Sort the rows into their cells."""
        for at, rows in by_cell(cell, valid):
            states[at, 0] = self.combine(states[at, 0] or [], values[rows].tolist())

    def combine(self, older: list[Any], newer: list[Any]) -> list[Any]:
        """The rows of both."""
        return sorted(older + newer, key=_total_order if self.floats else None)

    def ready(self, states: np.ndarray) -> tuple[Algebra, np.ndarray]:
        """The user's states, one per cell: cells are slices, which follow each other in time."""
        folded = (None if rows is None else self._fold(rows) for rows in states[:, 0])
        return Plain(self.definition), object_column(folded)

    def _fold(self, rows: list[tuple[Any, ...]]) -> Any:
        call = self.definition.call
        state = call("lift", *rows[0][1:])
        for row in rows[1:]:
            state = call("combine", state, call("lift", *row[1:]))
        return state


def python_rows(arrays: Sequence[pa.Array]) -> np.ndarray:
    """A tuple of Python values per row; times with the zone of their column, in microseconds.

    >>> python_rows([pa.array([1, 2]), pa.array(["a", None])]).tolist()
    [(1, 'a'), (2, None)]
    """
    columns = []
    for array in arrays:
        if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
            array = array.cast(pa.timestamp("us", array.type.tz), safe=False)
        columns.append(array.to_pylist())
    return object_column(zip(*columns))[:, 0]


def _total_order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key that also sorts NaN, after everything, and -0.0, before 0.0."""
    return tuple(
        (v != v, 0.0 if v != v else v, math.copysign(1.0, v)) if type(v) is float else v for v in row
    )
