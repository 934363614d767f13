"""Feeds: the results of joins that are aggregated, as one stream that the ordinary engine answers.

A row of that stream says in ``_join`` which join it is a result of. Its columns are called by what they are,
whatever the queries call them, so that one join feeds all queries that differ in their aggregates only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from weft.model.join import RESULT_TIME
from weft.operators.joins.program import JoinProgram
from weft.planning.joins.feeding import FEED


def feed_schema(programs: Sequence[JoinProgram]) -> pa.Schema:
    """The columns of all results that are aggregated."""
    fields: dict[str, pa.Field] = {}
    for program in programs:
        for member in program.members:
            if member.aggregates:
                fields |= {f.name: f for f in program.results[member.name]}
    time = fields.pop(RESULT_TIME, pa.field(RESULT_TIME, pa.timestamp("us")))
    return pa.schema([time, pa.field(FEED, pa.string()), *(fields[name] for name in sorted(fields))])


def feed_rows(results: Mapping[str, pa.Table], schema: pa.Schema) -> pa.Table:
    """The results of joins, by their ids, as rows of the stream."""
    tables = [schema.empty_table()]
    for feed, table in results.items():
        columns = []
        for field in schema:
            if field.name == FEED:
                columns.append(pa.repeat(pa.scalar(feed, pa.string()), table.num_rows))
            elif field.name in table.schema.names:
                columns.append(table.column(field.name))
            else:
                columns.append(pa.nulls(table.num_rows, field.type))
        tables.append(pa.Table.from_arrays(columns, schema=schema))
    return pa.concat_tables(tables)
