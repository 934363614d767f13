"""``oracle``: the answers of a query by brute force, for tests of one's own queries and aggregates."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from weft.aggregates.definition import Definition
from weft.aggregates.registry import USER_FUNCTIONS
from weft.aggregates.user import AggregateSplit
from weft.errors import AnswerOverflow, JobError, QueryError
from weft.expr.types import UTC, sql_type, time_zone
from weft.io.lookups import TableSource, load_version
from weft.model.join import RESULT_TIME, JoinQuery
from weft.model.query import Query
from weft.sql.read import QueryInput
from weft.testing.brute_force.aggregates import AGGREGATES, Cell, OfCells, order
from weft.testing.brute_force.casts import in_zone
from weft.testing.brute_force.relation import Relation, join, look_up
from weft.testing.brute_force.windows import EPOCH, MICROSECOND, Overflow, Row, answer
from weft.testing.literals import WINDOW_BOUNDS
from weft.testing.streams import StreamRows, read_streams, read_test_query, time_columns


def oracle(
    query: str | QueryInput,
    rows: StreamRows | Mapping[str, StreamRows],
    time: str | Mapping[str, str] = "ts",
    *,
    tables: Mapping[str, TableSource] | None = None,
    zone: str = UTC,
) -> list[Row]:
    """Return the answers of a query by its definition alone: each window recomputed from all its rows.

    It is slow, exact, and shares no code with the engine, which has to give the same answers. No row is late.
    It knows windows in time and counted in rows, predicates, group-bys, HAVING, lookup tables, joins of
    streams (``rows`` is then a mapping from each stream to its rows) and aggregates of one's own; approximate
    ones are refused.

    >>> from weft.testing import oracle
    >>> oracle("SELECT max(x) AS top FROM s [RANGE '5 min']", '''
    ...     ts     x
    ...     00:01  3
    ...     00:04  7
    ... ''')[0]["top"]
    7
    """
    question = read_test_query(query)
    streams = {
        name: pa.concat_tables(batches) for name, batches in read_streams(question, rows, time).items()
    }
    lookups = {name: _read_table(name, tables or {}) for name in question.tables}
    is_zoned = any(
        time_zone(field.type) for table in (*streams.values(), *lookups.values()) for field in table.schema
    )
    local_zone = zone if is_zoned or zone != UTC else None
    with in_zone(local_zone):
        relations = {name: _relation(table) for name, table in streams.items()}
        looked_up = {name: _relation(table) for name, table in lookups.items()}
        if isinstance(question, JoinQuery):
            joined = join(question, relations, time_columns(question, time), looked_up)
            if question.aggregate is None:
                return joined.rows
            return _answers(question.aggregate, joined, RESULT_TIME, local_zone)
        stream = look_up(question, relations[question.source], looked_up)
        return _answers(question, stream, time_columns(question, time)[question.source], local_zone)


def _answers(query: Query, relation: Relation, time: str, zone: str | None) -> list[Row]:
    """Return the answers of a window query, its windows as times."""
    aggregates = {a.function: _aggregate(a.function, query.name) for a in query.aggregates}
    try:
        answers = answer([query], relation.rows, time, relation.types, zone, aggregates)[query.name]
    except Overflow as overflow:
        aliases = ", ".join(sorted(alias for _, alias in overflow.cases))
        raise AnswerOverflow(f"query '{query.name}', {aliases}: an answer does not fit 64 bits") from None
    tz = datetime.UTC if any(getattr(row[time], "tzinfo", None) for row in relation.rows) else None
    for row in answers:
        row.update({name: (EPOCH + row[name] * MICROSECOND).replace(tzinfo=tz) for name in WINDOW_BOUNDS})
    return answers


def _aggregate(name: str, query: str) -> OfCells:
    """Return an aggregate over the rows of one window and group."""
    if name in AGGREGATES:
        return AGGREGATES[name]
    function = USER_FUNCTIONS.get(name)
    if function is None or not isinstance(function.parts, AggregateSplit):
        raise QueryError(
            f"{name} is approximate, and the oracle has exact answers only",
            query=query,
            hint="compare with the exact aggregate, and allow for the error of the sketch",
        )
    return functools.partial(_fold, function.parts.definition)


def _fold(definition: Definition, cells: list[Cell]) -> Any:
    """Return the answer of a user's aggregate: its rows lifted and combined one by one, in order of time."""
    counted = [cell for cell in cells if not any(value is None for value in cell[1])]
    if not counted:
        return None
    counted.sort(key=lambda cell: (cell[0], *map(order, cell[1])))
    states = [definition.call("lift", *values) for _, values in counted]
    state = functools.reduce(functools.partial(definition.call, "combine"), states)
    value = definition.answer(state)
    if value is not None and definition.result == "timestamp":
        return EPOCH + value * MICROSECOND
    if value is not None and definition.result == "date":
        return EPOCH.date() + datetime.timedelta(days=value)
    return value


def _read_table(name: str, tables: Mapping[str, TableSource]) -> pa.Table:
    if name not in tables:
        raise JobError(f"no table {name!r} is given; give it with tables={{{name!r}: ...}}")
    return load_version(name, tables[name], None).table


def _relation(table: pa.Table) -> Relation:
    """Return a table as Python rows, times in microseconds, with the SQL types of its columns."""
    types = {}
    for number, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            column = table.column(number).cast(pa.timestamp("us", field.type.tz), safe=False)
            table = table.set_column(number, field.name, column)
        try:
            types[field.name] = sql_type(field.type)
        except QueryError:
            types[field.name] = "null"  # of no SQL type: no query can read it
    return Relation(table.to_pylist(), types)
