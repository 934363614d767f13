"""Rows that missed a window or a join, and those that cannot be read, as tables for the sink of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from weft.io.files.chunk import REJECTED_SCHEMA
from weft.operators.contract import Instant, Missed
from weft.operators.late import LATE_ROWS, REJECTED_ROWS, late_schema, late_table
from weft.runner.reads import StreamColumns


class LateNames(NamedTuple):
    """The names of the tables of a stream's late rows, and of those that cannot be read."""

    late: str
    rejected: str


def late_names(streams: Sequence[str]) -> dict[str, LateNames]:
    """Return the names of the tables of each stream; with one stream they need none of its name.

    >>> late_names([""]), late_names(["a", "b"])["b"]
    ({'': LateNames(late='late', rejected='rejected')}, LateNames(late='late_b', rejected='rejected_b'))
    """
    if len(streams) == 1:
        return {streams[0]: LateNames(LATE_ROWS, REJECTED_ROWS)}
    return {name: LateNames(f"{LATE_ROWS}_{name}", f"{REJECTED_ROWS}_{name}") for name in streams}


def late_tables(schemas: Mapping[str, pa.Schema]) -> dict[str, pa.Schema]:
    """Return the columns of all tables of the sink of late rows."""
    tables: dict[str, pa.Schema] = {}
    for stream, names in late_names(list(schemas)).items():
        tables |= {names.late: late_schema(schemas[stream]), names.rejected: REJECTED_SCHEMA}
    return tables


def rows_missed(
    table: pa.Table,
    schema: pa.Schema,
    missed: Sequence[tuple[Missed, Instant | None]],
    reads: StreamColumns | None,
) -> pa.Table | None:
    """Return the rows of a table that some stage does not count everywhere, each once, with all reasons.

    ``missed`` are the rows of each stage that reads the stream, and the stage's mark; of columns, those that
    are read. None: there is none.
    """
    lots = [(rows, mark) for rows, mark in missed if len(rows.places)]
    if not lots or reads is None:
        return None
    table = table.select(reads.schema.names)
    if len(lots) == 1:
        return late_table(table, schema, *lots[0])
    reasons: dict[int, dict[str, None]] = {}
    for rows, _ in lots:
        for place, reason in zip(rows.places.tolist(), rows.reasons):
            reasons.setdefault(place, {})[reason] = None
    places = sorted(reasons)
    united = Missed(np.array(places, np.int64), ["; ".join(reasons[place]) for place in places])
    return late_table(table, schema, united, lots[0][1])
