"""A sqlglot tree to an expression, by whitelist: what is not named here is refused, with its position."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from weft.errors import QueryError
from weft.model.bounds import MAX_IN_VALUES, MAX_NESTING, MAX_PARTS
from weft.model.expression import Call, Column, Expr, Literal, Position
from weft.sql import calls, literals
from weft.sql.parser import position_of
from weft.sql.text import QueryText
from weft.sql.whitelist import BINARY, COMPARISONS, EXTRACT, PREDICATES, REFUSED_NODES, TYPE_HINTS, TYPES


@dataclass(frozen=True)
class Reader:
    """A reader of the expressions of one clause.

    ``tables`` are the names that may stand before a column, in small letters, and what is put before it
    for each. ``names`` are the names it may use and what they stand for (None: any column of the stream);
    ``collect`` takes an aggregate and gives the expression that stands for it (None: none is allowed).

    >>> from weft.sql.parser import parse
    >>> text = QueryText("SELECT price * 2 > 10 AND symbol IS NOT NULL")
    >>> print(Reader(text, "WHERE").read(parse(text, text.tokens).expressions[0]))
    (((price * 2) > 10) AND not(is_null(symbol)))
    """

    text: QueryText
    clause: str
    tables: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, Expr] | None = None
    collect: Callable[[str, tuple[Expr, ...], Position | None], Expr] | None = None

    def read(self, node: exp.Expr) -> Expr:
        """The expression of a tree."""
        level, depth, parts = [node], 0, 1
        while level and depth <= MAX_NESTING:
            level = [child for n in level for child in _below(n)]
            depth += 1
            parts += sum(not isinstance(n, exp.Identifier) for n in level)
        if level:
            message = f"the expression is nested too deeply, more than {MAX_NESTING} levels"
            raise self.error(level[0], message, "split it into several queries")
        if parts > MAX_PARTS:
            message = f"the expression has {parts:,} parts, and the most is {MAX_PARTS:,}"
            raise self.error(node, message, "split it into several queries")
        return self._read(node)

    def error(self, node: exp.Expr, message: str, hint: str) -> QueryError:
        """An error at the place of a tree."""
        return QueryError(message, position=self.position(node), hint=hint)

    def position(self, node: exp.Expr) -> Position | None:
        """Return the place of a tree's first token; without one of its own, that of the tree around it."""
        around: exp.Expr | None = node
        while around is not None:
            if position := position_of(self.text, around):
                return position
            around = around.parent
        return None

    def column_name(self, node: exp.Expr) -> str | None:
        """The name of a plain column, its table checked; None for anything else."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return None
        qualifier = ".".join(p.name for p in node.parts[:-1])
        if qualifier and qualifier.lower() not in self.tables:
            choices = " or ".join(repr(t) for t in sorted(self.tables))
            raise self.error(
                node, f"unknown table {qualifier!r}", f"write {choices}" if choices else "leave it out"
            )
        return self.tables.get(qualifier.lower(), "") + node.name

    def aggregate(self, node: exp.Expr) -> tuple[str, tuple[Expr, ...]] | None:
        """Function and arguments of an aggregate over rows; None for anything else."""
        return calls.aggregate(self, node)

    def _read(self, node: exp.Expr) -> Expr:
        if isinstance(node, (exp.And, exp.Or)):
            self.only(node, "this", "expression")
            return balanced(BINARY[type(node)], [self._read(n) for n in _chain(node)])
        if isinstance(node, exp.DPipe):
            for part in _chain(node):
                self._tight(part, (*PREDICATES, exp.Add, exp.Sub))
            terms = tuple(self._read(n) for n in _chain(node))
            return Call("concat", terms, terms[0].position)
        if type(node) in BINARY:
            return self._binary(node)
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            return handler(self, node)
        construct, hint = REFUSED_NODES.get(
            type(node), (f"'{node.key}' here", "see the list of functions and operators")
        )
        raise self.error(node, f"{construct} is not supported", hint)

    def _tight(self, part: exp.Expr, looser: tuple[type[exp.Expr], ...]) -> None:
        """Refuse an operand that needs parentheses: sqlglot and Spark do not read `a = b IN (1)` alike."""
        # Parentheses that sqlglot puts in by itself do not stand in the text.
        while isinstance(part, exp.Paren) and not self.text.text.startswith("(", part.meta.get("start", -1)):
            part = part.this
        if isinstance(part, looser):
            raise self.error(part, "this part needs parentheses", "write ( ) around it")

    def _joined(self, left: exp.Expr, word: str, right: exp.Expr) -> None:
        """Refuse two trees without the word between them, which sqlglot takes as optional."""
        if not self.text.has_word(position_of(self.text, left, last=True), word, self.position(right)):
            raise self.error(right, f"{word} is missing", f"write {word} before it")

    def only(self, node: exp.Expr, *allowed: str) -> None:
        """Refuse a tree that carries more than the parts that are read."""
        for name, value in node.args.items():
            if value and name not in allowed:
                raise self.error(node, f"{name.strip('_').upper()} is not supported here", "leave it out")

    def _binary(self, node: exp.Expr) -> Expr:
        self.only(node, "this", "expression", "typed", "safe")
        looser = PREDICATES + COMPARISONS if isinstance(node, COMPARISONS) else PREDICATES
        self._tight(node.this, looser)
        self._tight(node.expression, looser)
        left, right = self._read(node.this), self._read(node.expression)
        return Call(BINARY[type(node)], (left, right), left.position)

    def _column(self, node: exp.Expr) -> Expr:
        name = self.column_name(node)
        if name is None:
            raise self.error(node, "* is not supported here", "name the columns; * is for count(*)")
        if self.names is None:
            return Column(name, self.position(node))
        if name in self.names:
            meaning = self.names[name]
            return Column(meaning.name, self.position(node)) if isinstance(meaning, Column) else meaning
        if name.lower() in ("window_start", "window_end"):
            raise self.error(node, f"{name!r} cannot be used in {self.clause}", "filter the result instead")
        close = [n for n in self.names if n.lower() in (name.lower(), node.name.lower())]
        raise self.error(
            node,
            f"the column {name!r} is neither grouped nor aggregated",
            f"did you mean {close[0]!r}?"
            if close
            else f"add it to GROUP BY, or aggregate it, as in max({name})",
        )

    def _call(self, node: exp.Expr) -> Expr:
        aggregate = calls.aggregate(self, node)
        if aggregate is None:
            return calls.function(self, node)
        if self.collect is None:
            raise self.error(node, f"an aggregate is not allowed in {self.clause}", "use HAVING or SELECT")
        return self.collect(*aggregate, self.position(node))

    def _not(self, node: exp.Expr) -> Expr:
        return Call("not", (self._read(node.this),), self.position(node))

    def _negate(self, node: exp.Expr) -> Expr:
        inner = node.this.unnest()
        if isinstance(inner, exp.Literal):
            return literals.read(inner, self.position(node), negative=True)
        value = self._read(inner)
        if isinstance(value, Literal) and value.type in ("bigint", "double"):
            return literals.negated(value, self.position(node))
        return Call("negate", (value,), self.position(node))

    def _is(self, node: exp.Expr) -> Expr:
        self.only(node, "this", "expression")
        self._tight(node.this, PREDICATES)
        value = self._read(node.this)
        if isinstance(node.expression, exp.Null):
            return Call("is_null", (value,), value.position)
        if isinstance(node.expression, exp.Boolean):
            return Call("<=>", (value, self._read(node.expression)), value.position)
        raise self.error(node.expression, "IS takes NULL, TRUE or FALSE", "use = to compare values")

    def _distinct_from(self, node: exp.Expr) -> Expr:
        left, right = self._read(node.this), self._read(node.expression)
        return Call("not", (Call("<=>", (left, right), left.position),), left.position)

    def _in(self, node: exp.Expr) -> Expr:
        if query := node.args.get("query"):
            raise self.error(query, "a subquery is not supported", "list the values")
        self.only(node, "this", "expressions")
        self._tight(node.this, PREDICATES)
        if (count := len(node.expressions)) > MAX_IN_VALUES:
            raise self.error(
                node,
                f"IN has {count:,} values, and the most is {MAX_IN_VALUES:,}",
                "join a table that has them",
            )
        value, choices = self._read(node.this), [self._read(e) for e in node.expressions]
        if not choices:
            raise self.error(node, "IN without values", "list at least one value")
        if all(isinstance(c, Literal) for c in choices):
            return Call("in", (value, *choices), value.position)
        equal: list[Expr] = [Call("=", (value, c), value.position) for c in choices]
        return balanced("or", equal)

    def _between(self, node: exp.Expr) -> Expr:
        self.only(node, "this", "low", "high")
        self._tight(node.this, PREDICATES)
        self._joined(node.args["low"], "AND", node.args["high"])
        value, low, high = self._read(node.this), self._read(node.args["low"]), self._read(node.args["high"])
        at = value.position
        return Call("and", (Call(">=", (value, low), at), Call("<=", (value, high), at)), at)

    def _like(self, node: exp.Expr) -> Expr:
        escape = node.expression if isinstance(node, exp.Escape) else None
        like = node.this if escape is not None else node
        if not isinstance(like, exp.Like):
            raise self.error(node, "ESCAPE is for LIKE only", "leave it out")
        self.only(like, "this", "expression", "negate")
        self._tight(like.this, PREDICATES)
        args = [self._read(e) for e in (like.this, like.expression, escape) if e is not None]
        for literal in args[1:]:
            if not isinstance(literal, Literal) or literal.type != "string":
                raise self.error(like.expression, "LIKE takes a pattern in quotes", "as in LIKE 'A%'")
        if escape is not None and len(str(escape.name)) != 1:
            raise self.error(escape, "ESCAPE takes one character", "as in ESCAPE '/'")
        call = Call("like", tuple(args), args[0].position)
        return Call("not", (call,), call.position) if like.args.get("negate") else call

    def _case(self, node: exp.Expr) -> Expr:
        self.only(node, "this", "ifs", "default")
        subject = self._read(node.this) if node.this is not None else None
        args: list[Expr] = []
        for branch in node.args["ifs"]:
            self._joined(branch.this, "THEN", branch.args["true"])
            when = self._read(branch.this)
            if subject is not None:
                when = Call("=", (subject, when), when.position)
            args += [when, self._read(branch.args["true"])]
        default, position = node.args.get("default"), self.position(node)
        args.append(self._read(default) if default is not None else Literal(None, "null", position))
        return Call("case", tuple(args), position)

    def _cast(self, node: exp.Expr) -> Expr:
        if node.args.get("safe"):
            raise self.error(node, "TRY_CAST is not supported", "write CAST: a value it cannot cast is NULL")
        self.only(node, "this", "to")
        to = node.args["to"]
        kind = TYPES.get(to.this)
        if kind is None or to.expressions:
            hint = TYPE_HINTS.get(
                to.this, "the types are boolean, bigint, double, string, timestamp and date"
            )
            raise self.error(node, f"a cast to {to.sql('spark')} is not supported", hint)
        value, position = self._read(node.this), self.position(node)
        folded = literals.cast(value, kind, position)
        return folded or Call("cast", (value, Literal(kind, "string", position)), position)

    def _extract(self, node: exp.Expr) -> Expr:
        unit = node.this.name.lower()
        if unit not in EXTRACT:
            raise self.error(node, f"EXTRACT of {unit} is not supported", f"it takes {', '.join(EXTRACT)}")
        return Call(unit, (self._read(node.expression),), self.position(node))

    def _literal(self, node: exp.Expr) -> Expr:
        return literals.read(node, self.position(node))

    def _paren(self, node: exp.Expr) -> Expr:
        return self._read(node.this)


_HANDLERS: dict[type[exp.Expr], Callable[[Reader, exp.Expr], Expr]] = {
    exp.Anonymous: Reader._call,
    exp.Filter: Reader._call,
    exp.IgnoreNulls: Reader._call,
    exp.Column: Reader._column,
    exp.Paren: Reader._paren,
    exp.Not: Reader._not,
    exp.Neg: Reader._negate,
    exp.Is: Reader._is,
    exp.NullSafeNEQ: Reader._distinct_from,
    exp.In: Reader._in,
    exp.Between: Reader._between,
    exp.Like: Reader._like,
    exp.Escape: Reader._like,
    exp.Case: Reader._case,
    exp.Cast: Reader._cast,
    exp.TryCast: Reader._cast,
    exp.Extract: Reader._extract,
    **dict.fromkeys((exp.Literal, exp.Boolean, exp.Null, exp.Concat, exp.RawString), Reader._literal),
}


def balanced(function: str, terms: Sequence[Expr]) -> Expr:
    """The terms under AND or OR, as flat as binary calls can be, so that a long list nests little.

    >>> print(balanced("and", [Column(name) for name in "abcde"]))
    (((a AND b) AND (c AND d)) AND e)
    """
    while len(terms) > 1:
        pairs = [tuple(terms[n : n + 2]) for n in range(0, len(terms), 2)]
        terms = [Call(function, pair, pair[0].position) if len(pair) == 2 else pair[0] for pair in pairs]
    return terms[0]


def _chain(node: exp.Expr) -> list[exp.Expr]:
    """The terms that one kind of AND, OR or || joins, from left to right."""
    terms, left = [], [node]
    while left:
        term = left.pop()
        if type(term) is type(node):
            left += [term.expression, term.this]
        else:
            terms.append(term)
    return terms


def _below(node: exp.Expr) -> list[exp.Expr]:
    """The trees one level of nesting further down."""
    if isinstance(node, (exp.And, exp.Or, exp.DPipe)):
        return _chain(node)
    return list(node.iter_expressions())
