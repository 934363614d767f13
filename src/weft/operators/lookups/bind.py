"""Names to columns, once the schemas of the stream and of its lookup tables are known.

A column of a table gets a name of its own in the rows, made of the table and of what it is looked up by, as
in ``close[symbol].cp``: queries that look up alike share the column, those that do not have two. An inner one
becomes part of the predicate, so that signatures and all that follows know nothing of lookups.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.errors import QueryError
from weft.expr.check import check, result_type, unknown_column
from weft.expr.types import UTC, arrow_type, sql_type, time_zone
from weft.model.expression import Call, Column, Expr, split_name
from weft.model.query import Aggregate, Lookup, Query

if TYPE_CHECKING:
    from weft.planning.plan import Plan

COMPARABLE_TYPES = ("boolean", "bigint", "double", "string", "timestamp", "date")


@dataclass(frozen=True, slots=True)
class BoundLookup:
    """A table as rows meet it: looked up by which expressions, in which columns, and what is taken from it.

    ``keys`` have an expression over the row, a column of the table, and the Arrow type in which they are
    compared. ``columns`` have the name in the rows, the column of the table, and its type.
    """

    name: str
    table: str
    keys: tuple[tuple[Expr, str, pa.DataType], ...]
    columns: tuple[tuple[str, str, pa.DataType], ...] = ()


def bind_plan(
    plan: Plan, schema: pa.Schema, tables: Mapping[str, pa.Schema], zone: str = UTC
) -> tuple[Plan, tuple[BoundLookup, ...]]:
    """The plan with every column by its name in the rows, and the lookups that bring those of tables."""
    if not any(query.lookups for query in plan.queries):
        return plan, ()
    lookups: dict[str, BoundLookup] = {}
    trees, read = [], set[str]()
    for tree in plan.trees:
        queries = []
        for query in tree.queries:
            try:
                bound = _Binding(query, schema, tables, lookups, zone).query()
            except QueryError as error:
                raise error.of(query.name) from None
            queries.append(bound)
            read |= bound.columns
        trees.append(replace(tree, queries=tuple(queries)))
    return replace(plan, trees=tuple(trees)), needed_lookups(lookups.values(), read)


def with_tables(schema: pa.Schema, lookups: Iterable[BoundLookup]) -> pa.Schema:
    """The columns of the rows once the tables' are beside the stream's."""
    added = [pa.field(name, dtype) for lookup in lookups for name, _, dtype in lookup.columns]
    return pa.schema([*schema, *added]) if added else schema


def needed_lookups(lookups: Iterable[BoundLookup], read: Collection[str]) -> tuple[BoundLookup, ...]:
    """The lookups that bring a column that is read, with such columns alone."""
    needed = (replace(k, columns=tuple(c for c in k.columns if c[0] in read)) for k in lookups)
    return tuple(lookup for lookup in needed if lookup.columns)


def table_schema(lookup: Lookup, tables: Mapping[str, pa.Schema]) -> pa.Schema:
    """Return the columns of the table of a lookup, which must have those that it is looked up in."""
    if lookup.table not in tables:
        raise _unknown_table(lookup, tables)
    table = tables[lookup.table]
    for _, column in lookup.keys:
        if table.names.count(column) != 1:
            raise _unknown_key(lookup, column, table.names)
    return table


def whole_lookup(lookup: Lookup, table: pa.Schema, rows: pa.Schema, zone: str) -> BoundLookup:
    """Return a lookup whose keys are over the rows, checked, with all columns of its table."""
    keys = tuple(
        (key, column, _compared(lookup, key, table.field(column), rows, zone)) for key, column in lookup.keys
    )
    columns = tuple((lookup.column(field.name), field.name, plain_type(field.type)) for field in table)
    return BoundLookup(lookup.name, lookup.table, keys, columns)


def _compared(lookup: Lookup, key: Expr, column: pa.Field, rows: pa.Schema, zone: str) -> pa.DataType:
    """The type in which a key over the rows and a column of the table are compared."""
    key_type, column_type = check(key, rows, zone), sql_type(column.type)
    if {key_type, column_type} == {"bigint", "double"}:
        return pa.float64()  # as everywhere in expressions
    if key_type not in COMPARABLE_TYPES or column_type not in (key_type, "null"):
        cast_type = column_type if column_type in COMPARABLE_TYPES else "string"
        raise QueryError(
            f"{key} is {key_type} and {lookup.alias}.{column.name} is {column_type}: they cannot be equal",
            position=key.position or lookup.position,
            hint=f"write CAST({key} AS {cast_type}), or give the table a column of type {key_type}",
        )
    if key_type == "timestamp":
        # Instants where one of them has a zone: local times are then those of the run's.
        zoned = result_type(key, rows, zone).tz or time_zone(column.type)
        return arrow_type(key_type, zone if zoned else None)
    return arrow_type(key_type)


def plain_type(dtype: pa.DataType) -> pa.DataType:
    """The type of a table's column in the rows: without dictionary, and text in one type."""
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    text = pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype)
    return pa.string() if text else dtype


@dataclass(slots=True)
class _Table:
    """A table in the scope of a query; ``merged`` are its columns that stand for the stream's too (USING)."""

    alias: str
    name: str
    columns: list[str]
    merged: frozenset[str]


class _Binding:
    """The names of one query."""

    def __init__(
        self,
        query: Query,
        schema: pa.Schema,
        tables: Mapping[str, pa.Schema],
        lookups: dict[str, BoundLookup],
        zone: str,
    ) -> None:
        self.given, self.schema, self.schemas, self.lookups, self.zone = query, schema, tables, lookups, zone
        self.tables: list[_Table] = []
        self.rows = schema

    def query(self) -> Query:
        query = self.given
        if not query.lookups:
            return query
        lookups = tuple(self._bound(lookup) for lookup in query.lookups)
        matched = [lookup.matched for lookup in lookups if lookup.how == "inner"]
        conditions = matched if query.predicate is None else [*matched, self._over(query.predicate)]
        keys = tuple(self._column(column).name for column in query.keys)
        for name in keys:
            if keys.count(name) > 1:
                twice = " and ".join(repr(a) for a, b in zip(query.group_by, keys) if b == name)
                second = query.keys[len(keys) - 1 - keys[::-1].index(name)]
                raise QueryError(f"{twice} are one column", position=second.position, hint="group by it once")
        return replace(
            query,
            aggregates=tuple(self._aggregate(aggregate) for aggregate in query.aggregates),
            group_by=keys,
            group_names=query.result_keys,
            predicate=_all(conditions),
            time=None if query.time is None else self._column(Column(query.time)).name,
            lookups=lookups,
        )

    def _aggregate(self, aggregate: Aggregate) -> Aggregate:
        return replace(aggregate, args=tuple(self._over(a) for a in aggregate.args))

    def _bound(self, lookup: Lookup) -> Lookup:
        """The lookup with its keys bound, the table taken into the scope under its name in the rows."""
        table = table_schema(lookup, self.schemas)
        bound = replace(lookup, keys=tuple((self._over(key), column) for key, column in lookup.keys))
        whole = whole_lookup(bound, table, self.rows, self.zone)
        self.lookups.setdefault(whole.name, whole)
        merged = frozenset(c for key, c in lookup.keys if isinstance(key, Column) and key.name == c)
        self.tables.append(_Table(lookup.alias, whole.name, table.names, merged))
        self.rows = with_tables(self.rows, [whole])
        return replace(bound, alias=whole.name)

    def _over(self, expr: Expr) -> Expr:
        return _renamed(expr, self._column)

    def _column(self, column: Column) -> Column:
        """The column behind a name, which may have the stream or a table before it."""
        source = self.given.source
        called, name = split_name(column.name, [source, *(table.alias for table in self.tables)])
        if called == source:
            if name not in self.schema.names:
                raise unknown_column(replace(column, name=name), tuple(self.schema.names))
            return replace(column, name=name)
        matches = [] if called or name not in self.schema.names else [name]
        for table in self.tables:
            if called == table.alias or (not called and not (name in table.merged and matches)):
                matches += [f"{table.name}.{name}"] * table.columns.count(name)
        if len(matches) > 1:
            raise self._ambiguous(column, name, matches)
        if not matches:
            candidates = next(
                (t.columns for t in self.tables if called and t.alias == called), self._column_names()
            )
            where = f" of {called!r}" if called else ""
            raise unknown_of(replace(column, name=name), candidates, where)
        return replace(column, name=matches[0])

    def _column_names(self) -> list[str]:
        return list(dict.fromkeys([*self.schema.names, *(c for t in self.tables for c in t.columns)]))

    def _ambiguous(self, column: Column, name: str, matches: list[str]) -> QueryError:
        places = [self.given.source] if name in matches else []
        places += [t.alias for t in self.tables if f"{t.name}.{name}" in matches]
        if len(places) == 1:
            return several_columns(replace(column, name=name), len(matches), places[0])
        return QueryError(
            f"the column {name!r} is in {' and in '.join(map(repr, places))}",
            position=column.position,
            hint=f"say which, as in {places[-1]}.{name}",
        )


def unknown_of(column: Column, names: Iterable[str], where: str) -> QueryError:
    """The error for a column that is not among some names, and whose these are."""
    error = unknown_column(column, tuple(names))
    return QueryError(error.message + where, position=error.position, hint=error.hint)


def several_columns(column: Column, count: int, table: str) -> QueryError:
    """The error for a name that a table has more than once."""
    message = f"{table!r} has {count} columns named {column.name!r}"
    return QueryError(message, position=column.position, hint="rename them")


def _renamed(expr: Expr, rename: Callable[[Column], Column]) -> Expr:
    if isinstance(expr, Column):
        return rename(expr)
    if isinstance(expr, Call):
        return replace(expr, args=tuple(_renamed(a, rename) for a in expr.args))
    return expr


def _all(conditions: list[Expr]) -> Expr | None:
    whole = conditions[0] if conditions else None
    for condition in conditions[1:]:
        whole = Call("and", (whole, condition))  # type: ignore[arg-type]
    return whole


def _unknown_table(lookup: Lookup, tables: Mapping[str, pa.Schema]) -> QueryError:
    close = difflib.get_close_matches(lookup.table.lower(), {name.lower(): name for name in tables}, 1)
    given = {name.lower(): name for name in tables}
    if close:
        hint = f"did you mean {given[close[0]]!r}?"
    elif tables:
        hint = f"the tables given are {', '.join(tables)}"
    else:
        hint = f"give it with tables={{{lookup.table!r}: ...}}, or as [tables.{lookup.table}] of the job file"
    return QueryError(f"no table {lookup.table!r} is given", position=lookup.position, hint=hint)


def _unknown_key(lookup: Lookup, column: str, names: list[str]) -> QueryError:
    error = unknown_column(Column(column), tuple(names))
    if column in names:
        return QueryError(
            f"the table {lookup.table!r} has several columns named {column!r}", hint="rename them"
        )
    return QueryError(
        f"the table {lookup.table!r} has no column {column!r}", position=lookup.position, hint=error.hint
    )


def key_columns(lookups: Iterable[BoundLookup]) -> frozenset[str]:
    """The columns that rows are looked up by as they are."""
    return frozenset(key.name for lookup in lookups for key, _, _ in lookup.keys if isinstance(key, Column))
