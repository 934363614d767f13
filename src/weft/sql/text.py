"""Query text cut into tokens and named statements, every character with its line and column."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType
from sqlglot.dialects import Spark

from weft.errors import QueryError
from weft.model.bounds import MAX_QUERIES, MAX_QUERY_NAME, MAX_TEXT_CHARACTERS
from weft.model.expression import Position

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NAME_COMMENT = re.compile(r"--[ \t]*name[ \t]*:[ \t]*(.*)", re.IGNORECASE)
_COMMENT = re.compile(r"--[^\r\n]*|/\*")
_BLOCK = re.compile(r"/\*|\*/")
_QUOTES = re.compile(
    r"""--[^\r\n]*|/\*|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|['"`]""", re.DOTALL
)


class QueryText:
    """A query text and its tokens.

    >>> text = QueryText("SELECT\\n  price")
    >>> text.position(text.tokens[1].start)
    (2, 3)
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_TEXT_CHARACTERS:
            raise QueryError(
                f"the text has {len(text):,} characters, and the most is {MAX_TEXT_CHARACTERS:,}",
                position=(text.count("\n", 0, MAX_TEXT_CHARACTERS) + 1, 1),
                hint="split it into several texts",
            )
        # Editors put the byte order mark before the first column, not in it.
        self.text = text.removeprefix("\ufeff")
        self._lines = [0, *(m.end() for m in re.finditer(r"\r\n|\r|\n", self.text))]
        self._check_encoding()
        self.tokens = self._tokenize()

    def _check_encoding(self) -> None:
        try:
            self.text.encode()
        except UnicodeEncodeError as error:
            raise QueryError(
                "invalid UTF-8", position=self.position(error.start), hint="read the text as UTF-8"
            ) from None

    def position(self, offset: int) -> Position:
        """Line and column of the character at ``offset``, counted from 1."""
        line = bisect.bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def at(self, token: Token) -> Position:
        """Line and column where a token starts."""
        return self.position(token.start)

    def raw(self, token: Token) -> str:
        """The characters of a token, quotes included."""
        return self.text[token.start : token.end + 1]

    def source(self, tokens: Sequence[Token]) -> str:
        """The text of some tokens on one line, without comments."""
        parts: list[str] = []
        end = None
        for token in tokens:
            if end is not None and token.start <= end:
                continue  # `90s` is three tokens over the same characters
            if end is not None and token.start > end + 1:
                parts.append(" ")
            parts.append(self.raw(token))
            end = token.end
        return "".join(parts)

    def has_word(self, after: Position | None, word: str, before: Position | None) -> bool:
        """Return whether a word stands between two places."""
        if after is None or before is None:
            return False
        first, last = (self._lines[line - 1] + column - 1 for line, column in (after, before))
        low, high = (bisect.bisect_right(self.tokens, o, key=lambda t: t.start) for o in (first, last))
        return any(t.text.upper() == word for t in self.tokens[low:high])

    def _tokenize(self) -> list[Token]:
        try:
            tokens = _Tokenizer(dialect=Spark()).tokenize(self.text)
        except Exception as error:  # whatever makes the tokenizer fail, the text cannot be read
            raise self._unreadable(error) from None
        for token in tokens:
            # The parser reads instructions from comments; query text has none to give.
            token.comments = []
        return tokens

    def _unreadable(self, error: Exception) -> QueryError:
        """Return the error for a quote or comment that is never closed, or for other text."""
        at = 0
        while opened := _QUOTES.search(self.text, at):
            at = opened.end() if opened[0] != "/*" else _comment_end(self.text, opened.start())
            if at < 0 or opened[0] in "'\"`":
                closing = "*/" if opened[0] == "/*" else opened[0]
                position = self.position(opened.start())
                return QueryError(f"{opened[0]} is never closed", position=position, hint=f"add {closing}")
        return QueryError(
            f"the text cannot be read: {error.__cause__ or error}", position=(1, 1), hint="check its quotes"
        )


class _Tokenizer(Spark.Tokenizer):
    # Spark 4 and every other SQL read 'it''s' as one string.
    STRING_ESCAPES = ["'", "\\"]  # noqa: RUF012
    # As a keyword it would hide the function window() where GROUP BY begins with it.
    KEYWORDS = {k: v for k, v in Spark.Tokenizer.KEYWORDS.items() if k != "WINDOW"}  # noqa: RUF012


@dataclass(frozen=True, slots=True)
class Statement:
    """One query of a text: its name, and its tokens without the semicolon; ``named`` if the text has it."""

    name: str
    text: QueryText
    tokens: tuple[Token, ...]
    named: bool = False

    @property
    def written(self) -> str:
        """The text of the query, from its first word to its last.

        >>> split("SELECT 1; -- name: b\\nSELECT  2")[1].written
        'SELECT  2'
        """
        return self.text.text[self.tokens[0].start : self.tokens[-1].end + 1]


def check_name(name: str, position: Position | None = None) -> str:
    """The name itself, where a query may have it.

    >>> check_name("busy-5.min")
    'busy-5.min'
    """
    if not _NAME.fullmatch(name):
        raise QueryError(
            f"{name[:40]!r} is not a query name",
            position=position,
            hint="use letters, digits, '_', '-' and '.', beginning with a letter or '_'",
        )
    if len(name) > MAX_QUERY_NAME:
        raise QueryError(
            f"the name {name[:40]!r}... has {len(name):,} characters, and the most is {MAX_QUERY_NAME}",
            position=position,
            hint="take a shorter one",
        )
    return name


def split(text: str) -> list[Statement]:
    """The statements of a text; ``-- name: x`` names the next one, the n-th without a name is ``qn``.

    >>> [s.name for s in split("-- name: busy\\nSELECT 1; SELECT 2;")]
    ['busy', 'q2']
    """
    whole = QueryText(text)
    bodies: list[list[Token]] = [[]]
    for token in whole.tokens:
        if token.token_type is TokenType.SEMICOLON:
            bodies.append([])
        else:
            bodies[-1].append(token)
    bodies = [b for b in bodies if b]
    if not bodies:
        raise QueryError("no query in the text", hint="write SELECT ... FROM ... with a window")
    if len(bodies) > MAX_QUERIES:
        raise QueryError(
            f"the text has {len(bodies):,} queries, and the most is {MAX_QUERIES:,}",
            position=whole.at(bodies[MAX_QUERIES][0]),
            hint="split it into several texts",
        )
    names = _names(whole, bodies)
    taken, statements = set(names.values()), []
    for number, body in enumerate(bodies):
        name = names.get(number) or _unused(f"q{number + 1}", taken)
        statements.append(Statement(name, whole, tuple(body), number in names))
    return statements


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _names(whole: QueryText, bodies: list[list[Token]]) -> dict[int, str]:
    """The name given before each body, by the body's number."""
    starts = [body[0].start for body in bodies]
    names: dict[int, str] = {}
    lines: dict[str, int] = {}
    for offset, name in _name_comments(whole):
        position = whole.position(offset)
        number = bisect.bisect_right(starts, offset)
        if number and offset < bodies[number - 1][-1].start:
            raise QueryError(
                f"the name {name!r} is inside a statement",
                position=position,
                hint="end the statement before it with ';'",
            )
        if number == len(bodies):
            raise QueryError(f"no query follows the name {name!r}", position=position, hint="remove the name")
        check_name(name, position)
        if number in names:
            raise QueryError(
                f"a second name, {name!r}, for the query {names[number]!r}",
                position=position,
                hint="keep one of them",
            )
        if name in lines:
            raise QueryError(
                f"two queries are named {name!r}, on line {lines[name]} and on line {position[0]}",
                position=position,
                hint="rename one of them",
            )
        names[number], lines[name] = name, position[0]
    return names


def _name_comments(whole: QueryText) -> Iterator[tuple[int, str]]:
    """Offset and text of every name given in a line comment."""
    ends = [0, *(t.end + 1 for t in whole.tokens)]
    starts = [*(t.start for t in whole.tokens), len(whole.text)]
    read = 0
    for at, end in zip(ends, starts):
        # Between two tokens there are only blanks and comments, of which one may go on behind the next token:
        # `/*/` is a whole comment to the tokenizer.
        read = max(read, at)
        while comment := _COMMENT.search(whole.text, read, max(read, end)):
            named = _NAME_COMMENT.fullmatch(comment[0])
            if named:
                yield comment.start() + named.start(1), named[1].rstrip()
            read = comment.end() if comment[0] != "/*" else _comment_end(whole.text, comment.start())
            if read < 0:
                return


def _comment_end(text: str, start: int) -> int:
    """One past the block comment that begins at ``start``, with those inside it; -1 without an end."""
    depth = 0
    for mark in _BLOCK.finditer(text, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return -1
