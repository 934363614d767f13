"""A join of streams, each with a window of its own: ``FROM trades t [RANGE '60 min'], quotes q [...]``.

What is joined to them without a window is a lookup table beside one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import Token, TokenType, exp

from weft.errors import QueryError
from weft.model.expression import Column, Position
from weft.model.join import RESULT_TIME, JoinQuery, Side
from weft.model.query import Lookup
from weft.sql import windows
from weft.sql.assemble import Snippet
from weft.sql.join_parts import JoinParts, Names, assemble_join
from weft.sql.join_scope import JoinScope, whose_column
from weft.sql.parser import check_tokens, parse, position_of
from weft.sql.select import (
    _check_order,
    _find,
    _Grouping,
    _is_name,
    _items,
    _one_window,
    _refuse,
    check_grouping,
)
from weft.sql.tables import read_lookups
from weft.sql.text import QueryText, Statement

_CLAUSES = frozenset(("expressions", "from_", "where", "group", "having", "joins"))
_SPELLING = "write FROM temperature t [RANGE '60 min'], humidity h [RANGE '30 min']"


def is_join(tokens: Sequence[Token]) -> bool:
    """Return whether several streams of the FROM clause have a window.

    >>> is_join(QueryText("SELECT a.x FROM a [RANGE '1 min'], b [RANGE '1 min'] WHERE a.x = b.x").tokens)
    True
    """
    depth, windowed, another = 0, False, False
    for token in windows.sources(tokens):
        kind = token.token_type
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if depth:
            continue
        if kind is TokenType.SELECT:
            return False  # a second statement, without what should be between the two
        if kind is TokenType.L_BRACKET:
            if windowed and another:
                return True
            windowed, another = True, False
        another = another or kind in (TokenType.COMMA, TokenType.JOIN)
    return False


def read_join(statement: Statement) -> JoinQuery:
    """The join of a statement; every error has its position in the whole text.

    >>> from weft.sql.text import split
    >>> text = "SELECT a.x FROM a [RANGE '1 min'], b [RANGE '2 min'] WHERE a.x = b.x AND b.y > 3"
    >>> join = read_join(split(text)[0])
    >>> print(join.conditions[0], join.selections[1], join.sides[1].range)
    (a.x = b.x) (y > 3) 120000000
    """
    text, tokens = statement.text, statement.tokens
    check_tokens(text, tokens)
    rest, items_of_from = _cut(text, tokens)
    _check_order(text, rest)
    tree = parse(text, rest)
    _refuse(text, tree, _CLAUSES, rest)
    streams = _FromClause.of(text, tree, items_of_from, rest)
    where, having = tree.args.get("where"), tree.args.get("having")
    conditions = [where.this] if where else []
    scope = JoinScope(streams.sides)
    if streams.tables:
        nodes = [table.node for table in streams.tables]
        lookups, conditions = read_lookups(text, nodes, scope.tables, where.this if where else None, rest)
        for lookup, table in zip(lookups, streams.tables):
            scope.add(table.owned(lookup))
    items = _items(text, tree, rest)
    parts = JoinParts(
        name=statement.name,
        scope=scope,
        items=items,
        where=[Snippet(text, node) for node in (*streams.conditions, *conditions)],
        names=Names(scope),
        having=[Snippet(text, having.this)] if having else [],
    )
    if tree.args.get("group") is not None:
        check_grouping(text, tree)
        _add_time(tree)
        parts.names = Names.of(scope, [Snippet(text, node) for node in _grouped(tree)])
        for node in (*tree.expressions, tree.args["group"]):
            parts.names.put(text, node)
        grouping = _Grouping(text, tree, {}, items, rest)
        parts.window = _one_window(text, grouping.clauses, rest, grouping).window
        parts.group_by = grouping.columns
    return assemble_join(parts)


def _add_time(tree: exp.Select) -> None:
    """The results of a join have one time, so ``window('10 min', '5 min')`` need not name it."""
    for call in tree.args["group"].find_all(exp.Anonymous):
        given = call.expressions
        if call.name.lower() == "window" and given and not isinstance(given[0], exp.Column):
            call.set("expressions", [exp.column(RESULT_TIME), *given])


def _grouped(tree: exp.Select) -> list[exp.Expr]:
    """Return the expressions of GROUP BY; a number stands for that column of the SELECT list."""
    expressions = []
    for node in tree.args["group"].expressions:
        short = isinstance(node, exp.Literal) and node.name.isdecimal() and len(node.name) < 9
        number = int(node.name) if short else 0
        expressions.append(
            tree.expressions[number - 1].unalias() if 0 < number <= len(tree.expressions) else node
        )
    return expressions


@dataclass(frozen=True)
class _FromItem:
    """One item of FROM: its range and where that stands, None for a table; and whether a comma is before."""

    span: tuple[int, Position] | None = None
    after_comma: bool = False


@dataclass(frozen=True)
class _BesideStreams:
    """A table in FROM, and the aliases of the streams that USING can mean: those joined since a comma."""

    node: exp.Join
    streams: tuple[str, ...]

    def owned(self, lookup: Lookup) -> Lookup:
        """The lookup, the columns of USING said to be of the stream."""
        if not self.node.args.get("using"):
            return lookup
        keys = []
        for key, column in lookup.keys:
            if len(self.streams) != 1:
                raise whose_column(column, self.streams, key.position)
            keys.append((Column(f"{self.streams[0]}.{column}", key.position), column))
        return replace(lookup, keys=tuple(keys))


@dataclass
class _FromClause:
    """The streams of FROM in order, the conditions of their ON clauses, and the tables beside them."""

    sides: list[Side] = field(default_factory=list)
    conditions: list[exp.Expr] = field(default_factory=list)
    tables: list[_BesideStreams] = field(default_factory=list)

    @classmethod
    def of(
        cls, text: QueryText, tree: exp.Select, items: Sequence[_FromItem], tokens: Sequence[Token]
    ) -> _FromClause:
        joins = tree.args.get("joins") or []
        if len(joins) + 1 != len(items):
            raise QueryError("the FROM clause cannot be read", position=text.at(tokens[0]), hint=_SPELLING)
        streams, joined = cls(), 0  # the streams before the last comma
        for node, item in zip((tree.args["from_"], *joins), items):
            if item.after_comma:
                joined = len(streams.sides)
            if item.span is None and isinstance(node, exp.Join):
                beside = tuple(side.alias for side in streams.sides[joined:])
                streams.tables.append(_BesideStreams(node, beside))
                continue
            if isinstance(node, exp.Join):
                streams._take_conditions(text, node, tokens)
            streams._take_stream(text, node.this, item, tokens)
        return streams

    def _take_conditions(self, text: QueryText, join: exp.Join, tokens: Sequence[Token]) -> None:
        words = [str(join.args[k]) for k in ("method", "side", "kind") if join.args.get(k)]
        if [w for w in words if w.upper() not in ("INNER", "CROSS")] or join.args.get("using"):
            raise QueryError(
                f"{' '.join(words).upper() or 'USING'} is not supported in a join of streams",
                position=text.at(_find(tokens, (*(w.upper() for w in words), "USING")) or tokens[0]),
                hint="write JOIN ... ON, or the streams with commas and the condition in WHERE",
            )
        if (on := join.args.get("on")) is not None:
            self.conditions.append(on)

    def _take_stream(
        self, text: QueryText, table: exp.Expr, item: _FromItem, tokens: Sequence[Token]
    ) -> None:
        position = position_of(text, table, text.at(tokens[0]))
        stream, alias = _table(text, table, position)
        if item.span is None:
            raise QueryError(f"{stream!r} has no window", position=position, hint=_SPELLING)
        if any(alias == side.alias for side in self.sides):
            raise QueryError(
                f"two streams are called {alias!r}",
                position=position,
                hint="give one an alias, as in trades t2",
            )
        self.sides.append(Side(stream, alias, *item.span))


def _cut(text: QueryText, tokens: Sequence[Token]) -> tuple[list[Token], list[_FromItem]]:
    """The tokens without the windows of the streams, and the items of FROM."""
    first = (windows.from_clause(tokens) or 0) + 1
    last = first + len(windows.sources(tokens))
    rest, items = list(tokens[:first]), [_FromItem()]
    at = first
    while at < last:
        token = tokens[at]
        if token.token_type is TokenType.L_BRACKET:
            end = windows.closing(tokens, at)
            if at == first or tokens[at - 1].token_type in (TokenType.COMMA, TokenType.JOIN):
                raise QueryError("a window without a stream", position=text.at(token), hint=_SPELLING)
            if items[-1].span is not None:
                raise QueryError("a second window", position=text.at(token), hint=_SPELLING)
            items[-1] = replace(items[-1], span=(_range(text, tokens[at:end]), text.at(token)))
            at = end
            continue
        if token.token_type in (TokenType.COMMA, TokenType.JOIN):
            items.append(_FromItem(after_comma=token.token_type is TokenType.COMMA))
        elif token.token_type is TokenType.L_PAREN:
            end = windows.closing(tokens, at)
            rest += tokens[at:end]
            at = end
            continue
        rest.append(token)
        at += 1
    return rest + list(tokens[last:]), items


def _range(text: QueryText, tokens: Sequence[Token]) -> int:
    """Return the duration of ``[RANGE '60 min']``, for which rows wait."""
    inside = tokens[1:-1]
    if not inside or inside[0].text.upper() != "RANGE" or len(inside) < 2:
        raise QueryError(
            "the window of a stream in a join is a RANGE of time", position=text.at(tokens[0]), hint=_SPELLING
        )
    for token in inside[1:]:
        if token.text.upper() in ("SLIDE", "OFFSET") and token.token_type is not TokenType.STRING:
            raise QueryError(
                f"a join's window has no {token.text.upper()}: it moves with every row",
                position=text.at(token),
                hint="leave it out; aggregate the join with GROUP BY window('10 min', '5 min')",
            )
    return windows.read_duration(text, inside[1:], "range")


def _table(text: QueryText, table: exp.Expr, position: Position | None) -> tuple[str, str]:
    """A stream's name and its alias."""
    names: list[exp.Expr] = [*table.parts] if isinstance(table, exp.Table) else [table]
    alias = table.args.get("alias")
    if alias is not None:
        names.append(alias.this)
    if not all(_is_name(text, name) for name in names) or "." in names[-1].name:
        raise QueryError("a join takes the names of streams", position=position, hint=_SPELLING)
    if more := [k for k, v in table.args.items() if v and k not in ("this", "db", "catalog", "alias")]:
        raise QueryError(f"{more[0].upper()} is not supported here", position=position, hint="leave it out")
    assert isinstance(table, exp.Table)
    stream = ".".join(p.name for p in table.parts)
    return stream, (alias.name if alias is not None else table.name).lower()
