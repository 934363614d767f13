"""Window queries, frozen: equality is structural, so two spellings of one question are one value."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from weft.model.expression import Call, Column, Expr, Position, columns_of
from weft.model.window import Window


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate function over expressions of the row, under the name it has in the result."""

    function: str
    args: tuple[Expr, ...]
    alias: str
    position: Position | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.args)) or '*'})"


@dataclass(frozen=True, slots=True)
class Output:
    """A result column computed from aggregates (named by alias) and group-by columns."""

    alias: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class Lookup:
    """A lookup table beside the stream: every row meets the one row of the table with its keys, or none.

    ``keys`` pair an expression over the row with a column of the table; ``how`` is ``inner`` (a row that
    meets none is left out) or ``left`` (it has nulls there). Columns of the table are called
    ``alias.column``, or by their bare name where that is clear.
    """

    table: str
    keys: tuple[tuple[Expr, str], ...]
    how: str = "inner"
    alias: str = ""
    position: Position | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "alias", self.alias or self.table)

    @property
    def name(self) -> str:
        """The name before its columns in the rows: the table, and what it is looked up by.

        >>> Lookup("close", ((Column("symbol"), "symbol"), (Column("at"), "day"))).name
        'close[symbol, at = day]'
        """
        return f"{self.table}[{', '.join(map(_spelled, self.keys))}]"

    def column(self, name: str) -> str:
        """Return the name in the rows of a column of the table."""
        return f"{self.name}.{name}"

    @property
    def matched(self) -> Expr:
        """The condition that a row met one of the table: a key of a table is never null."""
        return Call("not", (Call("is_null", (Column(self.column(self.keys[0][1])),)),))

    def __str__(self) -> str:
        table = self.table if self.alias == self.table else f"{self.table} AS {self.alias}"
        on = " AND ".join(f"{key} = {self.alias}.{column}" for key, column in self.keys)
        return f"{self.how.upper()} JOIN {table} ON {on}"


def _spelled(pair: tuple[Expr, str]) -> str:
    key, column = pair
    return column if key == Column(column) else f"{key} = {column}"


@dataclass(frozen=True, slots=True)
class Query:
    """One continuous question: source, predicate, window, group-by, aggregates.

    ``outputs`` is set where a result column is computed from aggregates, as in
    ``sum(a) / sum(b) AS ratio``; empty, the aggregates themselves are the result columns.
    ``having`` keeps only the result rows it is true for. ``time`` is the time column
    where the text names one. ``lookups`` are tables whose columns the query uses too; a column
    can then be called ``source.column``, and ``group_names`` say what the group-by columns are called in
    the result, which is by their own names where it is empty.
    """

    name: str
    source: str
    window: Window
    aggregates: tuple[Aggregate, ...]
    group_by: tuple[str, ...] = ()
    predicate: Expr | None = None
    outputs: tuple[Output, ...] = ()
    having: Expr | None = None
    time: str | None = None
    lookups: tuple[Lookup, ...] = ()
    group_names: tuple[str, ...] = ()
    group_positions: tuple[Position | None, ...] = field(default=(), compare=False, repr=False)

    def renamed(self, name: str) -> Query:
        """The same question under another name."""
        return replace(self, name=name)

    @property
    def streams(self) -> tuple[str, ...]:
        """The one stream that is read, as the streams of a join are."""
        return (self.source,)

    @property
    def tables(self) -> tuple[str, ...]:
        """The lookup tables that are read, each once."""
        return tuple(dict.fromkeys(lookup.table for lookup in self.lookups))

    @property
    def columns(self) -> frozenset[str]:
        """The columns this query reads, its time column apart."""
        expressions = [a for g in self.aggregates for a in g.args]
        expressions += [key for lookup in self.lookups for key, _ in lookup.keys]
        if self.predicate is not None:
            expressions.append(self.predicate)
        return frozenset(self.group_by).union(*(columns_of(e) for e in expressions))

    @property
    def keys(self) -> tuple[Column, ...]:
        """The group-by columns, each with its position where that is known."""
        positions = self.group_positions or (None,) * len(self.group_by)
        return tuple(map(Column, self.group_by, positions))

    @property
    def result_keys(self) -> tuple[str, ...]:
        """The names of the group-by columns in the result."""
        return self.group_names or self.group_by

    @property
    def result_columns(self) -> tuple[str, ...]:
        """The names of the result's columns, in order."""
        return (*self.result_keys, "window_start", "window_end", *self.result_values)

    @property
    def result_values(self) -> tuple[str, ...]:
        """The names of the result's columns that are no key and no time."""
        return tuple(value.alias for value in self.outputs or self.aggregates)


class Buildable(Protocol):
    """Something that gives a query when it is built, such as ``weft.query`` and ``weft.join``."""

    def build(self) -> Any:
        """Return the query; QueryError where something is missing or wrong."""
        ...
