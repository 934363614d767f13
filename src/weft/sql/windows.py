"""The three spellings of a window: CQL's bracket, Flink's HOP and TUMBLE, Spark's window().

The first two are no SQL that a parser knows, so they are cut out of the tokens of the FROM clause before
parsing; what is left keeps its positions.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType, exp

from weft.errors import QueryError
from weft.model.duration import parse_duration
from weft.model.expression import Position
from weft.model.window import Window
from weft.sql.parser import position_of
from weft.sql.text import QueryText

REMEDY = (
    "write FROM trades [RANGE '12 min' SLIDE '5 min'], GROUP BY window(ts, '12 minutes', '5 minutes')"
    " or FROM TABLE(HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '12' MINUTE))"
)
_CQL = "write [RANGE '12 min' SLIDE '5 min'] or [ROWS 100 SLIDE 10], with an optional OFFSET"
_FLINK = {
    "HOP": "HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '12' MINUTE)",
    "TUMBLE": "TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '5' MINUTE)",
}
_FLINK_ARGS = {
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
}
_CLAUSES = (TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT)
_OPENERS = (TokenType.L_PAREN, TokenType.L_BRACKET)
_LITERALS = (TokenType.STRING, TokenType.NUMBER)
_CLOSERS = (TokenType.R_PAREN, TokenType.R_BRACKET)


@dataclass(frozen=True, slots=True)
class Clause:
    """A window as the text spells it: the time column where it names one, and whether it is Flink's."""

    window: Window
    position: Position
    time: str | None = None
    flink: bool = False


def cut(text: QueryText, tokens: Sequence[Token]) -> tuple[list[Token], list[Clause]]:
    """The tokens without the windows of the FROM clause, and these windows.

    >>> text = QueryText("SELECT count(*) FROM trades [RANGE '12 min' SLIDE '5 min'] WHERE price > 1")
    >>> rest, clauses = cut(text, text.tokens)
    >>> text.source(rest)
    'SELECT count(*) FROM trades WHERE price > 1'
    >>> clauses[0].window
    Window(range=720000000, slide=300000000, offset=180000000, rows=False)
    """
    start = from_clause(tokens)
    if start is None:
        return list(tokens), []
    rest, clauses = list(tokens[: start + 1]), []
    at = start + 1
    while at < len(tokens) and tokens[at].token_type not in _CLAUSES:
        if tokens[at].token_type is TokenType.L_BRACKET:
            if at == start + 1:
                raise QueryError(
                    "a window without a stream",
                    position=text.at(tokens[at]),
                    hint=f"write FROM trades {_CQL[6:]}",
                )
            end = closing(tokens, at)
            clauses.append(_bracket(text, tokens[at:end]))
            at = end
        elif opening := _flink_call(tokens, at):
            end = closing(tokens, opening)
            clause, source = _flink(text, tokens[opening - 1], tokens[opening + 1 : end - 1])
            clauses.append(clause)
            rest += source
            if tokens[at].token_type is TokenType.TABLE:
                if tokens[end].token_type is not TokenType.R_PAREN:
                    raise QueryError(
                        f"unexpected {text.raw(tokens[end])!r}",
                        position=text.at(tokens[end]),
                        hint="remove it",
                    )
                end += 1
            at = end
        else:
            rest.append(tokens[at])
            at += 1
    return rest + list(tokens[at:]), clauses


def from_clause(tokens: Sequence[Token]) -> int | None:
    """Return the index of the statement's FROM: outside parentheses, not that of IS DISTINCT FROM."""
    depth = 0
    for number, token in enumerate(tokens):
        depth += (token.token_type in _OPENERS) - (token.token_type in _CLOSERS)
        if (
            depth == 0
            and token.token_type is TokenType.FROM
            and tokens[number - 1].text.upper() != "DISTINCT"
        ):
            return number
    return None


def sources(tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens of the FROM clause: streams, their windows, and what joins them."""
    start = from_clause(tokens)
    if start is None:
        return ()
    end = start + 1
    while end < len(tokens) and tokens[end].token_type not in _CLAUSES:
        end += 1
    return tokens[start + 1 : end]


def read_duration(text: QueryText, tokens: Sequence[Token], part: str) -> int:
    """The microseconds of a duration, in quotes or not."""
    return _duration(_unquoted(text, tokens), part, text.at(tokens[0]))


def from_call(text: QueryText, call: exp.Anonymous, time: str | None) -> Clause:
    """Spark's ``window(time, range[, slide[, offset]])``; ``time`` is its first argument, already read."""
    position = position_of(text, call) or (1, 1)
    arguments = call.expressions[1:]
    if time is None or not 1 <= len(arguments) <= 3:
        raise QueryError(
            "window() takes a time column, a range, and optionally a slide and an offset",
            position=position,
            hint="write window(ts, '12 minutes', '5 minutes')",
        )
    durations: dict[str, int] = {}
    for part, argument in zip(("range", "slide", "offset"), arguments):
        where = position_of(text, argument) or position
        durations[part] = _duration(_interval_text(argument, part, where), part, where)
    return Clause(_window(durations, position), position, time)


def _window(durations: dict[str, int], position: Position) -> Window:
    size = durations["range"]
    try:
        return Window(size, durations.get("slide", size), durations.get("offset", 0))
    except QueryError as error:
        raise QueryError(error.message, position=position, hint=error.hint or _CQL) from None


def _duration(value: str, part: str, position: Position) -> int:
    try:
        return parse_duration(value, part, negative=part == "offset")
    except QueryError as error:
        raise QueryError(error.message, position=position, hint=error.hint) from None


def _interval_text(node: exp.Expr, part: str, position: Position) -> str:
    unit = ""
    if isinstance(node, exp.Interval):
        # A span such as HOUR TO MINUTE is no unit; its name is empty, and the duration is refused below.
        node, unit = node.this, node.args["unit"].name if node.args.get("unit") else ""
    sign = "-" if isinstance(node, exp.Neg) else ""
    node = node.this if sign else node
    if not isinstance(node, exp.Literal) or not (node.is_string or unit):
        raise QueryError(
            f"{part}: not a duration", position=position, hint="write it in quotes, as in '12 minutes'"
        )
    return f"{sign}{node.name} {unit}".strip()


def _unquoted(text: QueryText, tokens: Sequence[Token]) -> str:
    quoted = len(tokens) == 1 and tokens[0].token_type is TokenType.STRING
    return tokens[0].text if quoted else text.source(tokens)


def _bracket(text: QueryText, tokens: Sequence[Token]) -> Clause:
    """CQL's ``[RANGE '12 min' SLIDE '5 min' OFFSET '1 min']`` and ``[ROWS 100 SLIDE 10 OFFSET 1]``.

    Windows end at multiples of the slide.
    """
    position, inside = text.at(tokens[0]), tokens[1:-1]
    if inside and inside[0].text.upper().startswith("PARTITION"):
        raise QueryError(
            "a window has no PARTITION BY",
            position=text.at(inside[0]),
            hint="rows are counted per group: name the columns in GROUP BY",
        )
    rows = bool(inside) and inside[0].text.upper() == "ROWS" and inside[0].token_type is not TokenType.STRING
    first = "ROWS" if rows else "RANGE"
    parts: dict[str, list[Token]] = {}
    for token in inside:
        word = token.text.upper()
        if word in (first, "SLIDE", "OFFSET") and token.token_type is not TokenType.STRING:
            if word.lower() in parts:
                raise QueryError(f"a second {word}", position=text.at(token), hint=_CQL)
            parts[word.lower()] = []
        elif not parts:
            raise QueryError(
                f"a window begins with RANGE or ROWS, not with {text.raw(token)!r}",
                position=text.at(token),
                hint=_CQL,
            )
        else:
            parts[list(parts)[-1]].append(token)
    if first.lower() not in parts:
        raise QueryError("a window without RANGE or ROWS", position=position, hint=_CQL)
    sizes = {}
    for part, words in parts.items():
        if not words:
            raise QueryError(
                f"{part.upper()} without a {'number' if rows else 'duration'}", position=position, hint=_CQL
            )
        read = _count if rows else _duration
        sizes[part] = read(_unquoted(text, words), part, text.at(words[0]))
    size = sizes[first.lower()]
    try:
        window = Window.ending_at_multiples(size, sizes.get("slide", size), sizes.get("offset", 0), rows)
    except QueryError as error:
        raise QueryError(error.message, position=position, hint=error.hint or _CQL) from None
    return Clause(window, position)


def _count(value: str, part: str, position: Position) -> int:
    if not re.fullmatch(r"-? *[0-9]{1,20}", value.strip()):
        raise QueryError(
            f"{part}: {value[:40]!r} is not a number of rows",
            position=position,
            hint="write [ROWS 100 SLIDE 10]",
        )
    return int(value.replace(" ", ""))


def _flink_call(tokens: Sequence[Token], at: int) -> int | None:
    """Return the index where the arguments of a window function open; None for another table."""
    name = at
    if tokens[at].token_type is TokenType.TABLE and at + 1 < len(tokens):
        name += 2 if tokens[at + 1].token_type is TokenType.L_PAREN else 0
    if name + 1 >= len(tokens) or tokens[name + 1].token_type is not TokenType.L_PAREN:
        return None
    return name + 1 if tokens[name].text.upper() in ("HOP", "TUMBLE", "CUMULATE", "SESSION") else None


def _flink(text: QueryText, function: Token, tokens: Sequence[Token]) -> tuple[Clause, list[Token]]:
    """Flink's window functions: the window, and the tokens of the table they are over."""
    position, name = text.at(function), function.text.upper()
    if name not in _FLINK:
        raise QueryError(f"{name} windows are not supported", position=position, hint="use HOP or TUMBLE")
    arguments = _flink_arguments(text, name, tokens, position)
    source = arguments.pop("DATA")
    source = source[1:] if source and source[0].token_type is TokenType.TABLE else source
    if not source or any(t.token_type in _OPENERS for t in source):
        raise QueryError(f"{name} needs a table", position=position, hint=f"write {_FLINK[name]}")
    described = arguments.pop("TIMECOL")
    if (
        len(described) != 4
        or described[0].text.upper() != "DESCRIPTOR"
        or described[2].token_type in _LITERALS
    ):
        where = text.at(described[0]) if described else position
        raise QueryError(
            f"{name} needs DESCRIPTOR(time column)", position=where, hint=f"write {_FLINK[name]}"
        )
    durations = {}
    for argument, words in arguments.items():
        part = "range" if argument == "SIZE" else argument.lower()
        where = text.at(words[0]) if words else position
        durations[part] = _duration(_unquoted(text, words), part, where)
    return Clause(_window(durations, position), position, described[2].text, flink=True), source


def _flink_arguments(
    text: QueryText, name: str, tokens: Sequence[Token], position: Position
) -> dict[str, list[Token]]:
    names = _FLINK_ARGS[name]
    arguments: dict[str, list[Token]] = {}
    for number, argument in enumerate(split_list(tokens)):
        key = names[number] if number < len(names) else ""
        if len(argument) > 1 and argument[1].token_type is TokenType.FARROW:
            key = argument[0].text.upper()
            if key not in names:
                close = difflib.get_close_matches(key, names, n=1)
                hint = f"did you mean {close[0]}?" if close else f"its arguments are {', '.join(names)}"
                raise QueryError(f"{name} has no argument {key}", position=text.at(argument[0]), hint=hint)
            argument = argument[2:]
        if not key or key in arguments:
            where = text.at(argument[0]) if argument else position
            raise QueryError(f"too many arguments for {name}", position=where, hint=f"write {_FLINK[name]}")
        arguments[key] = argument
    for key in names:
        if key not in arguments and key != "OFFSET":
            raise QueryError(f"{name} without its {key}", position=position, hint=f"write {_FLINK[name]}")
    return arguments


def split_list(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Tokens between the commas that are in no inner parentheses."""
    depth, part = 0, list[Token]()
    for token in tokens:
        depth += (token.token_type in _OPENERS) - (token.token_type in _CLOSERS)
        if depth == 0 and token.token_type is TokenType.COMMA:
            yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part


def closing(tokens: Sequence[Token], opening: int) -> int:
    """One past the bracket that closes the one at ``opening``."""
    depth = 0
    for number in range(opening, len(tokens)):
        depth += (tokens[number].token_type in _OPENERS) - (tokens[number].token_type in _CLOSERS)
        if depth == 0:
            return number + 1
    return len(tokens)
