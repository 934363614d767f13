"""Expressions as frozen trees: columns, literals and calls; equality is structural."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Position: TypeAlias = tuple[int, int]
"""Line and column in the query's text, counted from 1."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the stream, or of a result where the expression is over results."""

    name: str
    position: Position | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant with its SQL type: boolean, bigint, double, string, timestamp, date or null."""

    value: bool | int | float | str | datetime.datetime | datetime.date | None
    type: str
    position: Position | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        if self.value is None:
            return "NULL"
        if self.type == "string":
            return "'" + str(self.value).replace("'", "''") + "'"
        if self.type in ("timestamp", "date"):
            return f"{self.type.upper()} '{self.value}'"
        return str(self.value).upper() if self.type == "boolean" else str(self.value)


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function of the whitelist applied to its arguments."""

    function: str
    args: tuple[Expr, ...]
    position: Position | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        name, args = self.function, [str(a) for a in self.args]
        if len(args) == 2 and (not name[0].isalpha() or name in ("and", "or", "like")):
            return "(" + f" {name.upper()} ".join(args) + ")"
        if name == "cast":
            return f"cast({args[0]} AS {args[1][1:-1]})"
        if name == "like" and len(args) == 3:
            return f"({args[0]} LIKE {args[1]} ESCAPE {args[2]})"
        if name == "in":
            return f"({args[0]} IN ({', '.join(args[1:])}))"
        return f"{name}({', '.join(args)})"


Expr: TypeAlias = Column | Literal | Call


def columns_of(expr: Expr) -> frozenset[str]:
    """The names of the columns an expression reads.

    >>> sorted(columns_of(Call("*", (Column("price"), Column("volume")))))
    ['price', 'volume']
    """
    if isinstance(expr, Column):
        return frozenset((expr.name,))
    if isinstance(expr, Call):
        return frozenset().union(*(columns_of(a) for a in expr.args))
    return frozenset()


def column_nodes(expr: Expr) -> Iterator[Column]:
    """Yield the columns of an expression as they stand in it, with their positions."""
    if isinstance(expr, Column):
        yield expr
    elif isinstance(expr, Call):
        for argument in expr.args:
            yield from column_nodes(argument)


def split_name(name: str, tables: Iterable[str]) -> tuple[str, str]:
    """The table that stands before a column, if any does, and the column.

    >>> split_name("close.cp", ["trades", "close"]), split_name("open.cp", ["trades", "close"])
    (('close', 'cp'), ('', 'open.cp'))
    """
    table = max((t for t in tables if name.startswith(f"{t}.")), key=len, default="")
    return table, name[len(table) + 1 :] if table else name


def with_columns(expr: Expr, names: Mapping[str, str]) -> Expr:
    """The expression over columns under other names; those not mentioned keep theirs.

    >>> print(with_columns(Call(">", (Column("t.value"), Column("limit"))), {"t.value": "value"}))
    (value > limit)
    """
    if isinstance(expr, Column):
        return Column(names.get(expr.name, expr.name), expr.position)
    if isinstance(expr, Call):
        return Call(expr.function, tuple(with_columns(a, names) for a in expr.args), expr.position)
    return expr
