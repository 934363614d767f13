"""Rows with the SQL types of their columns, and the rows that meet others: in lookup tables, and in joins."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from weft.model.join import RESULT_TIME, JoinQuery
from weft.model.query import Lookup, Query
from weft.testing.brute_force.expressions import compare, evaluate_row, holds, type_of
from weft.testing.brute_force.windows import Row, micros


@dataclass(frozen=True)
class Relation:
    """Rows, and the SQL type of each column."""

    rows: list[Row]
    types: Mapping[str, str]

    def called(self, alias: str) -> Relation:
        """Return the same rows with every column as ``alias.column``.

        >>> Relation([{"x": 1}], {"x": "bigint"}).called("t").rows
        [{'t.x': 1}]
        """
        rows = [{f"{alias}.{name}": value for name, value in row.items()} for row in self.rows]
        return Relation(rows, {f"{alias}.{name}": dtype for name, dtype in self.types.items()})


def look_up(query: Query, stream: Relation, tables: Mapping[str, Relation]) -> Relation:
    """Return the rows of the stream with the columns of the query's lookup tables beside their own.

    A row that meets no row of a table is left out, or has nulls there. A column can be called by its bare
    name, or with the stream or the table's alias before it.
    """
    types = {**stream.called(query.source).types, **stream.types}
    rows = [{**full, **row} for full, row in zip(stream.called(query.source).rows, stream.rows)]
    for lookup in query.lookups:
        table = tables[lookup.table]
        rows = [met for row in rows for met in _met(row, types, lookup, table)]
        types = {**table.types, **types, **table.called(lookup.alias).types}
    return Relation(rows, types)


def _met(row: Row, types: Mapping[str, str], lookup: Lookup, table: Relation) -> Iterator[Row]:
    """Yield the row with that of the table that has its keys; with nulls, or not at all, where none has."""
    for other in _matches(row, types, lookup, table):
        yield {**other, **row, **{f"{lookup.alias}.{name}": value for name, value in other.items()}}


def _matches(row: Row, types: Mapping[str, str], lookup: Lookup, table: Relation) -> list[Row]:
    """Return the rows of the table that have a row's keys; one of nulls where none has and none need."""
    keys = [(evaluate_row(key, row, types), column) for key, column in lookup.keys]
    matches = [
        other
        for other in table.rows
        if all(
            value is not None and other[column] is not None and compare(value, other[column]) == 0
            for value, column in keys
        )
    ]
    if not matches and lookup.how == "left":
        matches = [dict.fromkeys(table.types)]
    return matches


def _beside(stream: Relation, lookups: Iterable[Lookup], tables: Mapping[str, Relation]) -> Relation:
    """Return the rows of one side of a join with the columns of its tables, called by their lookups."""
    for lookup in lookups:
        table = tables[lookup.table]
        rows = [
            {**row, **{lookup.column(name): value for name, value in other.items()}}
            for row in stream.rows
            for other in _matches(row, stream.types, lookup, table)
        ]
        looked_up = {lookup.column(name): dtype for name, dtype in table.types.items()}
        stream = Relation(rows, {**stream.types, **looked_up})
    return stream


def join(
    query: JoinQuery,
    streams: Mapping[str, Relation],
    times: Mapping[str, str],
    tables: Mapping[str, Relation],
) -> Relation:
    """Return every result of a join of streams: all combinations of rows, one condition after the other.

    ``times`` are the time columns of the streams. The time of a result is that of its latest row.
    """
    types: dict[str, str] = {}
    sides = []
    lookups = query.lookups or ((),) * len(query.sides)
    for side, selection, side_lookups in zip(query.sides, query.selections, lookups):
        stream = _beside(streams[side.stream], side_lookups, tables)
        types |= stream.called(side.alias).types
        rows = [row for row in stream.rows if holds(selection, row, stream.types)]
        sides.append([row for row in rows if row[times[side.stream]] is not None])
    results = []
    for members in itertools.product(*sides):
        instants = [row[times[side.stream]] for row, side in zip(members, query.sides)]
        latest = max(instants, key=lambda instant: micros(instant) or 0)
        ages = [(micros(latest) or 0) - (micros(instant) or 0) for instant in instants]
        if any(age >= side.range for age, side in zip(ages, query.sides)):
            continue
        joined = {
            f"{side.alias}.{name}": value
            for row, side in zip(members, query.sides)
            for name, value in row.items()
        }
        if all(holds(condition, joined, types) for condition in query.conditions):
            outputs = {o.alias: evaluate_row(o.expr, joined, types) for o in query.outputs}
            results.append({RESULT_TIME: latest, **outputs})
    output_types = {output.alias: type_of(output.expr, types) for output in query.outputs}
    return Relation(results, {RESULT_TIME: "timestamp", **output_types})
