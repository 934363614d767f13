"""Names to columns, once the schemas of the stream and of its static tables are known.

A column of a table gets a name of its own in the rows, made of the table and of what it is looked up by, as
in ``close[symbol].cp``: queries that join alike share the column, those that do not have two. An inner join
becomes part of the predicate, so that signatures and all that follows know nothing of joins.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from weft.errors import QueryError
from weft.expr import UTC, arrow_type, check, result_type, sql_type
from weft.expr.check import unknown_column
from weft.expr.types import time_zone
from weft.plan import Plan
from weft.query import Aggregate, Call, Column, Expr, Query, TableJoin, split_name

COMPARED = ("boolean", "bigint", "double", "string", "timestamp", "date")


@dataclass(frozen=True, slots=True)
class Join:
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
) -> tuple[Plan, tuple[Join, ...]]:
    """The plan with every column by its name in the rows, and the joins that bring those of tables."""
    if not any(query.joins for query in plan.queries):
        return plan, ()
    joins: dict[str, Join] = {}
    trees, read = [], set[str]()
    for tree in plan.trees:
        queries = []
        for query in tree.queries:
            try:
                bound = _Binding(query, schema, tables, joins, zone).query()
            except QueryError as error:
                raise error.of(query.name) from None
            queries.append(bound)
            read |= bound.columns
        trees.append(replace(tree, queries=tuple(queries)))
    needed = (_needed(join, tables[join.table], read) for join in joins.values())
    return replace(plan, trees=tuple(trees)), tuple(join for join in needed if join.columns)


def with_tables(schema: pa.Schema, joins: Iterable[Join]) -> pa.Schema:
    """The columns of the rows once the tables' are beside the stream's."""
    added = [pa.field(name, type) for join in joins for name, _, type in join.columns]
    return pa.schema([*schema, *added]) if added else schema


def _needed(join: Join, table: pa.Schema, read: set[str]) -> Join:
    columns = ((f"{join.name}.{field.name}", field.name, plain_type(field.type)) for field in table)
    return replace(join, columns=tuple(column for column in columns if column[0] in read))


def plain_type(type: pa.DataType) -> pa.DataType:
    """The type of a table's column in the rows: without dictionary, and text in one type."""
    if pa.types.is_dictionary(type):
        type = type.value_type
    text = pa.types.is_large_string(type) or pa.types.is_string_view(type)
    return pa.string() if text else type


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
        joins: dict[str, Join],
        zone: str,
    ) -> None:
        self.asked, self.schema, self.schemas, self.joins, self.zone = query, schema, tables, joins, zone
        self.tables: list[_Table] = []
        self.rows = schema

    def query(self) -> Query:
        asked = self.asked
        if not asked.joins:
            return asked
        joins = tuple(self._join(join) for join in asked.joins)
        matched: list[Expr] = [
            _is_there(f"{table.name}.{join.keys[0][1]}")
            for join, table in zip(joins, self.tables)
            if join.how == "inner"
        ]
        conditions = matched if asked.predicate is None else [*matched, self._over(asked.predicate)]
        keys = tuple(self._column(column).name for column in asked.keys)
        for name in keys:
            if keys.count(name) > 1:
                twice = " and ".join(repr(a) for a, b in zip(asked.group_by, keys) if b == name)
                second = asked.keys[len(keys) - 1 - keys[::-1].index(name)]
                raise QueryError(f"{twice} are one column", position=second.position, hint="group by it once")
        return replace(
            asked,
            aggregates=tuple(self._aggregate(aggregate) for aggregate in asked.aggregates),
            group_by=keys,
            group_names=asked.result_keys,
            predicate=_all(conditions),
            time=None if asked.time is None else self._column(Column(asked.time)).name,
            joins=joins,
        )

    def _aggregate(self, aggregate: Aggregate) -> Aggregate:
        return replace(aggregate, args=tuple(self._over(a) for a in aggregate.args))

    def _join(self, join: TableJoin) -> TableJoin:
        """The join with its keys bound, the table taken into the scope under its name in the rows."""
        if join.table not in self.schemas:
            raise _unknown_table(join, self.schemas)
        table = self.schemas[join.table]
        for _, column in join.keys:
            if table.names.count(column) != 1:
                raise _unknown_key(join, column, table.names)
        keys = tuple((self._over(key), column) for key, column in join.keys)
        types = [self._compared(join, key, table.field(column)) for key, column in keys]
        name = f"{join.table}[{', '.join(map(_spelled, keys))}]"
        if name not in self.joins:
            self.joins[name] = Join(name, join.table, tuple((k, c, t) for (k, c), t in zip(keys, types)))
        merged = frozenset(c for key, c in join.keys if isinstance(key, Column) and key.name == c)
        self.tables.append(_Table(join.alias, name, table.names, merged))
        added = [pa.field(f"{name}.{field.name}", plain_type(field.type)) for field in table]
        self.rows = pa.schema([*self.rows, *added])
        return replace(join, keys=keys, alias=name)

    def _compared(self, join: TableJoin, key: Expr, column: pa.Field) -> pa.DataType:
        """The type in which a key and a column of the table are compared."""
        ours, theirs = check(key, self.rows, self.zone), sql_type(column.type)
        if {ours, theirs} == {"bigint", "double"}:
            return pa.float64()  # as everywhere in expressions
        if ours not in COMPARED or theirs not in (ours, "null"):
            wanted = theirs if theirs in COMPARED else "string"
            raise QueryError(
                f"{key} is {ours} and {join.alias}.{column.name} is {theirs}: they cannot be equal",
                position=key.position or join.position,
                hint=f"write CAST({key} AS {wanted}), or give the table a column of type {ours}",
            )
        if ours == "timestamp":
            # Instants where one of them has a zone: local times are then those of the run's.
            zoned = result_type(key, self.rows, self.zone).tz or time_zone(column.type)
            return arrow_type(ours, self.zone if zoned else None)
        return arrow_type(ours)

    def _over(self, expr: Expr) -> Expr:
        return _renamed(expr, self._column)

    def _column(self, column: Column) -> Column:
        """The column behind a name, which may have the stream or a table before it."""
        source = self.asked.source
        called, name = split_name(column.name, [source, *(table.alias for table in self.tables)])
        if called == source:
            if name not in self.schema.names:
                raise unknown_column(replace(column, name=name), tuple(self.schema.names))
            return replace(column, name=name)
        found = [] if called or name not in self.schema.names else [name]
        for table in self.tables:
            if called == table.alias or (not called and not (name in table.merged and found)):
                found += [f"{table.name}.{name}"] * table.columns.count(name)
        if len(found) > 1:
            raise self._ambiguous(column, name, found)
        if not found:
            known = next((t.columns for t in self.tables if called and t.alias == called), self._known())
            where = f" of {called!r}" if called else ""
            error = unknown_column(replace(column, name=name), tuple(known))
            raise QueryError(error.message + where, position=error.position, hint=error.hint)
        return replace(column, name=found[0])

    def _known(self) -> list[str]:
        return list(dict.fromkeys([*self.schema.names, *(c for t in self.tables for c in t.columns)]))

    def _ambiguous(self, column: Column, name: str, found: list[str]) -> QueryError:
        places = [self.asked.source] if name in found else []
        places += [t.alias for t in self.tables if f"{t.name}.{name}" in found]
        if len(places) == 1:
            message = f"{places[0]!r} has {len(found)} columns named {name!r}"
            return QueryError(message, position=column.position, hint="rename them")
        return QueryError(
            f"the column {name!r} is in {' and in '.join(map(repr, places))}",
            position=column.position,
            hint=f"say which, as in {places[-1]}.{name}",
        )


def _renamed(expr: Expr, rename: Callable[[Column], Column]) -> Expr:
    if isinstance(expr, Column):
        return rename(expr)
    if isinstance(expr, Call):
        return replace(expr, args=tuple(_renamed(a, rename) for a in expr.args))
    return expr


def _is_there(column: str) -> Expr:
    """A key of a table is never null: where it is, the row met none."""
    return Call("not", (Call("is_null", (Column(column),)),))


def _all(conditions: list[Expr]) -> Expr | None:
    whole = conditions[0] if conditions else None
    for condition in conditions[1:]:
        whole = Call("and", (whole, condition))  # type: ignore[arg-type]
    return whole


def _spelled(pair: tuple[Expr, str]) -> str:
    key, column = pair
    return column if key == Column(column) else f"{key} = {column}"


def _unknown_table(join: TableJoin, tables: Mapping[str, pa.Schema]) -> QueryError:
    close = difflib.get_close_matches(join.table.lower(), {name.lower(): name for name in tables}, 1)
    given = {name.lower(): name for name in tables}
    if close:
        hint = f"did you mean {given[close[0]]!r}?"
    elif tables:
        hint = f"the tables given are {', '.join(tables)}"
    else:
        hint = f"give it with tables={{{join.table!r}: ...}}, or as [tables.{join.table}] of the job file"
    return QueryError(f"no table {join.table!r} is given", position=join.position, hint=hint)


def _unknown_key(join: TableJoin, column: str, names: list[str]) -> QueryError:
    error = unknown_column(Column(column), tuple(names))
    if column in names:
        return QueryError(
            f"the table {join.table!r} has several columns named {column!r}", hint="rename them"
        )
    return QueryError(
        f"the table {join.table!r} has no column {column!r}", position=join.position, hint=error.hint
    )


def key_columns(joins: Iterable[Join]) -> frozenset[str]:
    """The columns that rows are looked up by as they are."""
    return frozenset(key.name for join in joins for key, _, _ in join.keys if isinstance(key, Column))
