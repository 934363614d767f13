"""The parts of a join, from SQL or from the builder, to a JoinQuery.

Every column says whose it is, ``t.value``; what is said of one stream alone becomes its selection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from weft.errors import QueryError
from weft.expr.check import operands
from weft.model.expression import Call, Column, Expr, columns_of, with_columns
from weft.model.join import RESULT_TIME, JoinQuery
from weft.model.query import Output, Query
from weft.model.window import Window
from weft.sql.assemble import Parts, Snippet, assemble, check_size, named
from weft.sql.join_scope import JoinScope, matched, whose_column
from weft.sql.parser import position_of
from weft.sql.reader import Reader
from weft.sql.text import QueryText

_AGGREGATED = "add GROUP BY window('10 min', '5 min'), or leave the aggregate out"


@dataclass
class JoinParts:
    """Everything that makes a join; with a ``window``, its aggregates by ``group_by``.

    ``names`` are those of the columns in ``items`` and ``having``.
    """

    name: str
    scope: JoinScope
    items: Sequence[Snippet]
    where: Sequence[Snippet]
    names: Names
    having: Sequence[Snippet] = ()
    group_by: Sequence[str] = ()
    window: Window | None = None


def assemble_join(parts: JoinParts) -> JoinQuery:
    """Return the join of its parts: selections apart from conditions, aggregates in a query of their own."""
    sides, plain = parts.scope.sides, Names(parts.scope)
    conjuncts: list[Expr] = []
    for snippet in parts.where:
        plain.put(snippet.text, snippet.node)
        with named(snippet):
            read = plain.placed(Reader(snippet.text, "WHERE").read(snippet.node))
        conjuncts += operands(read) if isinstance(read, Call) and read.function == "and" else [read]
    alone = [matched(lookups) for lookups in parts.scope.lookups]
    together = []
    for conjunct in conjuncts:
        about = {c.partition(".")[0] for c in columns_of(conjunct)}
        if len(about) == 1:
            at = next(n for n, side in enumerate(sides) if side.alias in about)
            alone[at].append(with_columns(conjunct, {c: c.partition(".")[2] for c in columns_of(conjunct)}))
        else:
            together.append(conjunct)
    selections = tuple(map(_all, alone))
    outputs, aggregate = _results(parts) if parts.window is None else _aggregated(parts)
    return JoinQuery(
        parts.name, tuple(sides), selections, tuple(together), outputs, aggregate, parts.scope.by_side
    )


def _all(conjuncts: Sequence[Expr]) -> Expr | None:
    """The conjuncts under AND, in one order however they were written, so that equal selections are one."""
    ordered = sorted(dict.fromkeys(conjuncts), key=str)
    conjunction: Expr | None = None
    for conjunct in ordered:
        conjunction = (
            conjunct if conjunction is None else Call("and", (conjunction, conjunct), conjunction.position)
        )
    return conjunction


def _results(parts: JoinParts) -> tuple[tuple[Output, ...], None]:
    """The columns of a join that is not aggregated."""
    if parts.having:
        raise QueryError("HAVING needs GROUP BY", position=parts.having[0].position, hint="use WHERE")
    check_size(parts.items)
    outputs: list[Output] = []
    taken = {RESULT_TIME: "the time of every result of a join"}
    for item in parts.items:
        parts.names.put(item.text, item.node)
        alias = item.alias or item.default
        with named(item):
            reader = Reader(item.text, "SELECT")
            if any(reader.aggregate(node) for node in item.node.walk()):
                raise QueryError(
                    "an aggregate over a join needs a window", position=item.position, hint=_AGGREGATED
                )
            outputs.append(Output(alias, parts.names.placed(reader.read(item.node))))
            if other := taken.get(alias.lower()):
                raise QueryError(
                    f"the result column {alias!r} has the name of {other}",
                    position=item.position,
                    hint="give it another name with AS",
                )
        taken[alias.lower()] = "another result column"
    return tuple(outputs), None


def _aggregated(parts: JoinParts) -> tuple[tuple[Output, ...], Query]:
    """The columns that the aggregates of a join read, and the query for these aggregates."""
    for item in parts.items:
        parts.names.put(item.text, item.node)
    aliases = frozenset(item.alias or item.default for item in parts.items)
    for condition in parts.having:
        parts.names.put(condition.text, condition.node, aliases)
    assert parts.window is not None
    query = assemble(
        Parts(
            name=parts.name,
            source=parts.name,
            window=parts.window,
            items=parts.items,
            group_by=parts.group_by,
            having=parts.having,
            time=RESULT_TIME,
        )
    )
    read = sorted(query.columns - {RESULT_TIME})
    return tuple(Output(name, parts.names.placed(Column(name))) for name in read), query


class Names:
    """The names of a join's columns: ``alias.column``, and of a grouped one its own name alone."""

    def __init__(self, scope: JoinScope, short: Mapping[str, str] | None = None) -> None:
        self.scope, self.aliases = scope, scope.called
        self.short, self.aggregated = dict(short or {}), short is not None
        self._places: dict[str, str] = {}  # what columns that have got their names are in joined rows

    @classmethod
    def of(cls, scope: JoinScope, group_by: Sequence[Snippet]) -> Names:
        """Return the names of a join grouped by these columns; two of one name keep their alias."""
        plain = cls(scope)
        grouped = {
            plain.name_of(s.text, s.node): s.node.name
            for s in group_by
            if isinstance(s.node, exp.Column) and s.node.table
        }
        bare = [last.lower() for last in grouped.values()]
        return cls(scope, {name: last for name, last in grouped.items() if bare.count(last.lower()) == 1})

    def put(self, text: QueryText, tree: exp.Expr, aliases: frozenset[str] = frozenset()) -> None:
        """Give the columns of a tree their names, in place; ``aliases`` are names already."""
        for column in list(tree.find_all(exp.Column)):
            if not isinstance(column.this, exp.Identifier) or column.meta.get("resolved"):
                continue
            if not column.table and column.name in aliases:
                continue
            name = self.name_of(text, column)
            identifier = exp.to_identifier(self.short.get(name, name), quoted=True)
            identifier.meta.update(column.this.meta)
            column.set("this", identifier)
            for qualifier in ("table", "db", "catalog"):
                column.set(qualifier, None)
            column.meta["resolved"] = True

    def placed(self, expr: Expr) -> Expr:
        """An expression over columns by the names that were put, over those of joined rows."""
        return with_columns(expr, self._places)

    def name_of(self, text: QueryText, column: exp.Column) -> str:
        """``alias.column`` of a column as it was written."""
        qualifier = ".".join(p.name for p in column.parts[:-1])
        own = (RESULT_TIME, "window_start", "window_end", "window") if self.aggregated else ()
        if not qualifier and column.name.lower() in own:
            return column.name.lower()
        if not qualifier:
            aliases = dict.fromkeys(self.aliases.values())
            raise whose_column(column.name, aliases, position_of(text, column))
        if qualifier.lower() == "window" and self.aggregated:
            return f"window_{column.name.lower()}"
        if qualifier.lower() not in self.aliases:
            kinds = "streams and tables" if self.scope.by_side else "streams"
            raise QueryError(
                f"unknown table {qualifier!r}",
                position=position_of(text, column),
                hint=f"the {kinds} here are {', '.join(dict.fromkeys(self.aliases.values()))}",
            )
        alias = self.aliases[qualifier.lower()]
        name = f"{alias}.{column.name}"
        self._places[self.short.get(name, name)] = self.scope.placed(alias, column.name)
        return name
