"""Feeds: the results of joins that are aggregated, as one stream that the ordinary engine answers.

A row of that stream says in ``_join`` which join it is a result of. Its columns are called by what they are,
whatever the queries call them, so that one join feeds all queries that differ in their aggregates only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from weft.model.as_data import canonical
from weft.model.expression import Call, Column, Expr, Literal, with_columns
from weft.model.join import RESULT_TIME
from weft.model.query import Output, Query
from weft.operators.joins.program import JoinProgram
from weft.planning.joins.member import Member

FEED = "_join"


def feeding(member: Member) -> Member:
    """A join that is aggregated, with its columns called by what they are; another as it is."""
    if not member.aggregates:
        return member
    names = {o.alias: _name(o.expr) for o in member.outputs}
    outputs = {name: Output(name, o.expr) for name, o in zip(names.values(), member.outputs)}
    return replace(
        member,
        outputs=tuple(outputs.values()),
        aggregates=tuple(_renamed(query, names) for query in member.aggregates),
    )


def fed(query: Query, feed: str) -> Query:
    """A query over the results of one join, as one over those of all."""
    own_rows: Expr = Call("=", (Column(FEED), Literal(feed, "string")))
    return replace(
        query, predicate=own_rows if query.predicate is None else Call("and", (own_rows, query.predicate))
    )


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


def _name(expr: Expr) -> str:
    return expr.name if isinstance(expr, Column) else canonical(expr)


def _renamed(query: Query, names: Mapping[str, str]) -> Query:
    """A query over columns under other names; its results have the names they had."""
    return replace(
        query,
        aggregates=tuple(
            replace(a, args=tuple(with_columns(arg, names) for arg in a.args)) for a in query.aggregates
        ),
        group_by=tuple(names.get(key, key) for key in query.group_by),
        group_names=query.result_keys,
        predicate=None if query.predicate is None else with_columns(query.predicate, names),
    )
