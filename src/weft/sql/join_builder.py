"""A join built in Python, one clause at a time; expressions are SQL, read as in ``weft.sql``."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from weft.errors import QueryError
from weft.model.duration import parse_duration
from weft.model.join import JoinQuery, Side
from weft.model.window import Window
from weft.sql.assemble import Snippet
from weft.sql.builder import Joined, joined
from weft.sql.join_parts import JoinParts, Names, assemble_join
from weft.sql.join_scope import JoinScope
from weft.sql.snippet import snippet
from weft.sql.text import check_name


@dataclass(frozen=True)
class JoinBuilder:
    """A join in the making. Every step gives a new builder, so a half-built one can be shared.

    >>> hot = join("hot").stream("temperature", "60 min", alias="t").stream("humidity", "30 min", alias="h")
    >>> hot = hot.where("t.location = h.location").where("t.value > 30")
    >>> hot.select(location="t.location", humidity="h.value").build().result_columns
    ('ts', 'location', 'humidity')
    >>> counted = hot.group_by("t.location").window("10 min", "5 min").aggregate(n="count(*)").build()
    >>> counted.result_columns
    ('location', 'window_start', 'window_end', 'n')
    """

    name: str
    sides: tuple[Side, ...] = ()
    predicates: tuple[str, ...] = ()
    items: tuple[tuple[str, str], ...] = ()
    columns: tuple[str, ...] = ()
    frame: Window | None = None
    conditions: tuple[str, ...] = ()
    tables: tuple[Joined, ...] = ()

    def stream(
        self,
        stream: str,
        range: str | datetime.timedelta,  # noqa: A002
        *,
        alias: str | None = None,
    ) -> JoinBuilder:
        """Add a stream: how long its rows wait for those of the others, and whose its columns are called."""
        try:
            called = (alias or stream.rpartition(".")[2]).lower()
            if any(side.alias == called for side in self.sides):
                raise QueryError(f"two streams are called {called!r}", hint="give one an alias=")
            side = Side(stream, called, parse_duration(range, "range"))
        except QueryError as error:
            raise error.of(self.name) from None
        return replace(self, sides=(*self.sides, side))

    def join(
        self,
        table: str,
        on: str | Sequence[str] | Mapping[str, str],
        *,
        how: str = "inner",
        alias: str | None = None,
    ) -> JoinBuilder:
        """Look up a table beside one of the streams; its columns can then be used as ``table.column``.

        ``on`` is a column that the table has too, its stream before it (``"a.id"``), several of them, or what
        of the stream equals which column of the table; ``how`` is ``inner`` or ``left``.

        >>> named = join("named").stream("a", "1 min").stream("b", "2 min").where("a.k = b.k")
        >>> named = named.join("names", {"a.id": "key"}, how="left", alias="n").select(title="n.title")
        >>> print(named.build().lookups[0][0])
        LEFT JOIN names AS n ON id = n.key
        """
        return replace(self, tables=(*self.tables, joined(self.name, table, on, how, alias)))

    def where(self, condition: str) -> JoinBuilder:
        """Join only rows that a condition is true for; several of them must all be true."""
        return replace(self, predicates=(*self.predicates, condition))

    def select(self, **items: str) -> JoinBuilder:
        """Add result columns, each an expression over the joined rows, under its name."""
        return replace(self, items=(*self.items, *items.items()))

    def group_by(self, *columns: str) -> JoinBuilder:
        """Add columns to group the results by."""
        return replace(self, columns=tuple(dict.fromkeys((*self.columns, *columns))))

    def window(
        self,
        range: str | datetime.timedelta,  # noqa: A002
        slide: str | datetime.timedelta | None = None,
        *,
        offset: str | datetime.timedelta = "0 s",
    ) -> JoinBuilder:
        """Aggregate the results in windows of their time; without a slide they tumble."""
        try:
            size = parse_duration(range, "range")
            step = size if slide is None else parse_duration(slide, "slide")
            frame = Window(size, step, parse_duration(offset, "offset", negative=True))
        except QueryError as error:
            raise error.of(self.name) from None
        return replace(self, frame=frame)

    def aggregate(self, **items: str) -> JoinBuilder:
        """Add result columns, each an aggregate or an expression over aggregates, under its name."""
        return self.select(**items)

    def having(self, condition: str) -> JoinBuilder:
        """Keep only the result rows of the aggregation that a condition is true for."""
        return replace(self, conditions=(*self.conditions, condition))

    def build(self) -> JoinQuery:
        """The join; raises QueryError where something is missing or wrong."""
        check_name(self.name)
        if len(self.sides) < 2:
            raise QueryError("a join needs two streams", query=self.name, hint="call .stream(...) for each")
        if not self.items:
            raise QueryError(
                "the join selects nothing", query=self.name, hint="call .select(...) or .aggregate(...)"
            )
        if self.columns and self.frame is None:
            raise QueryError("GROUP BY without a window", query=self.name, hint="call .window('10 min')")
        grouped = self._snippets("group_by", self.columns)
        try:
            scope = JoinScope(self.sides)
            for table in self.tables:
                scope.add(table.read(scope.tables))
            names = Names(scope) if self.frame is None else Names.of(scope, grouped)
            for column in grouped:
                names.put(column.text, column.node)
            parts = JoinParts(
                name=self.name,
                scope=scope,
                items=[replace(snippet(e, a, self.name), alias=a) for a, e in self.items],
                where=self._snippets("where", self.predicates),
                names=names,
                having=self._snippets("having", self.conditions),
                group_by=[s.node.name for s in grouped],
                window=self.frame,
            )
            return assemble_join(parts)
        except QueryError as error:
            raise error.of(self.name) from None

    def _snippets(self, clause: str, sources: tuple[str, ...]) -> list[Snippet]:
        return [snippet(source, clause, self.name) for source in sources]


def join(name: str) -> JoinBuilder:
    """Begin a join.

    >>> join("pairs").stream("a", "1 min").stream("b", "2 min").select(x="a.x").build().sides[1].range
    120000000
    """
    return JoinBuilder(check_name(name))
