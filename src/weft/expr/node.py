"""The checked form of an expression: columns resolved, types known, implicit casts made explicit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from weft.errors import QueryError
from weft.expr.types import arrow_type
from weft.model.expression import Call, Expr, Position


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One operation of a checked expression; equal operations over one schema are one object.

    ``param`` is what is known before any row is seen: a column's name, a literal's value, the set
    of an IN, the pattern of a LIKE. ``columns`` are the names of the columns below, and ``source``
    is how the operation was first written.
    """

    function: str
    args: tuple[Node, ...]
    type: str
    tz: str | None
    param: Any
    source: Expr = field(repr=False)
    columns: frozenset[str] = field(repr=False)

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of the values."""
        return arrow_type(self.type, self.tz)

    @property
    def is_literal(self) -> bool:
        """True where the value is known before any row is seen."""
        return self.function == "literal"

    @property
    def is_null(self) -> bool:
        """True for the literal NULL, of whatever type."""
        return self.function == "literal" and not self.param.is_valid

    @property
    def value(self) -> Any:
        """A literal's value in Python."""
        return self.param.as_py()


class Builder(Protocol):
    """The part of the compiler that the type rules need."""

    local_zone: str
    """The zone of the run."""

    zone: str | None
    """The zone of timestamps that casts and literals make: that of the run, or none as all columns have."""

    def make(
        self,
        source: Expr,
        function: str,
        args: list[Node],
        dtype: str,
        tz: str | None = None,
        param: Any = None,
    ) -> Node:
        """The node of this operation, made once."""

    def coerce(self, node: Node, dtype: str, tz: str | None = None) -> Node:
        """The node's values as another type, where the implicit casts allow it."""

    def null(self, source: Expr, dtype: str, tz: str | None = None) -> Node:
        """The literal NULL of a type."""

    def spelling(self, node: Node) -> Expr:
        """Return the expression as last written: the node's own source may be that of another query."""


def text_of(expr: Expr, limit: int = 80) -> str:
    """The expression as text for a message, shortened where it is long.

    >>> from weft.model.expression import Column
    >>> text_of(Call("+", (Column("a"), Column("b"))))
    '(a + b)'
    """
    if isinstance(expr, Call) and len(expr.args) > 50:
        expr = Call(expr.function, expr.args[:50], expr.position)
    try:
        text = str(expr)
    except RecursionError:
        text = f"{expr.function}(...)" if isinstance(expr, Call) else "..."
    return text if len(text) <= limit else text[: limit - 3] + "..."


def position_of(expr: Expr) -> Position | None:
    """Return the expression's position in the query's text: its own position or that of its first part."""
    while expr.position is None and isinstance(expr, Call) and expr.args:
        expr = expr.args[0]
    return expr.position


def refusal(expr: Expr, message: str, hint: str | None = None, within: Expr | None = None) -> QueryError:
    """The error for an expression that cannot be used, at its position or else that of what is around it."""
    position = position_of(expr) or (position_of(within) if within is not None else None)
    return QueryError(message, position=position, hint=hint)
