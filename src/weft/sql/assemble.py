"""The parts of one question, from SQL or from the builder, to a Query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from sqlglot import exp

from weft.errors import QueryError
from weft.model.bounds import MAX_COLUMN_NAME, MAX_RESULT_COLUMNS
from weft.model.expression import Column, Expr, Position
from weft.model.query import Aggregate, Lookup, Output, Query
from weft.model.window import Window
from weft.sql.reader import Reader, balanced
from weft.sql.tables import group_names
from weft.sql.text import QueryText

_WINDOW_COLUMNS = {
    "window": "window",
    "window.start": "window_start",
    "window.end": "window_end",
    "window_start": "window_start",
    "window_end": "window_end",
}


@dataclass(frozen=True)
class Snippet:
    """A tree and the text its positions are in; as a result column also its name.

    ``label`` names it in errors where the text is not the whole query.
    """

    text: QueryText
    node: exp.Expr
    alias: str | None = None
    default: str = ""
    position: Position | None = None
    label: str = ""


@dataclass
class Parts:
    """Everything that makes a query, before names are resolved."""

    name: str
    source: str
    window: Window
    items: Sequence[Snippet]
    group_by: Sequence[str] = ()
    where: Sequence[Snippet] = ()
    having: Sequence[Snippet] = ()
    time: str | None = None
    tables: Mapping[str, str] = field(default_factory=dict)
    lookups: Sequence[Lookup] = ()
    group_positions: Sequence[Position | None] = ()

    @cached_property
    def keys(self) -> dict[str, str]:
        """The names in the result of the group-by columns."""
        return dict(zip(self.group_by, group_names(self.group_by, self.lookups, self.source)))

    @property
    def names(self) -> dict[str, str]:
        """The same, with the names in the result, by which the columns can be called too."""
        return {called: called for called in self.keys.values()} | self.keys


def window_column(node: exp.Expr) -> str | None:
    """``window_start``, ``window_end`` or ``window`` where the tree is one of them, however spelled.

    >>> window_column(exp.column("start", table="window"))
    'window_start'
    """
    if not isinstance(node, exp.Column):
        return None
    return _WINDOW_COLUMNS.get(".".join(p.name for p in node.parts).lower())


def check_size(items: Sequence[Snippet]) -> None:
    """Refuse more result columns than a query may have, and names longer than they may be."""
    if len(items) > MAX_RESULT_COLUMNS:
        raise QueryError(
            f"the query selects {len(items):,} columns, and the most is {MAX_RESULT_COLUMNS:,}",
            position=items[MAX_RESULT_COLUMNS].position,
            hint="split it into several queries",
        )
    for item in items:
        if len(item.alias or item.default) > MAX_COLUMN_NAME:
            raise QueryError(
                f"the name of a result column is longer than {MAX_COLUMN_NAME:,} characters",
                position=item.position,
                hint="give it a shorter one with AS",
            )


def assemble(parts: Parts) -> Query:
    """The query of its parts: aggregates found, hidden ones named, expressions over them apart."""
    return _Assembly(parts).query()


@dataclass
class _Assembly:
    parts: Parts
    aggregates: list[Aggregate] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    hidden: list[Aggregate] = field(default_factory=list)

    def query(self) -> Query:
        parts = self.parts
        check_size(parts.items)
        predicate = _all([self._over_rows(w) for w in parts.where])
        items = [i for i in parts.items if not self._always_there(i)]
        self._check_names(items)
        # Plain aggregates first: an expression then refers to them instead of hiding a second copy.
        plain = {id(item): self._plain(item) for item in items}
        self.aggregates = [a for a in plain.values() if a is not None]
        for item in items:
            aggregate = plain[id(item)]
            alias = item.alias or item.default
            if aggregate is not None:
                self.outputs.append(Output(alias, Column(alias, aggregate.position)))
            else:
                self.outputs.append(Output(alias, self._over_results(item, "SELECT", {})))
        names = {o.alias: o.expr for o in self.outputs}
        having = _all([self._over_results(h, "HAVING", names) for h in parts.having])
        if not self.aggregates and not self.hidden:
            raise QueryError("the query has no aggregate", hint="select one, as in count(*) AS rows")
        if not self.outputs:
            raise QueryError("the query selects no aggregate", hint="select one, as in count(*) AS rows")
        computed = bool(self.hidden) or len(self.aggregates) < len(self.outputs)
        return Query(
            name=parts.name,
            source=parts.source,
            window=parts.window,
            aggregates=(*self.aggregates, *self.hidden),
            group_by=tuple(parts.group_by),
            predicate=predicate,
            outputs=tuple(self.outputs) if computed else (),
            having=having,
            time=parts.time,
            lookups=tuple(parts.lookups),
            group_positions=tuple(parts.group_positions),
            group_names=tuple(parts.keys.values()) if parts.lookups else (),
        )

    def _always_there(self, item: Snippet) -> bool:
        """Return whether an item is a column that every result of this query has, under its own name."""
        column = window_column(item.node)
        if column and item.alias not in (None, column):
            raise QueryError(
                f"{column} cannot be renamed to {item.alias!r}",
                position=item.position,
                hint="every result has window_start and window_end; leave out AS",
            )
        with named(item):
            name = column or Reader(item.text, "SELECT", self.parts.tables).column_name(item.node)
        called = self.parts.names.get(name or "")
        return bool(column) or (called is not None and item.alias in (None, called))

    def _check_names(self, items: Sequence[Snippet]) -> None:
        """Result columns differ by more than the case of letters, which Spark does not tell apart."""
        taken = {n.lower(): f"the group-by column {n!r}" for n in self.parts.keys.values()}
        taken |= {n: f"the column {n!r} of every result" for n in ("window_start", "window_end")}
        for item in items:
            if item.alias is None and isinstance(item.node, exp.Column):
                continue  # no result column: it is not grouped, and refused for that
            alias = item.alias or item.default
            if other := taken.get(alias.lower()):
                raise QueryError(
                    f"the result column {alias!r} has the name of {other}",
                    position=item.position,
                    hint="give it another name with AS",
                )
            taken[alias.lower()] = "another result column"

    def _plain(self, item: Snippet) -> Aggregate | None:
        """The aggregate that an item is, where it is nothing else."""
        reader = Reader(item.text, "SELECT", self.parts.tables)
        node = item.node.unnest()
        with named(item):
            call = reader.aggregate(node)
        return Aggregate(*call, item.alias or item.default, reader.position(node)) if call else None

    def _over_rows(self, snippet: Snippet) -> Expr:
        with named(snippet):
            return Reader(snippet.text, "WHERE", self.parts.tables).read(snippet.node)

    def _over_results(self, snippet: Snippet, clause: str, names: dict[str, Expr]) -> Expr:
        grouped: dict[str, Expr] = {n: Column(called) for n, called in self.parts.names.items()}
        with named(snippet):
            reader = Reader(snippet.text, clause, self.parts.tables, grouped | names, self._collect)
            return reader.read(snippet.node)

    def _collect(self, function: str, args: tuple[Expr, ...], position: Position | None) -> Expr:
        """The column that stands for an aggregate inside an expression."""
        for aggregate in (*self.aggregates, *self.hidden):
            if (aggregate.function, aggregate.args) == (function, args):
                return Column(aggregate.alias, position)
        if len(self.aggregates) + len(self.hidden) >= MAX_RESULT_COLUMNS:
            raise QueryError(
                f"the query has more than {MAX_RESULT_COLUMNS:,} aggregates",
                position=position,
                hint="split it into several queries",
            )
        items = {i.alias or i.default for i in self.parts.items}
        taken = items | set(self.parts.keys.values()) | {a.alias for a in self.hidden}
        number = 1
        while f"_{number}" in taken:
            number += 1
        self.hidden.append(Aggregate(function, args, f"_{number}", position))
        return Column(f"_{number}", position)


def _all(conditions: Sequence[Expr]) -> Expr | None:
    return balanced("and", conditions) if conditions else None


@contextmanager
def named(snippet: Snippet) -> Iterator[None]:
    """Say in which snippet an error is, where the text is not the whole query."""
    try:
        yield
    except QueryError as error:
        if not snippet.label:
            raise
        message = f"{snippet.label}: {error.message}"
        raise QueryError(message, position=error.position, hint=error.hint) from None
