"""Kept rows: immutable, ordered by time, with an index by code or value; a slice's state is a few of them.

Nothing here is ever changed in place, so that each can be a file of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

NO_VALUES = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class JoinRows:
    """Some rows of one stream: times ascending, signatures, what they are looked up by, and their columns.

    ``values`` has a value per row, or several in columns, or is empty.
    """

    times: np.ndarray
    signatures: np.ndarray
    values: np.ndarray
    table: pa.RecordBatch

    def __len__(self) -> int:
        return self.times.size

    @cached_property
    def order(self) -> np.ndarray:
        """The rows' places in the order of their values; empty where they are looked up by time."""
        return np.argsort(self.values, kind="stable") if self.values.size else NO_VALUES

    @cached_property
    def sorted(self) -> np.ndarray:
        """The values in order; the times where rows are looked up by them."""
        return self.values[self.order] if self.values.size else self.times

    @cached_property
    def indices(self) -> dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]]:
        """Orders of the rows by some of several values each, and what they are ordered by, as made so far."""
        return {}

    def forget_indices(self) -> None:
        """Let go what rows are looked up by; it is made again when next needed."""
        for name in ("order", "sorted", "indices"):
            self.__dict__.pop(name, None)

    def take(self, places: np.ndarray) -> JoinRows:
        """Some of the rows, in the order given."""
        values = self.values[places] if self.values.size else self.values
        return JoinRows(
            self.times[places], self.signatures[places], values, self.table.take(pa.array(places))
        )

    def part(self, first: int, last: int) -> JoinRows:
        """Neighbouring rows, without a copy."""
        values = self.values[first:last] if self.values.size else self.values
        return JoinRows(
            self.times[first:last], self.signatures[first:last], values, self.table.slice(first, last - first)
        )

    def to_batch(self) -> pa.RecordBatch:
        """The rows as one Arrow batch, ready for a file."""
        table = self.table
        for name, array in (("_time", self.times), ("_sign", self.signatures), ("_value", self.values)):
            if array.size or not len(self):
                table = table.append_column(name, to_arrow(array))
        return table

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch) -> JoinRows:
        """The rows behind ``to_batch``.

        >>> rows = JoinRows(np.array([1, 2]), np.array([0, 0]), NO_VALUES, pa.record_batch({"x": [3, 4]}))
        >>> JoinRows.from_batch(rows.to_batch()).table.column("x").to_pylist()
        [3, 4]
        """
        arrays = {name: from_arrow(batch.column(name)) for name in batch.schema.names if name in ROW_COLUMNS}
        table = batch.select([n for n in batch.schema.names if n not in ROW_COLUMNS])
        return cls(arrays["_time"], arrays["_sign"], arrays.get("_value", NO_VALUES), table)


SMALL_RUN_ROWS = 8192
"""Rows that cost less to copy than to look at apart from others."""

ROW_COLUMNS = ("_time", "_sign", "_value")
"""The columns of a batch of rows that are not of the stream."""


class SliceRows(NamedTuple):
    """Rows in a slice; those before ``start`` have left it."""

    rows: JoinRows
    start: int = 0

    def __len__(self) -> int:
        return len(self.rows) - self.start

    def living(self) -> JoinRows:
        """The rows that are still in the slice."""
        return self.rows.part(self.start, len(self.rows)) if self.start else self.rows


def add(runs: list[SliceRows], rows: JoinRows) -> None:
    """Put rows into a slice; runs of like size become one, so that there are few of them."""
    if not len(rows):
        return
    runs.append(SliceRows(rows))
    while len(runs) > 1 and len(runs[-2]) <= max(2 * len(runs[-1]), SMALL_RUN_ROWS - len(runs[-1])):
        second, first = runs.pop(), runs.pop()
        runs.append(SliceRows(concat([first.living(), second.living()])))


def to_arrow(array: np.ndarray) -> pa.Array:
    """Numbers, or rows of numbers, as an Arrow array.

    >>> from_arrow(to_arrow(np.array([[1, 2], [3, 4]]))[1:]).tolist()
    [[3, 4]]
    """
    if array.ndim == 1:
        return pa.array(array)
    return pa.FixedSizeListArray.from_arrays(pa.array(array.ravel()), array.shape[1])


def from_arrow(array: pa.Array) -> np.ndarray:
    """The numbers behind ``to_arrow``."""
    rows = pa.types.is_fixed_size_list(array.type)
    numbers: np.ndarray = array.flatten().to_numpy() if rows else array.to_numpy()
    return numbers.reshape(-1, array.type.list_size) if rows else numbers


def concat(parts: Sequence[JoinRows]) -> JoinRows:
    """Several as one, ordered by time."""
    times = np.concatenate([p.times for p in parts])
    signatures = np.concatenate([p.signatures for p in parts])
    values = np.concatenate([p.values for p in parts])
    table = pa.concat_batches([p.table for p in parts])
    rows = JoinRows(times, signatures, values, table)
    if times.size and (times[1:] < times[:-1]).any():
        return rows.take(np.argsort(times, kind="stable"))
    return rows


class SideRanges(NamedTuple):
    """One side's distinct ranges, ascending, and the number of its first place.

    A pair's place says whose row is the earlier one and which of that side's ranges are too short for it:
    place ``base + n`` if n of them are.
    """

    ranges: np.ndarray
    base: int

    def place_of(self, ages: np.ndarray) -> np.ndarray:
        """The places of ages, none of them beyond the last range."""
        return self.base + np.searchsorted(self.ranges, ages, side="right")
