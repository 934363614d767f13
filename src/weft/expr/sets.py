"""``x IN (constants)``: the list becomes one set, however long it is."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from weft.expr.node import Builder, Node, refusal, text_of
from weft.expr.rules import meet
from weft.model.bounds import MAX_IN_VALUES
from weft.model.expression import Call


@dataclass(frozen=True, slots=True)
class Members:
    """The values of an IN list, without its NULLs."""

    values: tuple[object, ...]
    has_null: bool
    has_nan: bool
    array: pa.Array = field(compare=False, repr=False)


def membership(call: Call, args: list[Node], build: Builder) -> Node:
    """The rule of IN: constants of a type that compares with x."""
    if (count := len(args) - 1) > MAX_IN_VALUES:
        message = f"IN has {count:,} values, and the most is {MAX_IN_VALUES:,}"
        raise refusal(call, message, "join a table that has them")
    for item in args[1:]:
        if not item.is_literal:
            expr = build.spelling(item)
            message = f"IN takes constants, and {text_of(expr)} is not one"
            raise refusal(
                expr, message, f"write {text_of(build.spelling(args[0]))} = {text_of(expr)} OR ...", call
            )
    subject, *items = meet(call, args, "compare", build)
    scalars = list(dict.fromkeys(i.param for i in items if not i.is_null))
    # Instants, not local times: an hour that comes twice has two, which are equal in Python.
    values = tuple(s.value if subject.type == "timestamp" else s.as_py() for s in scalars)
    if subject.is_null or not values:
        return build.null(call, "boolean")
    array = pa.array(values, subject.arrow)
    if subject.type == "double" and 0.0 in values:  # Arrow tells -0.0 from 0.0, SQL does not
        array = pa.concat_arrays([array, pa.array([0.0, -0.0])])
    has_nan = any(value != value for value in values)
    members = Members(values, any(i.is_null for i in items), has_nan, array)
    return build.make(call, "in", [subject], "boolean", param=members)
