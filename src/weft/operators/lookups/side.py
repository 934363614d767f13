"""The rows of one side of a join, with the columns of the tables that are looked up beside them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from weft.expr.check import unknown_column
from weft.expr.types import UTC
from weft.model.expression import Expr, column_nodes, columns_of
from weft.model.query import Lookup
from weft.operators.lookups.bind import (
    BoundLookup,
    needed_lookups,
    several_columns,
    table_schema,
    unknown_of,
    whole_lookup,
    with_tables,
)


@dataclass
class SideRows:
    """The columns of one side's rows: ``stream`` are those of the stream, ``rows`` those of tables too.

    >>> from weft.model.expression import Column
    >>> side = SideRows(pa.schema({"id": pa.int64()}))
    >>> names = Lookup("names", ((Column("id"), "id"),))
    >>> side.add(names, {"names": pa.schema({"id": pa.int64(), "title": pa.string()})})
    >>> side.rows.names
    ['id', 'names[id].id', 'names[id].title']
    >>> [lookup.columns[0][1] for lookup in side.needed({"names[id].title"})]
    ['title']
    """

    stream: pa.Schema
    zone: str = UTC
    rows: pa.Schema = field(init=False)
    _aliases: dict[str, str] = field(init=False, default_factory=dict)
    _lookups: dict[str, BoundLookup] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.rows = self.stream

    def add(self, lookup: Lookup, tables: Mapping[str, pa.Schema]) -> None:
        """Put the columns of a table beside the rows, unless a lookup that looks up alike has."""
        self._aliases[lookup.name] = lookup.alias  # of the query that is being checked
        if lookup.name in self._lookups:
            return
        table = table_schema(lookup, tables)
        for key, _ in lookup.keys:
            self.check_columns(key)
        bound = self._lookups[lookup.name] = whole_lookup(lookup, table, self.rows, self.zone)
        self.rows = with_tables(self.rows, [bound])

    def check_columns(self, expr: Expr) -> None:
        """Refuse columns that neither the stream nor a table has, in the words of the query."""
        for column in column_nodes(expr):
            lookup = next((k for k in self._lookups.values() if column.name.startswith(f"{k.name}.")), None)
            if lookup is None:
                if column.name not in self.stream.names:
                    raise unknown_column(column, tuple(self.stream.names))
                continue
            alias, own = self._aliases[lookup.name], column.name.removeprefix(f"{lookup.name}.")
            names = [name for _, name, _ in lookup.columns]
            if own not in names:
                raise unknown_of(replace(column, name=own), names, f" of {alias!r}")
            if names.count(own) > 1:
                raise several_columns(replace(column, name=own), names.count(own), alias)

    def needed(self, read: Collection[str]) -> tuple[BoundLookup, ...]:
        """Return the lookups that columns which are read need, each after those that it is looked up by."""
        names = set(read)
        for lookup in reversed(self._lookups.values()):
            if any(name in names for name, _, _ in lookup.columns):
                names |= key_names([lookup])
        return needed_lookups(self._lookups.values(), names)


def key_names(lookups: Iterable[BoundLookup]) -> frozenset[str]:
    """Return the columns of the rows that they are looked up by."""
    return frozenset[str]().union(*(columns_of(key) for k in lookups for key, _, _ in k.keys))


def united(lookups: Iterable[BoundLookup]) -> tuple[BoundLookup, ...]:
    """Return lookups over the same rows as one each, with all columns that some of them brings.

    >>> columns = [(("n[id].x", "x", pa.int64()),), (("n[id].y", "y", pa.int64()),)]
    >>> (both,) = united(BoundLookup("n[id]", "n", (), brought) for brought in columns)
    >>> [name for name, _, _ in both.columns]
    ['n[id].x', 'n[id].y']
    """
    together: dict[str, BoundLookup] = {}
    for lookup in lookups:
        other = together.get(lookup.name, lookup)
        columns = sorted({*other.columns, *lookup.columns}, key=lambda column: column[0])
        together[lookup.name] = replace(lookup, columns=tuple(columns))
    return tuple(together.values())
