"""The query of a test, and the streams that it reads, as a test gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import pyarrow as pa

from weft.errors import JobError
from weft.io.arrow import Batch, as_table
from weft.model.join import JoinQuery
from weft.model.names import time_of
from weft.model.query import Query
from weft.sql.read import QueryInput, built, read_one
from weft.testing import literals

StreamRows: TypeAlias = literals.RowSource | Batch | Iterable[Batch]
"""Rows of a stream: text, dictionaries, a table of any library, or a list of tables in order of arrival."""


def read_test_query(query: str | QueryInput) -> Query | JoinQuery:
    """Return the query itself, from SQL, a builder or as it is."""
    return read_one(query) if isinstance(query, str) else built(query)


def read_streams(
    query: Query | JoinQuery, rows: StreamRows | Mapping[str, StreamRows], time: str | Mapping[str, str]
) -> dict[str, list[pa.Table]]:
    """Return the batches of each stream that the query reads.

    >>> query = read_test_query("SELECT count(*) AS n FROM s [RANGE '1 min']")
    >>> read_streams(query, [{"ts": "00:01"}, {"ts": "00:02"}], "ts")["s"][0].num_rows
    2
    """
    if not isinstance(rows, Mapping):
        if isinstance(query, JoinQuery):
            raise JobError(f"a join needs the rows of its streams by name: {', '.join(query.streams)}")
        rows = {query.source: rows}
    missing = [name for name in query.streams if name not in rows]
    if missing:
        raise JobError(f"there are no rows of the stream {missing[0]!r}; given are {', '.join(rows)}")
    return {name: _batches(rows[name], column) for name, column in time_columns(query, time).items()}


def time_columns(query: Query | JoinQuery, time: str | Mapping[str, str]) -> dict[str, str]:
    """Return the time column of each stream that the query reads."""
    return {name: time if isinstance(time, str) else time_of(time, name) for name in query.streams}


def is_table(rows: StreamRows) -> bool:
    """Return whether rows are one table, of any library.

    >>> is_table(pa.table({"x": [1]})), is_table([{"x": 1}])
    (True, False)
    """
    if isinstance(rows, pa.RecordBatch) or not isinstance(rows, Iterable):
        return True
    return hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "to_arrow")


def _batches(rows: StreamRows, time: str) -> list[pa.Table]:
    if isinstance(rows, str):
        return [literals.rows(rows, time)]
    if is_table(rows):
        return [as_table(rows)]
    parts = list(rows)
    if all(isinstance(part, Mapping) for part in parts):
        return [literals.rows(parts, time)]
    return [literals.rows(part, time) if isinstance(part, str) else as_table(part) for part in parts]
