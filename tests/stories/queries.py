"""Queries over a story's columns, which share some of their windows, predicates and groupings."""

from __future__ import annotations

import datetime
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stories.story import Static
from weft.aggregates import FUNCTIONS
from weft.final import fits
from weft.model.expression import Call, Column, Expr, Literal
from weft.model.query import Aggregate, Lookup, Output, Query
from weft.model.window import Window

VALUES = {"x": "double", "n": "bigint", "m": "bigint", "w": "string"}
GIVEN = {"label": "string", "rank": "bigint", "rate": "double"}
"""What the tables give."""

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


@dataclass(frozen=True)
class Columns:
    """The stream's key columns with their SQL types, the tables beside it, and values to compare with."""

    keys: Mapping[str, str]
    tables: Mapping[str, Static]
    literals: Mapping[str, tuple[Any, ...]]


class QueryMaker:
    """Makes queries that go together."""

    def __init__(
        self, chance: random.Random, unit: int, columns: Columns, technique: str, few: bool = False
    ) -> None:
        self.chance, self.unit, self.columns = chance, unit, columns
        self.functions = sorted(f for f in FUNCTIONS if technique == "auto" or _runs(f, technique))
        self.few = few
        self.windows = [self._window() for _ in range(chance.choice((1, 2, 3)))]
        self.groupings = [self._keys() for _ in range(chance.choice((1, 1, 2, 3)))]
        self.joins = [self._joins() for _ in range(2)] if columns.tables else [()]
        self.predicates: list[Expr | None] = [
            None,
            *(self._predicate(2, {}) for _ in range(chance.choice((0, 1, 3)))),
        ]

    def query(self, name: str, like: Query | None = None) -> Query:
        """A query, or one that differs from another in some things alone."""
        chance = self.chance
        joins = chance.choice(self.joins) if chance.random() < 0.7 else ()
        group_by, predicate = chance.choice(self.groupings), chance.choice(self.predicates)
        window = chance.choice(self.windows) if chance.random() < 0.8 else self._window()
        if like is not None:
            joins, group_by, predicate = like.lookups, like.group_by, like.predicate
            if chance.random() < 0.3:
                window = like.window
        elif joins:
            given = self._given(joins)
            if chance.random() < 0.5:
                there = [f"{join.alias}.label" for join in joins] + [f"{join.alias}.rank" for join in joins]
                group_by = (*group_by[:3], *chance.sample(there, 1))
            if chance.random() < 0.4:
                predicate = self._predicate(1, given)
        if like is not None and chance.random() < 0.3:
            aggregates = like.aggregates
        else:
            aggregates = tuple(
                self._aggregate(place, self._given(joins)) for place in range(chance.choice((1, 1, 2, 3, 4)))
            )
        names = tuple(key.replace(".", "_") for key in group_by) if joins else ()
        query = Query(name, "s", window, aggregates, group_by, predicate, lookups=joins, group_names=names)
        return self._finished(query)

    def _window(self) -> Window:
        chance, unit = self.chance, self.unit
        kind = chance.random()
        if kind < 0.15:
            return Window(chance.randint(1, 6), chance.randint(1, 4), chance.randint(0, 4), rows=True)
        slide = chance.choice((1, 2, 3, 4, 5, 10, 12, 60))
        if kind < 0.25 and not self.few:  # hopping: what is between windows is in none
            return Window(
                max(1, slide * unit // chance.choice((2, 3))), slide * unit, chance.choice((0, 1, unit))
            )
        length = slide * chance.choice((1, 1, 2, 3, 5, 8)) * unit
        if chance.random() < 0.15:
            length += chance.choice((1, unit // 2, unit // 3))
        return Window(length, slide * unit, chance.choice((0, 0, 0, 1, unit // 2, unit, -length)))

    def _keys(self) -> tuple[str, ...]:
        count = self.chance.choice((0, 1, 1, 2, 2, 2, 3, 4))
        return tuple(self.chance.sample(sorted(self.columns.keys), count))

    def _joins(self) -> tuple[Lookup, ...]:
        chance = self.chance
        found = []
        for name in chance.sample(sorted(self.columns.tables), chance.randint(1, len(self.columns.tables))):
            keys = list(self.columns.tables[name].keys)
            chance.shuffle(keys)
            pairs = tuple((Column(key[1:]), key) for key in keys)
            found.append(Lookup(name, pairs, chance.choice(("inner", "left"))))
        return tuple(found)

    def _given(self, joins: Sequence[Lookup]) -> dict[str, str]:
        return {f"{join.alias}.{name}": dtype for join in joins for name, dtype in GIVEN.items()}

    def _aggregate(self, place: int, given: Mapping[str, str]) -> Aggregate:
        name = self.chance.choice(self.functions)
        if self.chance.random() < 0.25 and "sum" in self.functions:
            name = "sum"
        args = tuple(self._argument(accepts, given) for accepts in FUNCTIONS[name].accepts)
        return Aggregate(name, args, f"{name}_{place}")

    def _argument(self, accepts: frozenset[str], given: Mapping[str, str]) -> Expr:
        chance = self.chance
        if "double" not in accepts:
            return self._predicate(0, given)
        types = {**VALUES, **given}
        if "string" in accepts and chance.random() < 0.3:  # keys may be too large to be summed
            types |= self.columns.keys
        fitting = sorted(name for name, dtype in types.items() if dtype in accepts)
        column: Expr = Column("x" if chance.random() < 0.25 else chance.choice(fitting))
        if types[str(column)] in ("bigint", "double") and chance.random() < 0.25:
            other = Literal(chance.choice((2, -3)), "bigint")
            return Call(chance.choice(("+", "-", "*")), (column, chance.choice((other, Column("m")))))
        return column

    def _predicate(self, depth: int, given: Mapping[str, str]) -> Expr:
        chance = self.chance
        if depth and chance.random() < 0.4:
            function = chance.choice(("and", "or", "not"))
            count = 1 if function == "not" else 2
            return Call(function, tuple(self._predicate(depth - 1, given) for _ in range(count)))
        types = {**VALUES, **self.columns.keys, **given}
        name = chance.choice(sorted(types))
        column = Column(name)
        if chance.random() < 0.15:
            return Call("is_null", (column,))
        if types[name] == "boolean":
            return column
        literals = [self._literal(name, types[name]) for _ in range(2)]
        if types[name] == "string" and chance.random() < 0.5:
            pattern = Literal(chance.choice(("k%", "%a%", "_", "%")), "string")
            return chance.choice((Call("like", (column, pattern)), Call("in", (column, *literals))))
        return Call(chance.choice(COMPARISONS), (column, literals[0]))

    def _literal(self, name: str, dtype: str) -> Literal:
        chance = self.chance
        known = [v for v in self.columns.literals.get(name, ()) if dtype != "double"]
        if known:
            return Literal(chance.choice(known), dtype)
        values: dict[str, tuple[Any, ...]] = {
            "bigint": (-2, 0, 1, 5),
            "double": (-0.5, 0.0, 1.5),
            "string": ("", "a", "u", "b%"),
            "date": (datetime.date(1970, 1, 1),),
            "timestamp": (datetime.datetime(1970, 1, 1),),
        }
        return Literal(chance.choice(values[dtype]), dtype)

    def _finished(self, query: Query) -> Query:
        """The query as it is, or with columns computed from its aggregates, or with a HAVING."""
        chance = self.chance
        counts = [a.alias for a in query.aggregates if a.function.startswith("count")]
        means = [a.alias for a in query.aggregates if a.function in ("sum", "avg", "var_pop")]
        if counts and chance.random() < 0.3:
            least = Literal(chance.randint(0, 2), "bigint")
            query = replace(query, having=Call(">", (Column(counts[0]), least)))
        if means and counts and chance.random() < 0.3:
            ratio = Call("/", (Column(means[0]), Column(counts[0])))
            query = replace(query, outputs=(Output("ratio", ratio), Output("same", Column(counts[0]))))
        return query


def _runs(function: str, technique: str) -> bool:
    """Whether a technique can run an aggregate, whatever its arguments are."""
    found = FUNCTIONS[function]
    for dtype in ("bigint", "double", "string", "boolean"):
        if all(dtype in accepts for accepts in found.accepts):
            args = tuple(Column(f"c{n}") for n in range(len(found.accepts)))
            parts = found.parts(args, tuple(dtype for _ in args))
            if not all(fits(technique, part.monoid) for part in parts):
                return False
    return True
