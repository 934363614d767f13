"""The model everything else reads: frozen queries, windows, aggregates and expressions.

Nothing here computes; equality is structural, so two spellings of one question are one value.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from weft.bounds import MAX_DURATION, MAX_WINDOW_ROWS, MAX_WINDOWS_PER_ROW
from weft.errors import QueryError

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


def split_name(name: str, tables: Iterable[str]) -> tuple[str, str]:
    """The table that stands before a column, if any does, and the column.

    >>> split_name("close.cp", ["trades", "close"]), split_name("open.cp", ["trades", "close"])
    (('close', 'cp'), ('', 'open.cp'))
    """
    table = max((t for t in tables if name.startswith(f"{t}.")), key=len, default="")
    return table, name[len(table) + 1 :] if table else name


@dataclass(frozen=True, slots=True)
class Window:
    """Instance k is ``[offset + k*slide, offset + k*slide + range)``, in microseconds since the epoch.

    Or, where ``rows``, in rows of a group that satisfy the predicate, numbered from 0 in order of event time.

    >>> Window(range=12, slide=5, offset=-12).offset          # kept in [0, slide)
    3
    """

    range: int
    slide: int
    offset: int = 0
    rows: bool = False

    def __post_init__(self) -> None:
        unit, least, most = (
            ("rows", "1 row", "1e12 rows") if self.rows else ("µs", "1 microsecond", "100 years")
        )
        for name in ("range", "slide"):
            if getattr(self, name) <= 0:
                raise QueryError(
                    f"the window's {name} must be positive, not {getattr(self, name)} {unit}",
                    hint=f"give a {name} of at least {least}",
                )
            if getattr(self, name) > (MAX_WINDOW_ROWS if self.rows else MAX_DURATION):
                raise QueryError(
                    f"the window's {name} is longer than {most}",
                    hint=f"give a shorter {name}",
                )
        if self.range // self.slide > MAX_WINDOWS_PER_ROW:
            raise QueryError(
                f"each {'row' if self.rows else 'instant'} would be in {self.range // self.slide:,} windows "
                "(range / slide)",
                hint=f"the most is {MAX_WINDOWS_PER_ROW:,}: take a longer slide or a shorter range",
            )
        object.__setattr__(self, "offset", self.offset % self.slide)

    @classmethod
    def ending_at_multiples(cls, range: int, slide: int, offset: int = 0, rows: bool = False) -> Window:
        """The window of the papers and of CQL, whose instances *end* at multiples of the slide."""
        return cls(range, slide, offset - range, rows)


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
class TableJoin:
    """A static table beside the stream: every row meets the one row of the table with its keys, or none.

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

    def __str__(self) -> str:
        named = self.table if self.alias == self.table else f"{self.table} AS {self.alias}"
        on = " AND ".join(f"{key} = {self.alias}.{column}" for key, column in self.keys)
        return f"{self.how.upper()} JOIN {named} ON {on}"


@dataclass(frozen=True, slots=True)
class Query:
    """One continuous question: source, predicate, window, group-by, aggregates.

    ``outputs`` is set where a result column is computed from aggregates, as in
    ``sum(a) / sum(b) AS ratio``; empty, the aggregates themselves are the result columns.
    ``having`` keeps only the result rows it is true for. ``time`` is the time column
    where the text names one. ``joins`` are static tables whose columns the query uses too; a column
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
    joins: tuple[TableJoin, ...] = ()
    group_names: tuple[str, ...] = ()
    group_positions: tuple[Position | None, ...] = field(default=(), compare=False, repr=False)

    def renamed(self, name: str) -> Query:
        """The same question under another name."""
        return replace(self, name=name)

    @property
    def columns(self) -> frozenset[str]:
        """The columns this query reads, its time column apart."""
        expressions = [a for g in self.aggregates for a in g.args]
        expressions += [key for join in self.joins for key, _ in join.keys]
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
        """What the group-by columns are called in the result."""
        return self.group_names or self.group_by

    @property
    def result_columns(self) -> tuple[str, ...]:
        """The names of the result's columns, in order."""
        return (*self.result_keys, "window_start", "window_end", *self.result_values)

    @property
    def result_values(self) -> tuple[str, ...]:
        """The names of the result's columns that are no key and no time."""
        return tuple(value.alias for value in self.outputs or self.aggregates)


@dataclass(frozen=True, slots=True)
class Side:
    """One stream of a join: what its columns are called there, and how long its rows wait for the others'."""

    stream: str
    alias: str
    range: int
    position: Position | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.range <= MAX_DURATION:
            raise QueryError(
                f"the range of {self.alias!r} must be positive and at most 100 years, not {self.range} µs",
                position=self.position,
                hint="write [RANGE '60 min'] behind the stream",
            )


@dataclass(frozen=True, slots=True)
class JoinQuery:
    """One continuous join of two or more streams, in windows of event time.

    Rows join if every condition is TRUE for them and, counted from the latest of them, each is younger than
    its stream's range. The result's time, the column ``ts``, is that of the latest.

    ``selections`` hold, for each side, what concerns its rows alone, over the stream's own columns. In
    ``conditions`` and ``outputs`` columns are called ``alias.column``. ``aggregate`` is a query over the
    results, where the join was asked for its windowed aggregates; its columns are then the outputs.
    """

    name: str
    sides: tuple[Side, ...]
    selections: tuple[Expr | None, ...]
    conditions: tuple[Expr, ...]
    outputs: tuple[Output, ...]
    aggregate: Query | None = None

    def renamed(self, name: str) -> JoinQuery:
        """The same question under another name."""
        inner = None if self.aggregate is None else replace(self.aggregate, name=name, source=name)
        return replace(self, name=name, aggregate=inner)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that are joined, in the order of the sides."""
        return tuple(side.stream for side in self.sides)

    @property
    def result_columns(self) -> tuple[str, ...]:
        """The names of the result's columns, in order."""
        if self.aggregate is not None:
            return self.aggregate.result_columns
        return (RESULT_TIME, *self.result_values)

    @property
    def result_keys(self) -> tuple[str, ...]:
        """What its results are grouped by."""
        return () if self.aggregate is None else self.aggregate.result_keys

    @property
    def result_values(self) -> tuple[str, ...]:
        """The names of the result's columns that are no key and no time."""
        if self.aggregate is not None:
            return self.aggregate.result_values
        return tuple(output.alias for output in self.outputs)


RESULT_TIME = "ts"
"""The column of a join's results that holds their time."""


def time_column(columns: Iterable[str]) -> str:
    """The column of results that says when they are from: of windows their end, of joined rows their time.

    >>> time_column(["symbol", "window_start", "window_end", "n"]), time_column(["ts", "n"])
    ('window_end', 'ts')
    """
    return "window_end" if "window_end" in columns else RESULT_TIME


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
