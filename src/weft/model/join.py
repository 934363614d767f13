"""Join queries: streams joined with streams over windows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from weft.errors import QueryError
from weft.model.bounds import MAX_DURATION
from weft.model.expression import Expr, Position
from weft.model.query import Buildable, Lookup, Output, Query


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

    ``lookups`` hold, for each side, the tables that its rows look up, one after the other (empty: no side has
    any). Their keys are over the columns of the side's rows, where those of a table are called by its lookup,
    as in ``names[id].title``; so they are in selections, and with the alias before them everywhere else. That
    rows met a table of an inner lookup is part of their side's selection.
    """

    name: str
    sides: tuple[Side, ...]
    selections: tuple[Expr | None, ...]
    conditions: tuple[Expr, ...]
    outputs: tuple[Output, ...]
    aggregate: Query | None = None
    lookups: tuple[tuple[Lookup, ...], ...] = ()

    def renamed(self, name: str) -> JoinQuery:
        """The same question under another name."""
        inner = None if self.aggregate is None else replace(self.aggregate, name=name, source=name)
        return replace(self, name=name, aggregate=inner)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that are joined, in the order of the sides."""
        return tuple(side.stream for side in self.sides)

    @property
    def tables(self) -> tuple[str, ...]:
        """The lookup tables that are read, each once."""
        return tuple(dict.fromkeys(lookup.table for lookups in self.lookups for lookup in lookups))

    @property
    def result_columns(self) -> tuple[str, ...]:
        """The names of the result's columns, in order."""
        if self.aggregate is not None:
            return self.aggregate.result_columns
        return (RESULT_TIME, *self.result_values)

    @property
    def result_keys(self) -> tuple[str, ...]:
        """The names of the result's columns that it is grouped by."""
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


def window_query(query: Query | Buildable | JoinQuery) -> Query:
    """The query itself, if it is one over windows."""
    if isinstance(query, JoinQuery):
        raise QueryError(
            "it joins streams, and this runs window queries over one",
            query=query.name,
            hint="give its streams by name, to weft.run or weft.stream: {stream: batches or source}",
        )
    return query if isinstance(query, Query) else query.build()


def built_query(query: Query | Buildable | JoinQuery) -> Query | JoinQuery:
    """Return the query itself, of any kind."""
    return query if isinstance(query, Query | JoinQuery) else query.build()
