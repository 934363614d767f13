"""User-defined aggregates as functions that queries can name: compiled where that is possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from weft.aggregates.compiled import UserPart
from weft.aggregates.definition import Definition
from weft.aggregates.formulas import obstacle
from weft.aggregates.function import ORDERED_TYPES, AggregateFunction, Exprs, Types
from weft.aggregates.objects import Algebra, ObjectPart
from weft.aggregates.part import Part, States, part
from weft.aggregates.plain import Ordered, Plain

ARROW = {
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "timestamp": pa.int64(),
    "date": pa.int64(),
}


@dataclass(frozen=True)
class AggregateSplit:
    """A user's aggregate as its own part, and the count that says whether there is an answer."""

    definition: Definition

    def __call__(self, args: Exprs, types: Types) -> tuple[Part, ...]:
        """Return the parts for these arguments."""
        return self.own(args, types), part("count", args, types)

    def own(self, args: Exprs, types: Types) -> Part:
        """Return the part that holds the user's states."""
        if obstacle(self.definition, types) is None:
            return UserPart(self.definition.name, args, types, self.definition)
        algebra: Algebra = Plain(self.definition)
        if not self.definition.commutative:
            algebra = Ordered(self.definition, floats="double" in types)
        return ObjectPart(self.definition.name, args, types, algebra)


@dataclass(frozen=True)
class Lower:
    """The user's answers, NULL where no row counted."""

    definition: Definition

    def __call__(self, parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
        """Return the answers as a column."""
        own, words = parts[0], states[0].words
        own_states = own.python_states(words) if isinstance(own, UserPart) else words[:, 0].tolist()
        counts = states[1].words[:, 0].tolist()
        answers = [self.definition.answer(s) if n else None for s, n in zip(own_states, counts)]
        return pa.array(answers, ARROW[self.definition.result])


@dataclass(frozen=True)
class ResultType:
    """The SQL type of the answers."""

    type: str

    def __call__(self, types: Types) -> str:
        """Return that type, whatever the arguments are."""
        return self.type


def function_of(definition: Definition) -> AggregateFunction:
    """Return the aggregate function that a definition makes."""
    return AggregateFunction(
        definition.name,
        (ORDERED_TYPES,) * definition.arguments,
        AggregateSplit(definition),
        ResultType(definition.result),
        Lower(definition),
        "defined by the user",
    )
