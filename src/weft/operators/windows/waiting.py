"""Rows that wait: windows counted in rows need order of event time, which only the watermark settles.

Each row is a cell of its own, ``slice_start`` its time. Rows of one time stay in order of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class WaitingRows:
    """The rows of one group-by set that the watermark has not passed.

    >>> waiting = WaitingRows()
    >>> waiting.absorb(pa.record_batch({"slice_start": [30, 10, 20], "x": [3, 1, 2]}))
    >>> waiting.release(25).column("x").to_pylist(), waiting.rows
    ([1, 2], 1)
    """

    def __init__(self) -> None:
        self.tables: list[pa.RecordBatch] = []

    @property
    def rows(self) -> int:
        """Return how many rows wait."""
        return sum(t.num_rows for t in self.tables)

    @property
    def bytes(self) -> int:
        """Return how much memory they take."""
        return sum(t.nbytes for t in self.tables)

    def absorb(self, table: pa.RecordBatch) -> None:
        """Take in rows; they are put in order when the watermark passes them."""
        if table.num_rows:
            plain = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in table.columns]
            self.tables.append(pa.RecordBatch.from_arrays(plain, names=table.schema.names))

    def release(self, watermark: int) -> pa.RecordBatch:
        """Take out the rows before the watermark, in order of time."""
        whole = self.table()
        times = whole.column("slice_start").to_numpy(zero_copy_only=False)
        passed = times < watermark
        self.tables = [t for t in (whole.filter(pa.array(~passed)),) if t.num_rows]
        rows = np.flatnonzero(passed)
        return whole.take(pa.array(rows[np.argsort(times[rows], kind="stable")]))

    def evict(self, watermark: int, always: bool = False) -> None:
        """Forget the rows before the watermark: they have been counted."""
        kept = [t.filter(pc.greater_equal(t.column("slice_start"), watermark)) for t in self.tables]
        self.tables = [t for t in kept if t.num_rows]

    def table(self) -> pa.RecordBatch:
        """All rows that wait, the form ``absorb`` takes."""
        return one_batch(self.tables)


def one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches of plain columns, at least one, as one."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
