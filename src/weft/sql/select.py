"""One SELECT statement to a Query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from sqlglot import Token, TokenType, exp

from weft.errors import QueryError
from weft.model.bounds import MAX_GROUP_COLUMNS
from weft.model.expression import Position
from weft.model.query import Lookup, Query
from weft.sql import windows
from weft.sql.assemble import Parts, Snippet, assemble, window_column
from weft.sql.parser import check_tokens, parse, position_of
from weft.sql.reader import Reader
from weft.sql.tables import Scope, plain_scope, read_lookups
from weft.sql.text import QueryText, Statement
from weft.sql.whitelist import HINTS

_CLAUSES = frozenset(("expressions", "from_", "joins", "where", "group", "having"))
# Clauses of SELECT that are refused: the words they begin with, and what to do instead.
_REFUSED_CLAUSES: dict[str, tuple[tuple[str, ...], str]] = {
    "distinct": (("DISTINCT",), "leave it out: a group has one row per window"),
    "order": (("ORDER BY",), "sort the results where you read them"),
    "sort": (("SORT BY",), "sort the results where you read them"),
    "limit": (("LIMIT", "FETCH"), "cut the results where you read them"),
    "offset": (("OFFSET",), "cut the results where you read them"),
    "laterals": (("LATERAL",), "query one stream at a time"),
    "qualify": (("QUALIFY",), "use HAVING"),
    "windows": (("WINDOW",), windows.REMEDY),
    "into": (("INTO",), "choose a sink when you run the query"),
}


def read_statement(statement: Statement) -> Query:
    """The query of a statement; every error has its position in the whole text.

    >>> from weft.sql.text import split
    >>> read_statement(split("SELECT count(*) FROM trades [RANGE '1 min']")[0]).window.range
    60000000
    """
    text, tokens = statement.text, statement.tokens
    first = tokens[0]
    if first.token_type is not TokenType.SELECT:
        raise QueryError(
            f"{first.text.upper()} is not supported",
            position=text.at(first),
            hint="a query begins with SELECT",
        )
    check_tokens(text, tokens)
    rest, clauses = windows.cut(text, tokens)
    _check_order(text, rest)
    tree = parse(text, rest)
    _refuse(text, tree, _CLAUSES, rest)
    scope = _source(text, tree, rest)
    where, having = (tree.args[name].this if tree.args.get(name) else None for name in ("where", "having"))
    conditions = [where] if where is not None else []
    lookups: list[Lookup] = []
    if tree.args.get("joins"):
        lookups, conditions = read_lookups(text, tree.args["joins"], scope, where, rest)
    items = _items(text, tree, rest)
    grouping = _Grouping(text, tree, scope.names, items, rest)
    clauses += grouping.clauses
    clause = _one_window(text, clauses, rest, grouping)
    parts = Parts(
        name=statement.name,
        source=scope.source,
        window=clause.window,
        items=items,
        group_by=grouping.columns,
        where=[Snippet(text, condition) for condition in conditions],
        having=[Snippet(text, having)] if having is not None else [],
        time=clause.time,
        tables=scope.names,
        lookups=lookups,
        group_positions=grouping.positions,
    )
    try:
        return assemble(parts)
    except QueryError as error:
        position = error.position or text.at(first)
        raise QueryError(error.message, position=position, hint=error.hint) from None


def _check_order(text: QueryText, tokens: Sequence[Token]) -> None:
    """Refuse clauses in another order than SQL's, which sqlglot would take in any."""
    found = [t for word in ("FROM", "WHERE", "GROUP BY", "HAVING") if (t := _find(tokens, (word,)))]
    for first, second in pairwise(found):
        if first.start > second.start:
            message = f"{second.text.upper()} comes before {first.text.upper()}"
            raise QueryError(message, position=text.at(second), hint="put it after")


def _refuse(text: QueryText, node: exp.Expr, allowed: frozenset[str], tokens: Sequence[Token]) -> None:
    """Refuse the clauses of a tree that are not read."""
    for name, value in node.args.items():
        if name in allowed or value is None or value == [] or value is False:
            continue
        words, hint = _REFUSED_CLAUSES.get(name, ((name.strip("_").upper(),), "leave it out"))
        token = _find(tokens, words)
        child = value[0] if isinstance(value, list) else value
        position = position_of(text, child if isinstance(child, exp.Expr) else node, text.at(tokens[0]))
        raise QueryError(
            f"{words[0]} is not supported", position=text.at(token) if token else position, hint=hint
        )


def _find(tokens: Sequence[Token], words: tuple[str, ...]) -> Token | None:
    """The first token with one of these words, outside parentheses; a comma only after FROM."""
    depth, after = 0, windows.from_clause(tokens) or 0
    for number, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0 and token.text.upper() in words and (token.text != "," or number > after):
            return token
    return None


def _source(text: QueryText, tree: exp.Select, tokens: Sequence[Token]) -> Scope:
    """The stream, and the names by which columns may refer to it."""
    clause = tree.args.get("from_")
    if clause is None:
        raise QueryError("no FROM clause", position=text.at(tokens[0]), hint=windows.REMEDY)
    table, start = clause.this, windows.from_clause(tokens)
    position = text.at(tokens[start + 1]) if start is not None else position_of(text, clause)
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise QueryError(
            "FROM takes the name of a stream",
            position=position,
            hint="write a query of its own for a subquery",
        )
    if any(not _is_name(text, p) for p in table.parts):
        raise QueryError(
            "not the name of a stream", position=position, hint="write it without quotes or in ``"
        )
    _refuse(text, table, frozenset(("this", "db", "catalog", "alias")), tokens)
    name = ".".join(p.name for p in table.parts)
    alias = table.args.get("alias")
    if alias is None:
        return plain_scope(name)
    if not _is_name(text, alias.this) or alias.args.get("columns"):
        raise QueryError(
            "the alias of the stream is not a name", position=position, hint="write FROM trades AS t"
        )
    return Scope(name, (alias.name,))


def _items(text: QueryText, tree: exp.Select, tokens: Sequence[Token]) -> list[Snippet]:
    """The SELECT list; an item without a name is named after its text."""
    if not tree.expressions:
        raise QueryError("SELECT without columns", position=text.at(tokens[0]), hint="select an aggregate")
    spans = list(windows.split_list(tokens[1 : windows.from_clause(tokens)]))
    if len(spans) != len(tree.expressions):
        raise QueryError(
            "the SELECT list cannot be read", position=text.at(tokens[0]), hint="check its commas"
        )
    items = []
    for node, span in zip(tree.expressions, spans):
        position, alias = text.at(span[0]), None
        if isinstance(node, exp.Alias):
            if not _is_name(text, node.args["alias"]):
                raise QueryError("AS takes a name", position=position, hint="write sum(price) AS total")
            node, alias = node.this, node.alias
        items.append(Snippet(text, node, alias, _default_name(node) or text.source(span), position))
    return items


def _is_name(text: QueryText, node: exp.Expr) -> bool:
    """Return whether a tree is a name, and not a string in the place of one."""
    return isinstance(node, exp.Identifier) and bool(node.name) and text.text[node.meta["start"]] != "'"


def _default_name(node: exp.Expr) -> str | None:
    """``sum_price`` for ``sum(price)``, ``count`` for ``count(*)``; None where the text is the name."""
    if isinstance(node, exp.Column):
        return node.name
    if not isinstance(node, exp.Anonymous):
        return None
    plain = [a for a in node.expressions if isinstance(a, exp.Column) and isinstance(a.this, exp.Identifier)]
    if plain and len(plain) == len(node.expressions):
        return "_".join((node.name.lower(), *(a.name for a in plain)))
    counts = node.name.lower() == "count" and any(isinstance(a, exp.Star) for a in node.expressions)
    return "count" if counts else None


def check_grouping(text: QueryText, tree: exp.Select) -> None:
    """Refuse a GROUP BY of more columns than it may have."""
    columns = tree.args["group"].expressions
    if len(columns) > MAX_GROUP_COLUMNS + 1:  # one may be the window
        raise QueryError(
            f"GROUP BY has {len(columns):,} columns, and the most is {MAX_GROUP_COLUMNS}",
            position=position_of(text, columns[MAX_GROUP_COLUMNS]),
            hint="group by fewer, or join a table that has them as one",
        )


class _Grouping:
    """GROUP BY: the columns, and the window where it names one."""

    def __init__(
        self,
        text: QueryText,
        tree: exp.Select,
        tables: Mapping[str, str],
        items: Sequence[Snippet],
        tokens: Sequence[Token],
    ) -> None:
        self.text, self.items = text, items
        self.reader = Reader(text, "GROUP BY", tables)
        self.columns: list[str] = []
        self.positions: list[Position | None] = []
        self.window_columns: set[str] = set()
        self.clauses: list[windows.Clause] = []
        self.position = text.at(_find(tokens, ("GROUP BY",)) or tokens[0])
        group = tree.args.get("group")
        if group is None:
            return
        check_grouping(text, tree)
        plain = all(k == "expressions" or v is None or v == [] for k, v in group.args.items())
        if not plain or not group.expressions:
            raise self._error(None, "GROUP BY takes a list of columns")
        for node in group.expressions:
            self._add(node.unnest())

    def _add(self, node: exp.Expr) -> None:
        if isinstance(node, exp.Literal) and not node.is_string:
            node = self._ordinal(node)
        if isinstance(node, exp.Anonymous) and node.name.lower() == "window":
            time = self.reader.column_name(node.expressions[0]) if node.expressions else None
            self.clauses.append(windows.from_call(self.text, node, time))
        elif column := window_column(node):
            self.window_columns.add(column)
        elif (name := self.reader.column_name(node)) is None:
            hint = HINTS.get(node.name.lower()) if isinstance(node, exp.Anonymous) else None
            raise self._error(node, "GROUP BY takes columns, not expressions", hint)
        elif name not in self.columns:
            self._check_alias(node, name)
            self.columns.append(name)
            self.positions.append(self.reader.position(node))

    def _ordinal(self, node: exp.Literal) -> exp.Expr:
        number = int(node.name) if node.name.isdecimal() and len(node.name) < 9 else 0
        if not 1 <= number <= len(self.items):
            raise self._error(node, f"GROUP BY {node.name[:20]}: there is no such column in the SELECT list")
        return self.items[number - 1].node.unnest()

    def _check_alias(self, node: exp.Expr, name: str) -> None:
        for item in self.items:
            if item.alias == name and self.reader.column_name(item.node) != name:
                raise self._error(
                    node, f"GROUP BY takes columns, and {name!r} is the name of a result column"
                )

    def _error(self, node: exp.Expr | None, message: str, hint: str | None = None) -> QueryError:
        hint = hint or "group by columns; compute others before the stream reaches the query"
        return QueryError(message, position=position_of(self.text, node, self.position), hint=hint)


def _one_window(
    text: QueryText, clauses: list[windows.Clause], tokens: Sequence[Token], grouping: _Grouping
) -> windows.Clause:
    if not clauses:
        raise QueryError("the query has no window", position=text.at(tokens[0]), hint=windows.REMEDY)
    if len(clauses) > 1:
        second: Position = max(c.position for c in clauses)
        raise QueryError("a second window", position=second, hint="write one query per window")
    clause = clauses[0]
    if clause.flink and "window" not in grouping.window_columns:
        missing = [c for c in ("window_start", "window_end") if c not in grouping.window_columns]
        if missing:
            raise QueryError(
                f"the query has a window but does not group by {' and '.join(missing)}",
                position=clause.position,
                hint="add GROUP BY window_start, window_end",
            )
    return clause
