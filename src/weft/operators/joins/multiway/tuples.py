"""Joined rows of some of a join's sides, or of all: intermediate results, and results that wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from weft.operators.joins.rows import JoinRows
from weft.operators.joins.union import columns


@dataclass(frozen=True, eq=False)
class Tuples:
    """Joined rows: the time of the latest part, of each part (a column per side), the queries they still
    serve, and the columns that are still needed, called ``side.column``.
    """

    times: np.ndarray
    parts: np.ndarray
    words: np.ndarray
    table: pa.RecordBatch

    def __len__(self) -> int:
        return self.times.size

    def take(self, rows: np.ndarray) -> Tuples:
        """Some of them."""
        return Tuples(self.times[rows], self.parts[rows], self.words[rows], self.table.take(pa.array(rows)))

    def part(self, first: int, last: int) -> Tuples:
        """Neighbouring ones, without a copy."""
        table = self.table.slice(first, last - first)
        return Tuples(self.times[first:last], self.parts[first:last], self.words[first:last], table)


def first_part(
    rows: JoinRows, side: int, sides: Sequence[str], signatures: np.ndarray, carried: frozenset[str]
) -> Tuples:
    """Rows of one side as joined rows of that side alone; ``signatures`` are the bitmaps of signatures."""
    parts = np.zeros((len(rows), len(sides)), np.int64)
    parts[:, side] = rows.times
    table = named(rows.table, sides[side], carried)
    return Tuples(rows.times, parts, signatures[rows.signatures], table)


def named(table: pa.RecordBatch, side: str, names: frozenset[str]) -> pa.RecordBatch:
    """Return columns of one side's rows, by their full names."""
    arrays = {f"{side}.{n}": table.column(n) for n in table.schema.names if f"{side}.{n}" in names}
    return batch_of(arrays, table.num_rows)


def batch_of(arrays: dict[str, pa.Array], rows: int) -> pa.RecordBatch:
    """A batch of these columns; one of nulls where there is none, which would forget how many rows it has."""
    return pa.RecordBatch.from_pydict(arrays or {"_": pa.nulls(rows)})


def concat_tuples(lots: Sequence[Tuples]) -> Tuples:
    """Several as one; results found before a query came lack its columns, and are not its own."""
    if len(lots) == 1:
        return lots[0]
    fields = {f.name: f for tuples in lots for f in tuples.table.schema}
    schema = pa.schema(list(fields.values()))
    tables = [t.table if t.table.schema == schema else columns(t.table, schema) for t in lots]
    return Tuples(
        np.concatenate([t.times for t in lots]),
        np.concatenate([t.parts for t in lots]),
        np.concatenate([t.words for t in lots]),
        pa.concat_batches(tables),
    )
