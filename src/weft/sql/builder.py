"""A query built in Python, one clause at a time; expressions are SQL, read as in ``weft.sql``."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from weft.errors import QueryError
from weft.model.duration import parse_duration
from weft.model.query import Lookup, Query
from weft.model.window import Window
from weft.sql.assemble import Parts, Snippet, assemble
from weft.sql.reader import Reader
from weft.sql.snippet import snippet
from weft.sql.tables import Scope, plain_scope
from weft.sql.text import check_name


@dataclass(frozen=True)
class Joined:
    """A table to join, its keys not read yet."""

    table: str
    keys: tuple[tuple[Snippet, str], ...]
    how: str
    alias: str | None

    def read(self, scope: Scope) -> Lookup:
        """The join, taken into the scope."""
        before = scope.add(self.table, self.alias, None)
        keys = tuple((Reader(s.text, "on", before).read(s.node), column) for s, column in self.keys)
        return Lookup(self.table, keys, self.how, self.alias or self.table)


def joined(
    query: str, table: str, on: str | Sequence[str] | Mapping[str, str], how: str, alias: str | None
) -> Joined:
    """Return a table for a builder to join to the query of this name."""
    if how not in ("inner", "left"):
        raise QueryError(f"how must be 'inner' or 'left', not {how!r}", query=query, hint="write how='left'")
    names = [on] if isinstance(on, str) else on
    if isinstance(names, Mapping):
        keys = [(snippet(key, "on", query), column) for key, column in names.items()]
    else:
        shared = [(snippet(name, "on", query), name) for name in names]
        keys = [(s, s.node.name if isinstance(s.node, exp.Column) else name) for s, name in shared]
    if not keys:
        raise QueryError(
            f"nothing says which row of {table!r} to join", query=query, hint="write on='symbol'"
        )
    return Joined(table, tuple(keys), how, alias)


@dataclass(frozen=True)
class QueryBuilder:
    """A query in the making. Every step gives a new builder, so a half-built one can be shared.

    >>> trades = query("busy").source("trades").group_by("symbol").window("12 min", "5 min", time="ts")
    >>> busy = trades.where("volume > 500").aggregate(value="sum(price * volume)", top="max(price)").build()
    >>> busy.result_columns
    ('symbol', 'window_start', 'window_end', 'value', 'top')
    """

    name: str
    stream: str | None = None
    frame: Window | None = None
    time: str | None = None
    columns: tuple[str, ...] = ()
    predicates: tuple[Snippet, ...] = ()
    items: tuple[Snippet, ...] = ()
    conditions: tuple[Snippet, ...] = ()
    tables: tuple[Joined, ...] = ()

    def source(self, stream: str) -> QueryBuilder:
        """Name the stream."""
        return replace(self, stream=stream)

    def join(
        self,
        table: str,
        on: str | Sequence[str] | Mapping[str, str],
        *,
        how: str = "inner",
        alias: str | None = None,
    ) -> QueryBuilder:
        """Join a lookup table, whose columns can then be used as ``table.column`` or by their bare names.

        ``on`` is a column that both have, several of them, or what of the stream equals which column of the
        table; ``how`` is ``inner`` or ``left``.

        >>> new = query("new").source("trades").window("10 min").join("close", {"symbol": "sym"}, how="left")
        >>> print(new.aggregate(n="count(*)").where("close.cp IS NULL").build().lookups[0])
        LEFT JOIN close ON symbol = close.sym
        """
        return replace(self, tables=(*self.tables, joined(self.name, table, on, how, alias)))

    def where(self, predicate: str) -> QueryBuilder:
        """Keep only the rows a predicate is true for; several of them must all be true."""
        return replace(self, predicates=(*self.predicates, snippet(predicate, "where", self.name)))

    def group_by(self, *columns: str) -> QueryBuilder:
        """Add columns to group by."""
        return replace(self, columns=tuple(dict.fromkeys((*self.columns, *columns))))

    def window(
        self,
        range: str | datetime.timedelta,  # noqa: A002
        slide: str | datetime.timedelta | None = None,
        *,
        offset: str | datetime.timedelta = "0 s",
        ends_at_multiples: bool = False,
        time: str | None = None,
    ) -> QueryBuilder:
        """Set the window; without a slide it tumbles.

        Windows start at multiples of the slide plus the offset, as Spark's; with ``ends_at_multiples``
        they end there, as CQL's. ``time`` names the time column.

        >>> query("q").window("12 min", "5 min", ends_at_multiples=True).frame
        Window(range=720000000, slide=300000000, offset=180000000, rows=False)
        """
        try:
            size = parse_duration(range, "range")
            step = size if slide is None else parse_duration(slide, "slide")
            shift = parse_duration(offset, "offset", negative=True)
            frame = Window(size, step, shift - size if ends_at_multiples else shift)
        except QueryError as error:
            hint = error.hint or "write for example .window('12 min', '5 min')"
            raise QueryError(error.message, query=self.name, hint=hint) from None
        return replace(self, frame=frame, time=time)

    def rows(
        self,
        range: int,  # noqa: A002
        slide: int | None = None,
        *,
        offset: int = 0,
        time: str | None = None,
    ) -> QueryBuilder:
        """Set a window counted in rows of each group, in order of event time; without a slide it tumbles.

        It ends with every ``slide``-th row, counted from the ``offset``-th, and holds the newest ``range``.
        ``time`` names the time column.

        >>> query("q").rows(100, 10).frame
        Window(range=100, slide=10, offset=0, rows=True)
        """
        step = range if slide is None else slide
        for name, number in (("range", range), ("slide", step), ("offset", offset)):
            if not isinstance(number, int) or isinstance(number, bool):
                raise QueryError(
                    f"{name} must be a whole number of rows, not {number!r}",
                    query=self.name,
                    hint="write for example .rows(100, 10)",
                )
        try:
            frame = Window.ending_at_multiples(range, step, offset, rows=True)
        except QueryError as error:
            raise error.of(self.name) from None
        return replace(self, frame=frame, time=time)

    def aggregate(self, **items: str) -> QueryBuilder:
        """Add result columns, each an aggregate or an expression over aggregates, under its name."""
        read = (replace(snippet(s, alias, self.name), alias=alias) for alias, s in items.items())
        return replace(self, items=(*self.items, *read))

    def having(self, condition: str) -> QueryBuilder:
        """Keep only the result rows a condition is true for; several of them must all be true."""
        return replace(self, conditions=(*self.conditions, snippet(condition, "having", self.name)))

    def build(self) -> Query:
        """The query; raises QueryError where something is missing or wrong."""
        check_name(self.name)
        if not self.stream:
            raise QueryError("no source", query=self.name, hint="call .source('trades')")
        if self.frame is None:
            raise QueryError(
                "no window", query=self.name, hint="call .window('12 min', '5 min') or .rows(100, 10)"
            )
        scope = plain_scope(self.stream)
        try:
            lookups = [table.read(scope) for table in self.tables]
        except QueryError as error:
            raise error.of(self.name) from None
        parts = Parts(
            name=self.name,
            source=self.stream,
            window=self.frame,
            items=self.items,
            group_by=self.columns,
            where=self.predicates,
            having=self.conditions,
            time=self.time,
            tables=scope.names,
            lookups=lookups,
        )
        try:
            return assemble(parts)
        except QueryError as error:
            raise error.of(self.name) from None


def query(name: str) -> QueryBuilder:
    """Begin a query.

    >>> rows = query("rows").source("trades").window("1 min").aggregate(rows="count(*)").build()
    >>> rows.aggregates[0].function
    'count_star'
    """
    return QueryBuilder(check_name(name))
