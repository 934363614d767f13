"""A join of streams, each with a window of its own: ``FROM trades t [RANGE '60 min'], quotes q [...]``.

Every column says whose it is, ``t.value``; what WHERE and ON say of one stream alone becomes its selection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType, exp

from weft.errors import QueryError
from weft.expr.check import operands
from weft.query import (
    RESULT_TIME,
    Call,
    Column,
    Expr,
    JoinQuery,
    Output,
    Position,
    Query,
    Side,
    Window,
    columns_of,
    with_columns,
)
from weft.sql import windows
from weft.sql.assemble import Parts, Snippet, assemble, named
from weft.sql.parser import check_tokens, parse, position_of
from weft.sql.reader import Reader
from weft.sql.select import _check_order, _find, _Grouping, _is_name, _items, _one_window, _refuse
from weft.sql.text import Statement, Text

_READ = frozenset(("expressions", "from_", "where", "group", "having", "joins"))
_SPELLING = "write FROM temperature t [RANGE '60 min'], humidity h [RANGE '30 min']"
_AGGREGATED = "add GROUP BY window('10 min', '5 min'), or leave the aggregate out"


@dataclass
class JoinParts:
    """Everything that makes a join; with a ``window``, its aggregates by ``group_by``.

    ``names`` are those of the columns in ``items`` and ``having``.
    """

    name: str
    sides: Sequence[Side]
    items: Sequence[Snippet]
    where: Sequence[Snippet]
    names: Names
    having: Sequence[Snippet] = ()
    group_by: Sequence[str] = ()
    window: Window | None = None


def is_join(tokens: Sequence[Token]) -> bool:
    """Whether several streams of the FROM clause have a window.

    >>> is_join(Text("SELECT a.x FROM a [RANGE '1 min'], b [RANGE '1 min'] WHERE a.x = b.x").tokens)
    True
    """
    depth, windowed, another = 0, False, False
    for token in windows.sources(tokens):
        kind = token.token_type
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if depth or kind is TokenType.SELECT:
            if not depth:
                return False  # a second statement, without what should be between the two
        elif kind is TokenType.L_BRACKET:
            if windowed and another:
                return True
            windowed, another = True, False
        elif kind in (TokenType.COMMA, TokenType.JOIN):
            another = True
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
    rest, ranges = _cut(text, tokens)
    _check_order(text, rest)
    tree = parse(text, rest)
    _refuse(text, tree, _READ, rest)
    sides, conditions = _sides(text, tree, ranges, rest)
    where, having = tree.args.get("where"), tree.args.get("having")
    items = _items(text, tree, rest)
    parts = JoinParts(
        name=statement.name,
        sides=sides,
        items=items,
        where=[Snippet(text, node) for node in (*conditions, *([where.this] if where else []))],
        names=Names(sides),
        having=[Snippet(text, having.this)] if having else [],
    )
    if tree.args.get("group") is not None:
        _add_time(tree)
        parts.names = Names.of(sides, [Snippet(text, n) for n in tree.args["group"].expressions])
        for node in (*tree.expressions, tree.args["group"]):
            parts.names.put(text, node)
        grouping = _Grouping(text, tree, frozenset(), items, rest)
        parts.window = _one_window(text, grouping.clauses, rest, grouping).window
        parts.group_by = grouping.columns
    return assemble_join(parts)


def assemble_join(parts: JoinParts) -> JoinQuery:
    """The join of its parts: selections told from conditions, aggregates over its results apart."""
    sides, plain = parts.sides, Names(parts.sides)
    conjuncts: list[Expr] = []
    for snippet in parts.where:
        plain.put(snippet.text, snippet.node)
        with named(snippet):
            read = Reader(snippet.text, "WHERE").read(snippet.node)
        conjuncts += operands(read) if isinstance(read, Call) and read.function == "and" else [read]
    alone: list[list[Expr]] = [[] for _ in sides]
    together = []
    for conjunct in conjuncts:
        about = {c.partition(".")[0] for c in columns_of(conjunct)}
        if len(about) == 1:
            at = next(n for n, side in enumerate(sides) if side.alias in about)
            alone[at].append(with_columns(conjunct, {c: c.partition(".")[2] for c in columns_of(conjunct)}))
        else:
            together.append(conjunct)
    selections = tuple(_all(some) for some in alone)
    outputs, aggregate = _results(parts) if parts.window is None else _aggregated(parts)
    return JoinQuery(parts.name, tuple(sides), selections, tuple(together), outputs, aggregate)


def _all(conjuncts: Sequence[Expr]) -> Expr | None:
    """The conjuncts under AND, in one order however they were written, so that equal selections are one."""
    ordered = sorted(dict.fromkeys(conjuncts), key=str)
    found: Expr | None = None
    for conjunct in ordered:
        found = conjunct if found is None else Call("and", (found, conjunct), found.position)
    return found


def _results(parts: JoinParts) -> tuple[tuple[Output, ...], None]:
    """The columns of a join that is not aggregated."""
    if parts.having:
        raise QueryError("HAVING needs GROUP BY", position=parts.having[0].position, hint="use WHERE")
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
            outputs.append(Output(alias, reader.read(item.node)))
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
    return tuple(Output(name, Column(parts.names.meaning(name))) for name in read), query


class Names:
    """What the columns of a join are called: ``alias.column``, and a grouped one by its own name alone."""

    def __init__(self, sides: Sequence[Side], short: Mapping[str, str] | None = None) -> None:
        self.aliases = {side.alias.lower(): side.alias for side in sides}
        self.short, self.aggregated = dict(short or {}), short is not None

    @classmethod
    def of(cls, sides: Sequence[Side], group_by: Sequence[Snippet]) -> Names:
        """Those of a join grouped by these columns; two of one name keep their alias."""
        plain = cls(sides)
        grouped = [
            plain.name_of(s.text, s.node) for s in group_by if isinstance(s.node, exp.Column) and s.node.table
        ]
        bare = [name.partition(".")[2] for name in grouped]
        short = {
            name: last
            for name, last in zip(grouped, bare)
            if len({g for g, b in zip(grouped, bare) if b.lower() == last.lower()}) == 1
        }
        return cls(sides, short)

    def put(self, text: Text, tree: exp.Expr, known: frozenset[str] = frozenset()) -> None:
        """Give the columns of a tree their names, in place; what is ``known`` has the name it goes by."""
        for column in list(tree.find_all(exp.Column)):
            if not isinstance(column.this, exp.Identifier) or column.meta.get("resolved"):
                continue
            if not column.table and column.name in known:
                continue
            name = self.name_of(text, column)
            identifier = exp.to_identifier(self.short.get(name, name), quoted=True)
            identifier.meta.update(column.this.meta)
            column.set("this", identifier)
            for qualifier in ("table", "db", "catalog"):
                column.set(qualifier, None)
            column.meta["resolved"] = True

    def meaning(self, name: str) -> str:
        """The column, with its alias, behind a name."""
        return next((full for full, short in self.short.items() if short == name), name)

    def name_of(self, text: Text, column: exp.Column) -> str:
        """``alias.column`` of a column as it was written."""
        qualifier = ".".join(p.name for p in column.parts[:-1])
        own = (RESULT_TIME, "window_start", "window_end", "window") if self.aggregated else ()
        if not qualifier and column.name.lower() in own:
            return column.name.lower()
        if not qualifier:
            choices = " or ".join(f"{alias}.{column.name}" for alias in self.aliases.values())
            raise QueryError(
                f"whose column is {column.name!r}?",
                position=position_of(text, column),
                hint=f"write {choices}",
            )
        if qualifier.lower() == "window" and self.aggregated:
            return f"window_{column.name.lower()}"
        if qualifier.lower() not in self.aliases:
            raise QueryError(
                f"unknown table {qualifier!r}",
                position=position_of(text, column),
                hint=f"the streams here are {', '.join(self.aliases.values())}",
            )
        return f"{self.aliases[qualifier.lower()]}.{column.name}"


def _add_time(tree: exp.Select) -> None:
    """The results of a join have one time, so ``window('10 min', '5 min')`` need not name it."""
    for call in tree.args["group"].find_all(exp.Anonymous):
        given = call.expressions
        if call.name.lower() == "window" and given and not isinstance(given[0], exp.Column):
            call.set("expressions", [exp.column(RESULT_TIME), *given])


def _sides(
    text: Text, tree: exp.Select, ranges: Sequence[tuple[int, Position] | None], tokens: Sequence[Token]
) -> tuple[list[Side], list[exp.Expr]]:
    """The streams of FROM in order, and the conditions of their ON clauses."""
    tables: list[exp.Expr] = [tree.args["from_"].this]
    conditions = []
    for join in tree.args.get("joins") or []:
        words = [str(join.args[k]) for k in ("method", "side", "kind") if join.args.get(k)]
        if [w for w in words if w.upper() not in ("INNER", "CROSS")] or join.args.get("using"):
            raise QueryError(
                f"{' '.join(words).upper() or 'USING'} is not supported in a join of streams",
                position=text.at(_find(tokens, (*(w.upper() for w in words), "USING")) or tokens[0]),
                hint="write JOIN ... ON, or the streams with commas and the condition in WHERE",
            )
        tables.append(join.this)
        if (on := join.args.get("on")) is not None:
            conditions.append(on)
    sides: list[Side] = []
    for table, found in zip(tables, ranges, strict=True):
        position = position_of(text, table, text.at(tokens[0]))
        stream, alias = _table(text, table, position)
        if found is None:
            raise QueryError(f"{stream!r} has no window", position=position, hint=_SPELLING)
        if any(alias == side.alias for side in sides):
            raise QueryError(
                f"two streams are called {alias!r}",
                position=position,
                hint="give one an alias, as in trades t2",
            )
        sides.append(Side(stream, alias, found[0], found[1]))
    return sides, conditions


def _cut(text: Text, tokens: Sequence[Token]) -> tuple[list[Token], list[tuple[int, Position] | None]]:
    """The tokens without the windows of the streams, and each stream's range."""
    first = (windows.from_clause(tokens) or 0) + 1
    last = first + len(windows.sources(tokens))
    rest, ranges = list(tokens[:first]), list[tuple[int, Position] | None]([None])
    at = first
    while at < last:
        token = tokens[at]
        if token.token_type is TokenType.L_BRACKET:
            end = windows.closing(tokens, at)
            if ranges[-1] is not None:
                raise QueryError("a second window", position=text.at(token), hint=_SPELLING)
            ranges[-1] = _range(text, tokens[at:end]), text.at(token)
            at = end
            continue
        if token.token_type in (TokenType.COMMA, TokenType.JOIN):
            ranges.append(None)
        elif token.token_type is TokenType.L_PAREN:
            end = windows.closing(tokens, at)
            rest += tokens[at:end]
            at = end
            continue
        rest.append(token)
        at += 1
    return rest + list(tokens[last:]), ranges


def _range(text: Text, tokens: Sequence[Token]) -> int:
    """How long rows wait: the duration of ``[RANGE '60 min']``."""
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


def _table(text: Text, table: exp.Expr, position: Position | None) -> tuple[str, str]:
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
