"""The ordered union behind a chain: pairs wait here until no earlier one can come.

In the paper a probe that has left the last slice is the punctuation that lets results go (Wang, figure 5.7);
with batches and disorder, it is the watermark of both streams. Pairs are what wait, not results: each is held
once, however many queries it serves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from weft.joins.match import Windows


@dataclass(frozen=True, eq=False)
class Pairs:
    """Joined rows: time, place, the parts' signatures, how much later side 0 is, and the columns of both."""

    times: np.ndarray
    places: np.ndarray
    signs: tuple[np.ndarray, np.ndarray]
    later: np.ndarray
    table: pa.RecordBatch

    def take(self, rows: np.ndarray) -> Pairs:
        """Some of the pairs."""
        signs = (self.signs[0][rows], self.signs[1][rows])
        table = self.table.take(pa.array(rows))
        return Pairs(self.times[rows], self.places[rows], signs, self.later[rows], table)


class Waiting(Protocol):
    """Joined rows with the time of each."""

    @property
    def times(self) -> np.ndarray:
        """When each is a result."""
        ...

    def take(self, rows: np.ndarray) -> Self:
        """Some of them."""
        ...


W = TypeVar("W", bound=Waiting)


class Union(Generic[W]):
    """Joined rows that wait for their turn; ``concat`` makes several lots one."""

    def __init__(self, concat: Callable[[Sequence[W]], W]) -> None:
        self.waiting: list[W] = []
        self.concat = concat

    def add(self, found: W) -> None:
        """Let some wait."""
        self.waiting.append(found)

    def release(self, now: int) -> tuple[W, np.ndarray] | None:
        """Those before this time, and the order of their times."""
        ready, waiting = [], []
        for found in self.waiting:
            due = found.times < now
            if due.all():
                ready.append(found)
            elif due.any():
                ready.append(found.take(np.flatnonzero(due)))
                waiting.append(found.take(np.flatnonzero(~due)))
            else:
                waiting.append(found)
        self.waiting = waiting
        if not ready:
            return None
        found = self.concat(ready)
        return found, np.argsort(found.times, kind="stable")


def placed(pairs: Pairs, windows: Sequence[Windows]) -> Pairs:
    """Where the ranges are others, so are the places of pairs; some are now too old for any query."""
    ages = np.abs(pairs.later)
    first_is_older = pairs.later < 0
    places = np.where(first_is_older, windows[0].place_of(ages), windows[1].place_of(ages))
    longest = np.where(first_is_older, windows[0].ranges[-1], windows[1].ranges[-1])
    moved = replace(pairs, places=places.astype(pairs.places.dtype))
    return moved.take(np.flatnonzero(ages < longest))


def columns(table: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """These columns of some rows, decoded; null where the rows lack one."""
    if not schema.names:  # a batch without columns would forget how many rows it has
        return pa.RecordBatch.from_arrays([pa.nulls(table.num_rows)], ["_"])
    arrays = []
    for wanted in schema:
        if wanted.name not in table.schema.names:
            arrays.append(pa.nulls(table.num_rows, wanted.type))
            continue
        column = table.column(wanted.name)
        arrays.append(column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def concat_pairs(some: Sequence[Pairs]) -> Pairs:
    """Several as one; pairs found before a query came lack its columns, and are not its results."""
    fields = {f.name: f for pairs in some for f in pairs.table.schema}
    schema = pa.schema(list(fields.values()))
    tables = [p.table if p.table.schema == schema else columns(p.table, schema) for p in some]
    return Pairs(
        np.concatenate([p.times for p in some]),
        np.concatenate([p.places for p in some]),
        (np.concatenate([p.signs[0] for p in some]), np.concatenate([p.signs[1] for p in some])),
        np.concatenate([p.later for p in some]),
        pa.concat_batches(tables),
    )
