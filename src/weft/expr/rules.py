"""Type rules: what each function accepts, what it gives, and which implicit casts it makes.

A rule takes the call, its checked arguments and the builder, and returns the checked call. Numbers
meet as bigint or double, dates and timestamps as timestamp, NULL as anything, and a string literal
is read as the timestamp or date it meets; every other cast must be written out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from weft.errors import QueryError
from weft.expr.kernels.casting import CASTS
from weft.expr.node import Builder, Node, refusal, text_of
from weft.expr.types import SQL_TYPES
from weft.model.expression import Call, Expr

Rule: TypeAlias = Callable[[Call, list[Node], Builder], Node]


def arithmetic(call: Call, args: list[Node], build: Builder) -> Node:
    """Numbers in; double where one of them is, else bigint."""
    target = "double" if any(a.type == "double" for a in args) else "bigint"
    return build.make(call, call.function, convert(call, args, target, build), target)


def takes(*targets: str, gives: str) -> Rule:
    """Arguments of these types; the last one repeats."""

    def rule(call: Call, args: list[Node], build: Builder) -> Node:
        names = [*targets, *targets[-1:] * (len(args) - len(targets))]
        return build.make(call, call.function, convert(call, args, names, build), gives)

    return rule


def whole(call: Call, args: list[Node], build: Builder) -> Node:
    """floor and ceil: a bigint already is what they give."""
    (arg,) = convert(call, args, "double" if args[0].type == "double" else "bigint", build)
    return arg if arg.type == "bigint" else build.make(call, call.function, [arg], "bigint")


def rounding(call: Call, args: list[Node], build: Builder) -> Node:
    """round(x[, digits]): the type of x, digits a constant."""
    digits = constant(call, args[1], "bigint", build) if len(args) == 2 else 0
    target = "double" if args[0].type == "double" else "bigint"
    (arg,) = convert(call, args[:1], target, build)
    if digits is None:
        return build.null(call, target)
    if target == "bigint" and digits >= 0:
        return arg
    return build.make(call, "round", [arg], target, param=max(-400, min(400, digits)))


def comparison(call: Call, args: list[Node], build: Builder) -> Node:
    """Two values of a common type in, boolean out."""
    return build.make(call, call.function, meet(call, args, "compare", build), "boolean")


def null_safe_equal(call: Call, args: list[Node], build: Builder) -> Node:
    """``<=>``: against NULL it is IS NULL."""
    left, right = meet(call, args, "compare", build)
    if left.is_null or right.is_null:
        return build.make(call, "is_null", [right if left.is_null else left], "boolean")
    return build.make(call, "<=>", [left, right], "boolean")


def is_null(call: Call, args: list[Node], build: Builder) -> Node:
    """Any type in, boolean out."""
    return build.make(call, "is_null", args, "boolean")


def extreme(call: Call, args: list[Node], build: Builder) -> Node:
    """greatest and least: the common type; NULLs are skipped."""
    values = meet(call, args, "compare", build)
    present = [v for v in values if not v.is_null] or values[:1]
    if len(present) == 1:
        return present[0]
    return build.make(call, call.function, present, present[0].type, present[0].tz)


def case(call: Call, args: list[Node], build: Builder) -> Node:
    """c1, v1, c2, v2, ..., else: boolean conditions, values of a common type."""
    if len(args) % 2 == 0:
        raise refusal(call, "CASE needs a value for each condition and one for ELSE")
    conditions = convert(call, args[:-1:2], "boolean", build)
    values = meet(call, [*args[1::2], args[-1]], "mix in one CASE", build)
    pairs = [node for pair in zip(conditions, values) for node in pair]
    return build.make(call, "case", [*pairs, values[-1]], values[-1].type, values[-1].tz)


def nullif(call: Call, args: list[Node], build: Builder) -> Node:
    """nullif(a, b): CASE WHEN a = b THEN NULL ELSE a END."""
    equal = build.make(call, "=", meet(call, args, "compare", build), "boolean")
    value = args[0]
    return build.make(
        call, "case", [equal, build.null(call, value.type, value.tz), value], value.type, value.tz
    )


def coalesce(call: Call, args: list[Node], build: Builder) -> Node:
    """The first value that is not NULL, of the common type."""
    values = meet(call, args, "mix in one coalesce()", build)
    present = [v for v in values if not v.is_null] or values[:1]
    if len(present) == 1:
        return present[0]
    return build.make(call, "coalesce", present, present[0].type, present[0].tz)


def strings(parameters: int, gives: str) -> Rule:
    """A string, then so many string constants (those left out are empty)."""

    def rule(call: Call, args: list[Node], build: Builder) -> Node:
        (subject,) = convert(call, args[:1], "string", build)
        constants = tuple(constant(call, a, "string", build) for a in args[1:])
        if None in constants:
            return build.null(call, gives)
        return build.make(
            call, call.function, [subject], gives, param=constants + ("",) * (parameters - len(constants))
        )

    return rule


def slicing(call: Call, args: list[Node], build: Builder) -> Node:
    """substring, left, right: a string, then integer constants."""
    (subject,) = convert(call, args[:1], "string", build)
    bounds = tuple(constant(call, a, "bigint", build) for a in args[1:])
    if None in bounds:
        return build.null(call, "string")
    return build.make(call, call.function, [subject], "string", param=bounds)


def date_part(call: Call, args: list[Node], build: Builder) -> Node:
    """year, month...: a date or a timestamp, in the zone of the run, or as it stands where it has none."""
    (arg,) = args
    if arg.type != "timestamp" and (arg.type != "date" or call.function in ("hour", "minute", "second")):
        # As in Spark: where clocks skip midnight, a day begins at one.
        (arg,) = convert(call, args, "timestamp", build)
        arg = build.coerce(arg, "timestamp", build.local_zone)
    return build.make(call, call.function, [arg], "bigint")


def casting(call: Call, args: list[Node], build: Builder) -> Node:
    """cast(x, 'type'): a timestamp is an instant where the stream has any, else a local time."""
    arg, target = args[0], args[1].value if args[1].is_literal else None
    names = [name for name in SQL_TYPES if name != "null"]
    if target not in names:
        raise refusal(call, f"cannot cast to {target}", f"the types are {', '.join(names)}")
    if arg.type == target:
        return arg
    tz = build.zone if target == "timestamp" else None
    if arg.type == "null":
        return build.null(call, target, tz)
    if (arg.type, target) not in CASTS:
        into = ", ".join(to for source, to in CASTS if source == arg.type and to != source)
        raise refusal(
            call, f"cannot cast {arg.type} to {target} in {text_of(call)}", f"{arg.type} casts to {into}"
        )
    return build.make(call, "cast", [arg], target, tz)


def convert(call: Call, args: list[Node], target: str | Sequence[str], build: Builder) -> list[Node]:
    """Convert the arguments to the target types, or raise the error that names the one that cannot be."""
    names = [target] * len(args) if isinstance(target, str) else target
    return [_convert(call, a, name, build) for a, name in zip(args, names, strict=True)]


def _convert(call: Call, arg: Node, target: str, build: Builder) -> Node:
    if arg.type == target or arg.type == "null":
        return arg if arg.type == target else build.coerce(arg, target)
    refuse_decimal(arg, build)
    if (arg.type, target) in (("bigint", "double"), ("date", "timestamp")):
        return build.coerce(arg, target)
    if arg.type == "string" and target in ("timestamp", "date") and arg.is_literal:
        return build.coerce(arg, target)
    name = call.function
    where = {"case": "a CASE condition", "and": "AND", "or": "OR", "not": "NOT"}.get(name, name)
    article = "is" if name == "case" else "takes"
    number = "a number" if target == "bigint" and name in NUMERIC_FUNCTIONS else f"a {target}"
    text = text_of(build.spelling(arg))
    message = f"{where} {article} {number}, and {text} is {arg.type}"
    raise refusal(build.spelling(arg), message, _remedy(text, arg.type, target), call)


NUMERIC_FUNCTIONS = frozenset(("+", "-", "*", "%", "negate", "abs", "round", "floor", "ceil"))


def meet(call: Call, args: list[Node], verb: str, build: Builder) -> list[Node]:
    """Return the arguments as their common type."""
    kinds = dict.fromkeys(a.type for a in args if a.type != "null")
    if len(kinds) == 1 and "timestamp" not in kinds and "decimal" not in kinds:
        (kind,) = kinds
        return [a if a.type == kind else build.coerce(a, kind) for a in args]
    for arg in args:
        refuse_decimal(arg, build)
    common = _common(kinds)
    if common is None or any(
        a.type == "string" and not a.is_literal for a in args if common in ("timestamp", "date")
    ):
        left, right = list(kinds)[:2]
        odd = next(a for a in args if a.type == right)
        raise refusal(
            call,
            f"cannot {verb} {left} with {right} in {text_of(call)}",
            _remedy(text_of(build.spelling(odd)), right, left),
        )
    zones = [a.tz for a in sorted(args, key=lambda a: a.is_literal) if a.tz]
    return [build.coerce(a, common, zones[0] if zones else None) for a in args]


def _common(kinds: dict[str, None]) -> str | None:
    names = set(kinds)
    if not names:
        return "null"
    if names <= {"bigint", "double"}:
        return "double"
    if names <= {"timestamp", "date", "string"}:
        return "timestamp" if "timestamp" in names else "date"
    return None


def constant(call: Call, arg: Node, target: str, build: Builder) -> Any:
    """Return the value of an argument that must be known before any row is seen."""
    value = _convert(call, arg, target, build)
    if not value.is_literal:
        expr = build.spelling(arg)
        message = f"{call.function} needs a constant here, and {text_of(expr)} is not one"
        raise refusal(expr, message, f"only the first argument of {call.function} may be a column", call)
    return value.value


def refuse_decimal(arg: Node, build: Builder) -> None:
    """Decimals are exact only under a cast."""
    if arg.type == "decimal":
        text = text_of(build.spelling(arg))
        raise refusal(
            build.spelling(arg),
            f"{text} is decimal, which only cast(), IS NULL and count() take",
            f"write cast({text} AS double)",
        )


def _remedy(text: str, given: str, target: str) -> str | None:
    castable = {"string": ("bigint", "double", "boolean", "timestamp", "date")}
    if target == "string" or target in castable.get(given, ()) or (given, target) == ("boolean", "bigint"):
        return f"write cast({text} AS {target})"
    return None


def arity_error(call: Expr, name: str, least: int, most: int | None, count: int) -> QueryError:
    """Return the error for a wrong number of arguments."""
    if most is None:
        expected = f"at least {least}"
    else:
        expected = str(least) if least == most else f"{least} to {most}"
    plural = "" if expected == "1" else "s"
    return refusal(call, f"{name} takes {expected} argument{plural}, not {count}")
