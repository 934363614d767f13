"""One expression of its own, as the builder takes them."""

from __future__ import annotations

from sqlglot import Token, TokenType, exp

from weft.errors import QueryError
from weft.sql.assemble import Snippet
from weft.sql.parser import check_tokens, parse
from weft.sql.text import QueryText


def snippet(source: str, clause: str, query: str) -> Snippet:
    """Return the tree of an expression; ``clause`` and ``query`` name it in errors.

    >>> snippet("volume > 500", "where", "busy").node.sql()
    'volume > 500'
    """
    try:
        text = QueryText(source)
        return Snippet(text, _tree(text), label=f"{clause} {_short(source)}")
    except QueryError as error:
        raise QueryError(
            f"{clause} {_short(source)}: {error.message}",
            query=query,
            position=error.position,
            hint=error.hint,
        ) from None


def _short(source: str) -> str:
    return repr(source if len(source) <= 200 else source[:197] + "...")


def _tree(text: QueryText) -> exp.Expr:
    if not text.tokens:
        raise QueryError("an empty expression", hint="write an expression, as in volume > 500")
    check_tokens(text, text.tokens)
    for token in text.tokens:
        if token.token_type is TokenType.SEMICOLON:
            raise QueryError("unexpected ';'", position=text.at(token), hint="write one expression")
    first = text.tokens[0]
    select = Token(TokenType.SELECT, "SELECT", first.line, first.col, first.start, first.end)
    tree = parse(text, [select, *text.tokens])
    more = [k for k, v in tree.args.items() if v and k != "expressions"]
    if more or len(tree.expressions) != 1 or isinstance(tree.expressions[0], exp.Alias):
        raise QueryError(
            "not one expression", position=text.at(first), hint="write one expression without AS"
        )
    return tree.expressions[0]
