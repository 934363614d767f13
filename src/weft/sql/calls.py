"""Function calls: aggregates over rows, and the functions that expressions may use."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from weft import aggregates
from weft.aggregates import AggregateFunction
from weft.expr.functions import ALIASES, FUNCTIONS
from weft.model.expression import Call, Expr, Literal
from weft.sql.whitelist import SYNTAX, similar

if TYPE_CHECKING:
    from weft.sql.reader import Reader


def aggregate(reader: Reader, node: exp.Expr) -> tuple[str, tuple[Expr, ...]] | None:
    """Function and arguments of an aggregate over rows; None for anything else."""
    condition = None
    if isinstance(node, exp.Filter) and isinstance(node.this, (exp.Anonymous, exp.IgnoreNulls)):
        condition, node = node.expression.this, node.this
    if isinstance(node, exp.IgnoreNulls):
        node = node.this
    if not isinstance(node, exp.Anonymous):
        return None
    called = node.name.lower()
    function = aggregates.named(called)
    if function is None or function.name == "count_star":
        return None
    name, args = _arguments(reader, node, called, function)
    if condition is None:
        return name, args
    keep = replace(reader, clause="FILTER", names=None, collect=None).read(condition)
    if name == "count_star":
        return "count_if", (keep,)
    # Aggregates skip a row whose last argument, constants apart, is null.
    *others, last = args[: function.arity]
    null = Literal(None, "null", last.position)
    return name, (*others, Call("case", (keep, last, null), last.position), *args[function.arity :])


def function(reader: Reader, node: exp.Expr) -> Expr:
    """A call of a function of the whitelist."""
    if not isinstance(node, exp.Anonymous):
        raise reader.error(node, "FILTER and IGNORE NULLS are for aggregates only", "leave them out")
    called = node.name.lower()
    name = ALIASES.get(called, called)
    if name not in FUNCTIONS or not called.isidentifier() or name in SYNTAX:
        raise reader.error(node, f"function {node.name!r} is not supported", similar(called))
    _check_arity(reader, node, called, FUNCTIONS[name].min_args, FUNCTIONS[name].max_args)
    return Call(name, tuple(reader.read(e) for e in node.expressions), reader.position(node))


def _arguments(
    reader: Reader, node: exp.Anonymous, called: str, function: AggregateFunction
) -> tuple[str, tuple[Expr, ...]]:
    given = node.expressions
    if any(isinstance(g, exp.Distinct) for g in given):
        raise reader.error(node, f"{called}(DISTINCT ...) is not supported", "leave DISTINCT out")
    if (
        function.name == "count"
        and len(given) == 1
        and isinstance(given[0], (exp.Star, exp.Literal, exp.Boolean))
    ):
        reader.only(given[0], "this", "is_string")
        return "count_star", ()
    _check_arity(reader, node, called, *function.arities)
    given = [g.this if isinstance(g, exp.IgnoreNulls) else g for g in given]
    rows = replace(reader, clause=f"the arguments of {called}", names=None, collect=None)
    args = tuple(rows.read(g) for g in given)
    function.bound(args)
    return function.name, args


def _check_arity(reader: Reader, node: exp.Anonymous, called: str, fewest: int, most: int | None) -> None:
    given = len(node.expressions)
    if fewest <= given and (most is None or given <= most):
        return
    if fewest == most:
        wanted = "1 argument" if fewest == 1 else f"{fewest} arguments"
    else:
        wanted = f"{fewest} or more arguments" if most is None else f"{fewest} to {most} arguments"
    raise reader.error(node, f"{called} takes {wanted}, not {given}", "check its arguments")
