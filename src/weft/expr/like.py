"""LIKE: ``%`` for any text, ``_`` for any one code point, newlines too; an escape takes them literally."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.arrays import Result
from weft.expr.node import Builder, Node, refusal
from weft.expr.rules import constant, convert
from weft.model.bounds import MAX_LIKE_CHARACTERS
from weft.model.expression import Call


@dataclass(frozen=True, slots=True)
class Pattern:
    """A LIKE pattern taken apart: pieces of text, with None for ``%`` and 0 for ``_`` between them."""

    text: str
    escape: str
    pieces: tuple[str | int | None, ...]


def like(call: Call, args: list[Node], build: Builder) -> Node:
    """x LIKE pattern [ESCAPE character]: the pattern is a constant."""
    (subject,) = convert(call, args[:1], "string", build)
    pattern = constant(call, args[1], "string", build)
    escape = constant(call, args[2], "string", build) if len(args) == 3 else "\\"
    if pattern is None or escape is None:
        return build.null(call, "boolean")
    return build.make(call, "like", [subject], "boolean", param=parse(str(pattern), str(escape), call))


def parse(pattern: str, escape: str = "\\", call: Call | None = None) -> Pattern:
    """The pieces of a pattern.

    >>> parse("50\\\\%_%").pieces
    ('50%', 0, None)
    """
    where = call or Call("like", ())
    if len(escape) != 1:
        raise refusal(where, f"the ESCAPE of a LIKE is one character, not {escape!r}")
    if len(pattern) > MAX_LIKE_CHARACTERS:
        raise refusal(
            where,
            f"the LIKE pattern has {len(pattern):,} characters, and the most is {MAX_LIKE_CHARACTERS:,}",
            "write starts_with, ends_with, contains or =, or compare length()",
        )
    pieces: list[str | int | None] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            character = next(characters, "")
            if character not in ("%", "_", escape) or not character:
                raise refusal(
                    where,
                    f"in the LIKE pattern '{pattern}' the escape {escape} is not before %, _ or itself",
                    f"double it ({escape * 2}) to mean the character {escape}",
                )
        elif character in "%_":
            pieces.append(None if character == "%" else 0)
            continue
        if pieces and isinstance(pieces[-1], str):
            pieces[-1] += character
        else:
            pieces.append(character)
    return Pattern(pattern, escape, tuple(pieces))


def matches(node: Node, arg: pa.Array) -> Result:
    """The kernel: plain comparisons where the pattern is that simple, else a regular expression."""
    match node.param.pieces:
        case ():
            return pc.equal(arg, "")
        case (None,):
            return pc.starts_with(arg, "")  # keeps the NULLs
        case (str(text),):
            return pc.equal(arg, text)
        case (str(text), None):
            return pc.starts_with(arg, text)
        case (None, str(text)):
            return pc.ends_with(arg, text)
        case (None, str(text), None):
            return pc.match_substring(arg, text)
    parts = {None: ".*", 0: "."}
    regex = "".join(parts[p] if not isinstance(p, str) else re.escape(p) for p in node.param.pieces)
    return pc.match_substring_regex(arg, rf"(?s)\A(?:{regex})\z")
