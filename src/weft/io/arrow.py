"""Tables of other libraries as Arrow tables."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa

from weft.errors import JobError
from weft.io.files import Chunk

Batch: TypeAlias = Any
"""A pyarrow Table or RecordBatch, a pandas or polars DataFrame, or anything with an Arrow C stream."""


def as_chunk(batch: Batch | Chunk) -> Chunk:
    """Return a chunk as it is, and a batch as a chunk without bad rows."""
    return batch if isinstance(batch, Chunk) else Chunk(as_table(batch))


def as_table(batch: Batch) -> pa.Table:
    """Convert a table of any library that speaks Arrow."""
    if isinstance(batch, pa.Table):
        return batch
    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    if hasattr(batch, "toArrow"):
        return _plain_views(batch.toArrow())
    if hasattr(batch, "__arrow_c_stream__"):
        return _plain_views(pa.table(batch))
    if hasattr(batch, "to_arrow"):
        return _plain_views(batch.to_arrow())
    raise JobError(
        f"{type(batch).__name__} is not a table; give pyarrow, pandas or polars tables, one or many"
    )


def _plain_views(table: pa.Table) -> pa.Table:
    """Cast string views (as polars exports them) to plain strings."""
    fields = [
        f.with_type(pa.string()) if f.type in (pa.string_view(), pa.large_string()) else f
        for f in table.schema
    ]
    return table.cast(pa.schema(fields))
