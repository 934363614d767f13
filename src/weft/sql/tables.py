"""Lookup tables beside the stream: the JOINs of a FROM clause, and the names of columns beside them.

There is no schema yet. Columns keep the name of their table before them (``close.cp``, ``trades.price``), or
none; which table a bare name is of is found when the schemas are known, in ``weft.operators.lookups.bind``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot import Token, exp

from weft.errors import QueryError
from weft.model.expression import Column, Expr, Position, split_name
from weft.model.query import Lookup
from weft.sql.parser import position_of
from weft.sql.reader import Reader
from weft.sql.text import QueryText

_REMEDY = "write JOIN close ON trades.symbol = close.symbol"
_STREAMS_REMEDY = (
    "a table is joined by equalities, as in a.symbol = close.symbol; a stream has a [RANGE '1 min']"
)
_REFUSED_KINDS = {
    "RIGHT": "write JOIN or LEFT JOIN: rows of a table that no row of the stream meets are in no window",
    "FULL": "write JOIN or LEFT JOIN: rows of a table that no row of the stream meets are in no window",
    "SEMI": "write JOIN: a row of the stream never meets two rows of a table",
    "ANTI": "write LEFT JOIN ..., and WHERE close.symbol IS NULL",
    "NATURAL": "name the columns, as in JOIN close USING (symbol)",
}


@dataclass
class Scope:
    """The stream and the tables of one FROM clause.

    ``names`` are what may stand before a column, in small letters, and what a column so called is called
    from then on.

    >>> scope = Scope("trades", ("t",))
    >>> scope.names
    {'t': ''}
    >>> scope.add("close", "c", None)
    {'t': 'trades.'}
    >>> scope.names
    {'t': 'trades.', 'c': 'c.'}
    """

    source: str
    called: tuple[str, ...]
    names: dict[str, str] = field(init=False)
    remedy: str = _REMEDY

    def __post_init__(self) -> None:
        self.names = dict.fromkeys((name.lower() for name in self.called), "")

    @classmethod
    def of_streams(cls, aliases: Iterable[str]) -> Scope:
        """Return the scope of several streams, whose columns keep their alias."""
        scope = cls("", (), remedy=_STREAMS_REMEDY)
        scope.names = {alias.lower(): f"{alias}." for alias in aliases}
        return scope

    def add(self, table: str, alias: str | None, position: Position | None) -> dict[str, str]:
        """Take in a table under its alias, or under its own name; what was known before it."""
        called = {alias.lower()} if alias else {table.lower(), table.lower().rpartition(".")[2]}
        if twice := called & (self.names.keys() | {self.source.lower()}):
            raise QueryError(
                f"two tables are called {min(twice)!r}",
                position=position,
                hint=f"give one of them another name, as in {table} AS t2",
            )
        before = {name: prefix or f"{self.source}." for name, prefix in self.names.items()}
        self.names = before | dict.fromkeys(called, f"{alias or table}.")
        return before


def plain_scope(source: str) -> Scope:
    """The scope of a stream without an alias."""
    return Scope(source, tuple(dict.fromkeys((source, source.rpartition(".")[2]))))


def read_lookups(
    text: QueryText, nodes: Sequence[exp.Join], scope: Scope, where: exp.Expr | None, tokens: Sequence[Token]
) -> tuple[list[Lookup], list[exp.Expr]]:
    """The tables that are joined, all taken into the scope, and what of WHERE is still to be tested.

    A table after a comma is joined by the equalities in WHERE that name its columns.
    """
    conditions = list(_conjuncts(where)) if where is not None else []
    tables = [
        _FromTable.of(text, node, scope, position_of(text, node.this) or text.at(tokens[0])) for node in nodes
    ]
    lookups = []
    for table in tables:
        using = table.node.args.get("using")
        reader = Reader(text, "ON", scope.names)
        if using:
            keys: list[tuple[Expr, str]] = [(Column(n.name, position_of(text, n)), n.name) for n in using]
        elif table.how == "cross":
            equal = {
                id(c): pair
                for c in conditions
                if (pair := table.equality(reader, c)) and pair[0].find(exp.Column)  # no constants
            }
            conditions = [c for c in conditions if id(c) not in equal]
            keys = [(table.before.read(key), column) for key, column in equal.values()]
        else:
            keys = [table.key(reader, condition) for condition in _conjuncts(table.node.args["on"])]
        if not keys:
            raise QueryError(
                f"nothing says which row of {table.table!r} to join",
                position=table.position,
                hint=scope.remedy,
            )
        how = "inner" if table.how == "cross" else table.how
        lookups.append(Lookup(table.table, tuple(keys), how, table.alias, table.position))
    return lookups, conditions


def group_names(group_by: Sequence[str], lookups: Sequence[Lookup], source: str) -> tuple[str, ...]:
    """Return the names of group-by columns in the result: bare ones, with the table's where two clash.

    >>> close = Lookup("close", ((Column("symbol"), "symbol"),))
    >>> group_names(["trades.symbol", "close.symbol", "close.sector"], [close], "trades")
    ('symbol', 'close_symbol', 'sector')
    """
    if not lookups:
        return tuple(group_by)
    prefixes = {source: "", **{lookup.alias: f"{lookup.alias}_" for lookup in lookups}}
    split = [split_name(name, prefixes) for name in group_by]
    count = Counter(name for _, name in split)
    return tuple(prefixes.get(table, "") + name if count[name] > 1 else name for table, name in split)


@dataclass(frozen=True)
class _FromTable:
    """A table in FROM; ``before`` reads what was known before it."""

    node: exp.Join
    table: str
    alias: str
    how: str
    before: Reader
    position: Position

    @classmethod
    def of(cls, text: QueryText, node: exp.Join, scope: Scope, position: Position) -> _FromTable:
        how = _how(text, node, position)
        table, alias = _table(node, position)
        before = Reader(text, "ON", scope.add(table, alias, position))
        return cls(node, table, alias or table, how, before, position)

    def key(self, reader: Reader, node: exp.Expr) -> tuple[Expr, str]:
        """One condition of ON: what the row is looked up by, and the column of the table."""
        pair = self.equality(reader, node)
        if pair is None:
            raise reader.error(
                node,
                f"ON takes equalities, each of something of the stream with a column of {self.alias!r}",
                f"write trades.symbol = {self.alias}.symbol, and put other conditions in WHERE",
            )
        return self.before.read(pair[0]), pair[1]

    def equality(self, reader: Reader, node: exp.Expr) -> tuple[exp.Expr, str] | None:
        """The sides of ``something known before = table.column``, whichever comes first."""
        if isinstance(node, exp.EQ):
            for key, column in ((node.this, node.expression), (node.expression, node.this)):
                of_table = _prefix(reader, column.unnest()) == f"{self.alias}."
                prefixes = {"", *self.before.tables.values()}
                if of_table and all(_prefix(reader, c) in prefixes for c in key.find_all(exp.Column)):
                    return key, column.unnest().name
        return None


def _prefix(reader: Reader, node: exp.Expr) -> str | None:
    """Return the prefix of a column, which says whose it is; None where a tree is no column."""
    name = reader.column_name(node)
    return None if name is None else name.removesuffix(node.name)


def _how(text: QueryText, node: exp.Join, position: Position) -> str:
    """``inner``, ``left``, or ``cross`` for a table after a comma."""
    words = [str(node.args[part]).upper() for part in ("method", "side", "kind") if node.args.get(part)]
    for word in words:
        if word in _REFUSED_KINDS:
            raise QueryError(
                f"{' '.join(words)} JOIN is not supported", position=position, hint=_REFUSED_KINDS[word]
            )
    readable = all(not value or name in _JOIN_PARTS for name, value in node.args.items())
    if not readable or not set(words) <= {"LEFT", "OUTER", "INNER", "CROSS"}:
        raise QueryError(
            f"this {' '.join((*words, 'JOIN'))} is not supported", position=position, hint=_REMEDY
        )
    if "CROSS" in words:
        return "cross"
    if not node.args.get("using") and not position_of(text, node.args.get("on")):
        raise QueryError("a JOIN without ON", position=position, hint=_REMEDY)
    return "left" if "LEFT" in words else "inner"


_JOIN_PARTS = ("this", "method", "side", "kind", "on", "using")


def _table(node: exp.Join, position: Position) -> tuple[str, str | None]:
    table = node.this
    plain = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier)
    if not plain or any(v for k, v in table.args.items() if k not in ("this", "db", "catalog", "alias")):
        raise QueryError("JOIN takes the name of a table", position=position, hint=_REMEDY)
    alias = table.args.get("alias")
    if alias is not None and (not isinstance(alias.this, exp.Identifier) or alias.args.get("columns")):
        raise QueryError(
            "the alias of the table is not a name", position=position, hint="write JOIN close AS c"
        )
    return ".".join(part.name for part in table.parts), alias.name if alias is not None else None


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    waiting = [node]
    while waiting:
        term = waiting.pop().unnest()
        if isinstance(term, exp.And):
            waiting += [term.expression, term.this]
        else:
            yield term
