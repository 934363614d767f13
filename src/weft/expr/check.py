"""Checking: an expression against the stream's schema, before anything runs.

>>> schema = pa.schema({"price": pa.float64(), "symbol": pa.string()})
>>> check(Call("*", (Column("price"), Literal(2, "bigint"))), schema)
'double'
>>> check(Column("prise"), schema)
Traceback (most recent call last):
weft.errors.QueryError: unknown column 'prise'; did you mean 'price'?
"""

from __future__ import annotations

import datetime
import difflib
import threading
from functools import lru_cache
from typing import Any

import pyarrow as pa

from weft.errors import QueryError
from weft.expr.functions import ALIASES, FUNCTIONS
from weft.expr.node import Node, refusal, text_of
from weft.expr.rules import arity_error
from weft.expr.types import SQL_TYPES, UTC, arrow_type, is_utc, sql_type, time_zone
from weft.model.bounds import MAX_COMPILED_NESTING, MAX_CONSTANT_BYTES, MAX_PARTS
from weft.model.expression import Call, Column, Expr, Literal


def check(expr: Expr, schema: pa.Schema, zone: str = UTC) -> str:
    """Return the SQL type of an expression over rows of this schema; QueryError where it has none."""
    return compiler_for(schema, zone).compile(expr).type


def check_predicate(expr: Expr, schema: pa.Schema, zone: str = UTC) -> None:
    """Demand that an expression is a condition: boolean, or the literal NULL."""
    dtype = check(expr, schema, zone)
    if dtype not in ("boolean", "null"):
        raise refusal(
            expr,
            f"a condition is boolean, and {text_of(expr)} is {dtype}",
            "compare it with something" if dtype != "string" else f"write {text_of(expr)} = '...'",
        )


def result_type(expr: Expr, schema: pa.Schema, zone: str = UTC) -> pa.DataType:
    """Return the Arrow type in which ``Evaluator.evaluate`` gives the expression's values.

    >>> result_type(Column("n"), pa.schema({"n": pa.int16()}))
    DataType(int64)
    """
    node = compiler_for(schema, zone).compile(expr)
    return schema.field(node.param).type if node.type == "decimal" else node.arrow


def output_type(expr: Expr, schema: pa.Schema, zone: str, tz: str | None) -> pa.DataType:
    """Return the type of a result column of this expression: a column's own, instants in ``tz`` if given.

    >>> schema = pa.schema({"t": pa.timestamp("s", "Asia/Tokyo")})
    >>> output_type(Call("coalesce", (Column("t"), Column("t"))), schema, "UTC", "Europe/Paris")
    TimestampType(timestamp[us, tz=Europe/Paris])
    """
    if isinstance(expr, Column):
        check(expr, schema, zone)
        return schema.field(expr.name).type
    dtype = result_type(expr, schema, zone)
    return pa.timestamp("us", tz or dtype.tz) if pa.types.is_timestamp(dtype) and dtype.tz else dtype


def compiler_for(schema: pa.Schema, zone: str = UTC) -> Compiler:
    """Return the compiler of this schema; it is kept, so that equal expressions are checked once."""
    return _compiler(tuple(schema.names), tuple(schema.types), zone)


@lru_cache(maxsize=64)
def _compiler(names: tuple[str, ...], types: tuple[pa.DataType, ...], zone: str) -> Compiler:
    return Compiler(names, types, zone)


HELD_CONSTANT_BYTES = 64 * 1024 * 1024
"""Bytes of constants that a compiler keeps; beyond it, it begins anew."""


class Compiler:
    """A compiler of expressions over one schema into checked nodes; equal sub-expressions become one node.

    Local times are those of ``local_zone``, the run's: a column with a zone holds instants, whichever zone
    that is. A column without one holds local times as they stand.
    """

    def __init__(self, names: tuple[str, ...], types: tuple[pa.DataType, ...], zone: str = UTC) -> None:
        self.names, self.types, self.local_zone = names, types, zone
        self.zone = zone if any(time_zone(t) for t in types) else None
        self._nodes: dict[Any, Node] = {}
        # By identity: hashing a tree walks it, and the same tree comes back with every batch.
        self._compiled: dict[int, tuple[Expr, Node]] = {}
        self._size = self._constant_bytes = 0
        self._spellings: dict[Node, Expr] = {}
        self._lock = threading.Lock()

    def compile(self, expr: Expr) -> Node:
        """The checked form of an expression; QueryError says what is wrong with it, and where."""
        found = self._compiled.get(id(expr))
        if found is not None:
            return found[1]
        with self._lock:
            full = len(self._compiled) > 10_000 or len(self._nodes) > 10 * MAX_PARTS
            if full or self._constant_bytes > HELD_CONSTANT_BYTES:
                self._compiled.clear()
                self._nodes.clear()
                self._constant_bytes = 0
            self._size = 0
            self._spellings.clear()
            node = self._visit(expr, 0)
            self._compiled[id(expr)] = expr, node  # kept with the node, so that the identity stays taken
            return node

    def spelling(self, node: Node) -> Expr:
        """Return the expression as it was last written."""
        return self._spellings.get(node, node.source)

    def _visit(self, expr: Expr, depth: int) -> Node:
        self._size += 1
        if depth > MAX_COMPILED_NESTING:
            message = f"an expression is nested more than {MAX_COMPILED_NESTING} deep"
            raise refusal(expr, message, "split it into several")
        if self._size > MAX_PARTS:
            message = f"an expression has more than {MAX_PARTS:,} parts"
            raise refusal(expr, message, "split it into several")
        if isinstance(expr, Column):
            node = self._column(expr)
        elif isinstance(expr, Literal):
            node = self._literal(expr)
        else:
            node = self._call(expr, depth)
        self._spellings[node] = expr
        return node

    def _call(self, expr: Call, depth: int) -> Node:
        function = FUNCTIONS.get(expr.function)
        if function is None:
            raise unknown_function(expr)
        count = len(expr.args)
        if count < function.min_args or (function.max_args is not None and count > function.max_args):
            raise arity_error(expr, expr.function, function.min_args, function.max_args, count)
        if expr.function == "negate" and _is_smallest(expr.args[0]):
            return self._literal(Literal(-(2**63), "bigint", expr.position))
        parts = operands(expr) if expr.function in ("and", "or") else expr.args
        return function.rule(expr, [self._visit(a, depth + 1) for a in parts], self)

    def _column(self, column: Column) -> Node:
        indices = [i for i, name in enumerate(self.names) if name == column.name]
        if not indices:
            raise unknown_column(column, self.names)
        if len(indices) > 1:
            raise refusal(
                column, f"the stream has {len(indices)} columns named '{column.name}'", "rename them"
            )
        arrow = self.types[indices[0]]
        tz = self.local_zone if time_zone(arrow) else None
        try:
            kind = sql_type(arrow)
        except QueryError as error:
            message = f"column '{column.name}' is {arrow}, which expressions cannot read"
            raise refusal(column, message, error.hint) from None
        if kind == "null":
            return self.null(column, kind)  # nothing else can be in it
        return self._intern(column, "column", (), kind, tz, column.name)

    def _literal(self, literal: Literal) -> Node:
        value, kind = literal.value, literal.type
        if kind not in SQL_TYPES:
            raise refusal(literal, f"unknown type {kind} of the literal {value!r}")
        if isinstance(value, str) and kind in ("timestamp", "date"):
            tz = self.zone if kind == "timestamp" else None
            return self.coerce(self._scalar(literal, "string", None, value), kind, tz)
        if not isinstance(value, datetime.datetime):
            return self._scalar(literal, kind, None, value)
        instant = self.local_zone if value.tzinfo else None
        return self.coerce(self._scalar(literal, kind, instant, value), kind, self.zone or instant)

    def _scalar(self, source: Expr, kind: str, tz: str | None, value: Any) -> Node:
        try:
            scalar = pa.scalar(value, arrow_type(kind, tz))
        except (pa.ArrowException, TypeError, OverflowError, ValueError):
            raise refusal(source, f"{value!r} is not a {kind}") from None
        return self._constant(source, kind, tz, scalar)

    def _constant(self, source: Expr, kind: str, tz: str | None, scalar: pa.Scalar) -> Node:
        if kind == "string" and scalar.is_valid:
            size = len(scalar.as_buffer())
            if size > MAX_CONSTANT_BYTES:
                message = f"a constant of {size:,} bytes, and the most is {MAX_CONSTANT_BYTES:,}"
                raise refusal(source, message, "use shorter text")
            self._constant_bytes += size
        # The text tells -0.0 from 0.0; timestamps may lie outside the years Python knows.
        key = scalar.value if kind in ("timestamp", "date") else repr(scalar.as_py())
        return self._intern(source, "literal", (), kind, tz, scalar, key=(key,))

    def null(self, source: Expr, dtype: str, tz: str | None = None) -> Node:
        """Return the literal NULL of a type."""
        return self._scalar(source, dtype, tz, None)

    def make(
        self,
        source: Expr,
        function: str,
        args: list[Node],
        dtype: str,
        tz: str | None = None,
        param: Any = None,
    ) -> Node:
        """Return the node of this operation; a constant where its arguments are."""
        definition = FUNCTIONS[function]
        if function == "cast" and not is_utc(self.local_zone):
            (arg,) = args
            if arg.type == "timestamp" and arg.tz is None and dtype in ("bigint", "double"):
                args = [self.coerce(arg, "timestamp", self.local_zone)]
            elif dtype == "timestamp" and tz is None and arg.type in ("bigint", "double"):
                args = [self.make(source, "cast", args, dtype, self.local_zone)]
            elif dtype == "timestamp" and tz is None and arg.type == "string":
                param = self.local_zone  # of texts that name another
        if definition.lazy is None:
            if definition.strict and any(a.is_null for a in args):
                return self.null(source, dtype, tz)
            node = self._intern(source, function, tuple(args), dtype, tz, param)
            if all(a.is_literal for a in args) and definition.kernel is not None:
                result = definition.kernel(node, *(pa.repeat(a.param, 1) for a in args))
                if not isinstance(result, tuple):
                    return self._constant(source, dtype, tz, result[0])
            return node
        return self._intern(source, function, tuple(args), dtype, tz, param)

    def coerce(self, node: Node, dtype: str, tz: str | None = None) -> Node:
        """Return the node's values as another type."""
        if node.type == dtype and node.tz == tz:
            return node
        source = self.spelling(node)
        if node.is_null:
            return self.null(source, dtype, tz)
        result = self.make(source, "cast", [node], dtype, tz)
        if node.is_literal and not result.is_literal:
            example = "'2024-01-31 12:30:00'" if dtype == "timestamp" else "'2024-01-31'"
            raise refusal(source, f"{text_of(source)} is not a {dtype}", f"write it like {example}")
        return result

    def _intern(
        self,
        source: Expr,
        function: str,
        args: tuple[Node, ...],
        dtype: str,
        tz: str | None,
        param: Any,
        key: Any = None,
    ) -> Node:
        identity = (function, tuple(map(id, args)), dtype, tz, param if key is None else key)
        node = self._nodes.get(identity)
        if node is None:
            below = (
                frozenset((param,)) if function == "column" else frozenset().union(*(a.columns for a in args))
            )
            node = self._nodes[identity] = Node(function, args, dtype, tz, param, source, below)
        return node


def _is_smallest(expr: Expr) -> bool:
    """Return whether this is 2^63, which fits bigint only with the minus before it."""
    return isinstance(expr, Literal) and expr.type == "bigint" and expr.value == 2**63


def operands(call: Call) -> list[Expr]:
    """The operands of a chain of ANDs (or ORs) from left to right, however it is nested.

    >>> a, b, c = Column("a"), Column("b"), Column("c")
    >>> operands(Call("and", (Call("and", (a, b)), c))) == [a, b, c]
    True
    """
    terms: list[Expr] = []
    stack: list[Expr] = [call]
    while stack:
        expr = stack.pop()
        if isinstance(expr, Call) and expr.function == call.function and len(expr.args) >= 2:
            stack.extend(reversed(expr.args))
        else:
            terms.append(expr)
    return terms


def unknown_column(column: Column, names: tuple[str, ...]) -> QueryError:
    """The error for a column the stream does not have, with the name that was probably meant."""
    lowered = {name.lower(): name for name in names}
    close = difflib.get_close_matches(column.name.lower(), lowered, 1)
    if close:
        hint = f"did you mean '{lowered[close[0]]}'?"
    elif len(names) <= 12:
        hint = f"the columns are {', '.join(names)}"
    else:
        hint = f"the stream has {len(names)} columns, among them {', '.join(names[:8])}"
    return refusal(column, f"unknown column '{column.name}'", hint)


def unknown_function(call: Call) -> QueryError:
    """The error for a function that is not on the whitelist."""
    if call.function in ALIASES:
        hint: str | None = f"it is called {ALIASES[call.function]} here"
    else:
        close = difflib.get_close_matches(call.function.lower(), [n for n in FUNCTIONS if n[0].isalpha()], 1)
        hint = f"did you mean '{close[0]}'?" if close else None
    return refusal(call, f"unknown function '{call.function}'", hint)
