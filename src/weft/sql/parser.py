"""Tokens to a sqlglot tree: Spark's grammar, with every function call left as it was written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects import Spark
from sqlglot.errors import ErrorLevel, ParseError

from weft.errors import QueryError
from weft.model.bounds import MAX_COLUMN_NAME, MAX_NESTING, MAX_TOKENS
from weft.model.expression import Position
from weft.sql.text import QueryText

_OPENERS = {TokenType.L_PAREN: TokenType.R_PAREN, TokenType.L_BRACKET: TokenType.R_BRACKET}
_CLOSERS = {closer: opener for opener, closer in _OPENERS.items()}
_NESTING_OPENERS = (*_OPENERS, TokenType.CASE)
_NESTING_CLOSERS = (*_CLOSERS, TokenType.END)
_PREFIXES = (TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE)
_BEFORE_ITEM = (None, TokenType.SELECT, TokenType.GROUP_BY, TokenType.COMMA, TokenType.L_PAREN)
_AFTER_ITEM = (None, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.R_PAREN)
# Parameters, templates, hints, lambdas and pipes: sqlglot reads some of them, and drops them without a trace.
_REFUSED_TOKENS = frozenset(
    (
        TokenType.PARAMETER,
        TokenType.SESSION_PARAMETER,
        TokenType.PLACEHOLDER,
        TokenType.L_BRACE,
        TokenType.R_BRACE,
        TokenType.BLOCK_START,
        TokenType.BLOCK_END,
        TokenType.HASH,
        TokenType.BACKSLASH,
        TokenType.HINT,
        TokenType.PIPE_GT,
        TokenType.ARROW,
        TokenType.DARROW,
        TokenType.HASH_ARROW,
        TokenType.DHASH_ARROW,
        TokenType.COLON,
        TokenType.COLON_EQ,
    )
)


def parse(text: QueryText, tokens: Sequence[Token]) -> exp.Select:
    """The tree of one SELECT from checked tokens; anything that is not one is refused with its position.

    >>> text = QueryText("SELECT sum(price)")
    >>> parse(text, text.tokens).expressions[0].name
    'sum'
    """
    parser = _Parser(dialect=Spark(), error_level=ErrorLevel.IMMEDIATE)
    try:
        trees = parser.parse(list(tokens), text.text)
    except _Unparsed as error:
        raise _readable(text, error) from None
    except RecursionError:
        raise QueryError(
            "nested too deeply", position=text.at(tokens[0]), hint="use fewer parentheses"
        ) from None
    except Exception as error:  # a bug of the parser on odd text is still text that cannot be read
        raise QueryError(
            f"the query cannot be read: {error}", position=text.at(tokens[0]), hint="check its syntax"
        ) from None
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Select):
        words = ("UNION", "INTERSECT", "EXCEPT", "MINUS")
        found = next((t for t in tokens if t.text.upper() in words), tokens[0])
        raise QueryError(
            f"{found.text.upper()} is not supported",
            position=text.at(found),
            hint="write one SELECT per query",
        )
    return tree


def position_of(
    text: QueryText, node: exp.Expr | None, default: Position | None = None, *, last: bool = False
) -> Position | None:
    """Return the place of a tree's first token, or of its ``last``; ``default`` if it has none of its own."""
    starts = [n.meta["start"] for n in node.walk() if "start" in n.meta] if node is not None else []
    return text.position(max(starts) if last else min(starts)) if starts else default


def check_tokens(text: QueryText, tokens: Sequence[Token]) -> None:
    """Refuse what sqlglot would let pass: unbalanced brackets, stray commas, parameters, double quotes."""
    _check_size(text, tokens)
    opened: list[Token] = []
    kinds = [None, *(t.token_type for t in tokens), None]
    for token, before, kind, after in zip(tokens, kinds, kinds[1:], kinds[2:]):
        raw = text.raw(token)
        if kind in _OPENERS:
            opened.append(token)
        elif kind in _CLOSERS and (not opened or opened.pop().token_type is not _CLOSERS[kind]):
            raise QueryError(f"unexpected {raw!r}", position=text.at(token), hint="nothing opens it")
        elif kind is TokenType.COMMA and (before in _BEFORE_ITEM or after in _AFTER_ITEM):
            raise QueryError("unexpected ','", position=text.at(token), hint="remove it")
        elif kind is TokenType.DOT and before in (*_BEFORE_ITEM, TokenType.FROM):
            raise QueryError("unexpected '.'", position=text.at(token), hint="write a name before it")
        elif kind is TokenType.ALIAS and (after in _AFTER_ITEM or after is TokenType.COMMA):
            raise QueryError(
                f"{raw} without a name", position=text.at(token), hint="add the name or remove it"
            )
        elif kind in _REFUSED_TOKENS:
            raise QueryError(
                f"unexpected {raw!r}",
                position=text.at(token),
                hint="it means nothing in a query here",
            )
        elif raw.startswith('"'):
            raise QueryError(
                f"double quotes around {token.text!r}: a string in Spark, a name elsewhere",
                position=text.at(token),
                hint=f"write '{token.text}' for a string or `{token.text}` for a name",
            )
    if opened:
        raise QueryError(
            f"{text.raw(opened[-1])!r} is never closed", position=text.at(opened[-1]), hint="close it"
        )


def _check_size(text: QueryText, tokens: Sequence[Token]) -> None:
    """Refuse what the parser would take too long for, or recurse on too deeply."""
    if len(tokens) > MAX_TOKENS:
        raise QueryError(
            f"the query has {len(tokens):,} words and signs, and the most is {MAX_TOKENS:,}",
            position=text.at(tokens[MAX_TOKENS]),
            hint="split it into several queries",
        )
    depth = signs = 0
    for token in tokens:
        kind = token.token_type
        depth += (kind in _NESTING_OPENERS) - (kind in _NESTING_CLOSERS)
        signs = signs + 1 if kind in _PREFIXES else 0
        if depth + signs > MAX_NESTING:
            raise QueryError(
                f"the expression is nested too deeply, more than {MAX_NESTING} levels",
                position=text.at(token),
                hint="use fewer parentheses, or split it into several queries",
            )
        if kind in (TokenType.VAR, TokenType.IDENTIFIER) and len(token.text) > MAX_COLUMN_NAME:
            raise QueryError(
                f"a name of {len(token.text):,} characters, and the most is {MAX_COLUMN_NAME:,}",
                position=text.at(token),
                hint="take a shorter one",
            )


class _Unparsed(ParseError):
    """A parse error that knows its token."""

    def __init__(self, message: str, token: Token | None, ended: bool) -> None:
        super().__init__(message)
        self.message, self.token, self.ended = message, token, ended


class _Parser(Spark.Parser):
    # No function is known to the parser, so none is rewritten: `stddev(x)` stays `stddev(x)`, and
    # one whitelist decides about all of them. These few have a syntax of their own.
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS = {n: Spark.Parser.FUNCTION_PARSERS[n] for n in ("CAST", "TRY_CAST", "EXTRACT")}  # noqa: RUF012
    NO_PAREN_FUNCTION_PARSERS = {"CASE": Spark.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}  # noqa: RUF012

    def raise_error(self, message: str, token: Any = None) -> None:
        raise _Unparsed(message, token or self._curr or self._prev, not (token or self._curr))

    def _parse_connect_with_prior(self) -> None:
        # sqlglot changes its own tables here, and leaves them changed for later statements when it fails.
        self.raise_error("CONNECT BY is not supported", self._prev)

    def _parse_unary(self) -> exp.Expr | None:
        # Every operand passes here; sqlglot itself notes positions of names and literals only.
        token = self._curr
        node = super()._parse_unary()
        if node is not None and token and "start" not in node.meta:
            node.update_positions(token)
        return node


def _readable(text: QueryText, error: _Unparsed) -> QueryError:
    if error.token is None:
        return QueryError("the query ends too early", hint="complete it")
    position, raw = text.at(error.token), text.raw(error.token)
    hint = "a query is SELECT ... FROM ... [WHERE ...] [GROUP BY ...] [HAVING ...]"
    if error.ended or error.message.startswith("Required keyword"):
        return QueryError(f"something is missing after {raw!r}", position=position, hint=hint)
    if error.token.token_type is TokenType.SELECT:
        hint = "end the query before it with ';'"
    if error.message.startswith("Expecting ") and len(error.message) < 40:
        return QueryError(f"expected {error.message[10:]} instead of {raw!r}", position=position, hint=hint)
    if error.message.startswith("Invalid expression"):
        return QueryError(f"unexpected {raw!r}", position=position, hint=hint)
    detail = re.sub(r"<[^>]*>", "something else", error.message).split("\n")[0]
    return QueryError(f"near {raw!r}: {detail}", position=position, hint=hint)
