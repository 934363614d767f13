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

from weft.operators.joins.rows import SideRanges


@dataclass(frozen=True, eq=False)
class Pairs:
    """Joined rows: time, place, the parts' signatures, how much later side 0 is, and the columns of both."""

    times: np.ndarray
    places: np.ndarray
    signatures: tuple[np.ndarray, np.ndarray]
    later: np.ndarray
    table: pa.RecordBatch

    def take(self, rows: np.ndarray) -> Pairs:
        """Some of the pairs."""
        signatures = (self.signatures[0][rows], self.signatures[1][rows])
        table = self.table.take(pa.array(rows))
        return Pairs(self.times[rows], self.places[rows], signatures, self.later[rows], table)


class WaitingResults(Protocol):
    """Joined rows with the time of each."""

    @property
    def times(self) -> np.ndarray:
        """Return the time at which each is a result."""
        ...

    def take(self, rows: np.ndarray) -> Self:
        """Return some of them."""
        ...


W = TypeVar("W", bound=WaitingResults)


class Union(Generic[W]):
    """Joined rows that wait for their turn; ``concat`` makes several lots one.

    Not SQL's UNION: the paper's operator behind the slices, which merges their results in order of time.
    """

    def __init__(self, concat: Callable[[Sequence[W]], W]) -> None:
        self.waiting: list[W] = []
        self.concat = concat

    def add(self, results: W) -> None:
        """Let results wait."""
        self.waiting.append(results)

    def release(self, now: int) -> tuple[W, np.ndarray] | None:
        """Return the joined rows before this time, and the order of their times."""
        ready, waiting = [], []
        for results in self.waiting:
            due = results.times < now
            if due.all():
                ready.append(results)
            elif due.any():
                ready.append(results.take(np.flatnonzero(due)))
                waiting.append(results.take(np.flatnonzero(~due)))
            else:
                waiting.append(results)
        self.waiting = waiting
        if not ready:
            return None
        released = self.concat(ready)
        return released, np.argsort(released.times, kind="stable")


def placed(pairs: Pairs, windows: Sequence[SideRanges]) -> Pairs:
    """Return pairs with the places that they have by other ranges; some are now too old for any query."""
    ages = np.abs(pairs.later)
    first_is_older = pairs.later < 0
    places = np.where(first_is_older, windows[0].place_of(ages), windows[1].place_of(ages))
    longest = np.where(first_is_older, windows[0].ranges[-1], windows[1].ranges[-1])
    moved = replace(pairs, places=places.astype(pairs.places.dtype))
    return moved.take(np.flatnonzero(ages < longest))


def columns(table: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return these columns of some rows, decoded; null where the rows lack one."""
    if not schema.names:  # a batch without columns would forget how many rows it has
        return pa.RecordBatch.from_arrays([pa.nulls(table.num_rows)], ["_"])
    arrays = []
    for field in schema:
        if field.name not in table.schema.names:
            arrays.append(pa.nulls(table.num_rows, field.type))
            continue
        column = table.column(field.name)
        arrays.append(column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def concat_pairs(lots: Sequence[Pairs]) -> Pairs:
    """Several as one; pairs found before a query came lack its columns, and are not its results."""
    fields = {f.name: f for pairs in lots for f in pairs.table.schema}
    schema = pa.schema(list(fields.values()))
    tables = [p.table if p.table.schema == schema else columns(p.table, schema) for p in lots]
    return Pairs(
        np.concatenate([p.times for p in lots]),
        np.concatenate([p.places for p in lots]),
        (np.concatenate([p.signatures[0] for p in lots]), np.concatenate([p.signatures[1] for p in lots])),
        np.concatenate([p.later for p in lots]),
        pa.concat_batches(tables),
    )
