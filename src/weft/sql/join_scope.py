"""The scope of a join: its streams, and the lookup tables beside each of them.

A table is beside one stream: what it is looked up by is of that stream's rows, and its columns are then
columns of these rows, under a name made of the lookup (``names[id].title``). Every column says whose it is,
so no schema is needed to know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from weft.errors import QueryError
from weft.model.expression import Column, Expr, Position, column_nodes, split_name, with_columns
from weft.model.join import Side
from weft.model.query import Lookup
from weft.sql.tables import Scope


class _Owner(NamedTuple):
    """Owner of columns: the number of a side, and what its rows have before their names."""

    side: int
    prefix: str


class JoinScope:
    """The streams of one join, and the tables beside them as they are added.

    ``tables`` is the scope in which the keys of lookups are read.

    >>> scope = JoinScope([Side("a", "a", 60), Side("b", "b", 30)])
    >>> _ = scope.tables.add("names", "n", None)
    >>> scope.add(Lookup("names", ((Column("b.id"), "key"),), "left", "n"))
    >>> [lookup.name for lookup in scope.lookups[1]], scope.placed("n", "title")
    (['names[id = key]'], 'b.names[id = key].title')
    """

    def __init__(self, sides: Sequence[Side]) -> None:
        self.sides = sides
        self.tables = Scope.of_streams(side.alias for side in sides)
        self.lookups: list[list[Lookup]] = [[] for _ in sides]
        self._owners = {side.alias: _Owner(number, "") for number, side in enumerate(sides)}

    def add(self, lookup: Lookup) -> None:
        """Give a lookup, its keys as they were written, to the stream whose columns they are."""
        owned = [(column, *self._owner(column)) for key, _ in lookup.keys for column in column_nodes(key)]
        sides = list(dict.fromkeys(owner.side for _, owner, _ in owned))
        if not sides:
            raise QueryError(
                f"nothing says beside which stream {lookup.alias!r} is looked up",
                position=lookup.position,
                hint=f"write {self.sides[0].alias}.symbol = {lookup.alias}.symbol",
            )
        if len(sides) > 1:
            aliases = " and ".join(repr(self.sides[side].alias) for side in sides)
            raise QueryError(
                f"{lookup.alias!r} is looked up by columns of several streams, {aliases}",
                position=next(c.position for c, owner, _ in owned if owner.side != sides[0])
                or lookup.position,
                hint="a table is beside one stream: keep in ON the equalities with that one, and put others "
                "in WHERE",
            )
        names = {column.name: owner.prefix + name for column, owner, name in owned}
        keys = tuple((with_columns(key, names), column) for key, column in lookup.keys)
        placed = replace(lookup, keys=keys)
        self.lookups[sides[0]].append(placed)
        self._owners[lookup.alias] = _Owner(sides[0], placed.column(""))

    @property
    def by_side(self) -> tuple[tuple[Lookup, ...], ...]:
        """The lookups of each side; empty where there are none."""
        return tuple(map(tuple, self.lookups)) if any(self.lookups) else ()

    @property
    def called(self) -> dict[str, str]:
        """The names that may stand before a column, in small letters, and the alias that each is of."""
        return {name: prefix.removesuffix(".") for name, prefix in self.tables.names.items()}

    def placed(self, alias: str, column: str) -> str:
        """Return what a column of a stream or table is called in joined rows."""
        owner = self._owners[alias]
        return f"{self.sides[owner.side].alias}.{owner.prefix}{column}"

    def _owner(self, column: Column) -> tuple[_Owner, str]:
        """Return whose a column in a key is, and its own name."""
        alias, name = split_name(column.name, self._owners)
        if not alias:
            raise whose_column(name, (side.alias for side in self.sides), column.position)
        return self._owners[alias], name


def whose_column(name: str, aliases: Iterable[str], position: Position | None) -> QueryError:
    """The error for a column that does not say whose it is."""
    choices = " or ".join(f"{alias}.{name}" for alias in aliases)
    return QueryError(f"whose column is {name!r}?", position=position, hint=f"write {choices}")


def matched(lookups: Sequence[Lookup]) -> list[Expr]:
    """Return what is true of the rows that inner lookups leave."""
    return [lookup.matched for lookup in lookups if lookup.how == "inner"]
