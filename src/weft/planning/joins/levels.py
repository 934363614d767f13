"""Levels: how joined rows of some sides meet the kept rows of one side more.

A join order is a sequence of levels. Each decides the conditions whose sides are then all there. Rows are
looked up by all equalities that join the new side to the others, else by the first band, else by time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.aggregates.word import order_floats
from weft.expr.arrays import as_mask, values_of
from weft.expr.evaluate import Evaluator
from weft.model.expression import Call, Expr, columns_of
from weft.planning.joins.access import (
    as_doubles,
    band_of,
    bare,
    codes_of,
    equality_of,
    mixed,
    pair_schema,
    reach_of,
)
from weft.planning.joins.member import Member


@dataclass(frozen=True)
class Key:
    """An expression that a side's rows are looked up by, for one condition.

    ``own`` is over the side's own columns, and is value number ``value`` of a kept row; ``other`` is over
    columns of the sides ``others``, called ``side.column``. ``width`` is 0 for an equality.
    """

    condition: Expr
    own: Expr
    value: int
    other: Expr
    others: frozenset[int]
    width: float
    exact: bool


class CodeBounds(NamedTuple):
    """The least and the largest code of partners, and which rows can have one (empty: all)."""

    least: np.ndarray
    most: np.ndarray
    valid: np.ndarray


@dataclass(frozen=True, eq=False)
class Level:
    """From joined rows of the sides ``bound`` to those of ``side`` too.

    ``tested`` are the columns that ``residual`` reads, ``carried`` those that are needed after it.
    """

    bound: frozenset[int]
    side: int
    conditions: tuple[Expr, ...]
    keys: tuple[Key, ...]
    residual: Expr | None
    tested: frozenset[str]
    carried: frozenset[str]

    def bounds(self, rows: Evaluator) -> CodeBounds:
        """Return the least and the largest code of a partner, and which rows can have one (empty: all)."""
        codes, valid = np.zeros(0, np.int64), np.zeros(0, np.bool_)
        for place, key in enumerate(self.keys):
            array = rows.evaluate(key.other)
            valid = _valid_in(valid, array)
            if key.width:
                values = values_of(as_doubles(array))
                with np.errstate(invalid="ignore"):  # infinity has no partner, and NaN those that are tested
                    reach = reach_of(values, key.width)
                    return CodeBounds(order_floats(values - reach), order_floats(values + reach), valid)
            codes = mixed(codes, codes_of(array)) if place else codes_of(array)
        return CodeBounds(codes, codes, valid)


class Levels:
    """The levels of some joins, made as they are asked for; without schemas, good for estimates only."""

    def __init__(self, members: Sequence[Member], schemas: Sequence[pa.Schema] | None = None) -> None:
        self.sides = members[0].sides
        self.selected = frozenset[str]().union(*(columns_of(o.expr) for m in members for o in m.outputs))
        self.sides_of = {c: _sides(c, self.sides) for c in members[0].conditions}
        self.values: list[list[tuple[Expr, bool]]] = [[] for _ in self.sides]
        joined = None if schemas is None else pair_schema(self.sides, schemas)
        self.keys = [list(self._keys(side, joined)) for side in range(len(self.sides))]
        self._levels: dict[tuple[frozenset[int], int], Level] = {}

    def level(self, bound: frozenset[int], side: int) -> Level:
        """The level from some sides to one more."""
        if (bound, side) not in self._levels:
            self._levels[bound, side] = self._make(bound, side)
        return self._levels[bound, side]

    def carried(self, bound: frozenset[int]) -> frozenset[str]:
        """The columns of these sides that later levels or results read."""
        left = [c for c, sides in self.sides_of.items() if not sides <= bound]
        read = self.selected.union(*(columns_of(c) for c in left))
        prefixes = {self.sides[n] for n in bound}
        return frozenset(c for c in read if c.partition(".")[0] in prefixes)

    def look_up(self, side: int, rows: Evaluator) -> tuple[np.ndarray, np.ndarray]:
        """A code per row and value of a side, and which rows have all of them (empty: all).

        A row that has not can join nothing: every condition has to be TRUE.
        """
        valid, columns = np.zeros(0, np.bool_), []
        for own, band in self.values[side]:
            array = rows.evaluate(own)
            valid = _valid_in(valid, array)
            columns.append(order_floats(values_of(as_doubles(array))) if band else codes_of(array))
        return (np.column_stack(columns) if columns else np.zeros(0, np.int64)), valid

    def _make(self, bound: frozenset[int], side: int) -> Level:
        now = bound | {side}
        decided = tuple(
            c
            for c, sides in self.sides_of.items()
            if sides <= now and (side in sides or (not sides and len(bound) == 1))
        )
        usable = [k for k in self.keys[side] if k.condition in decided and k.others <= bound]
        equal = [k for k in usable if not k.width]
        keys = tuple(equal) if equal else tuple(usable[:1])
        exact = {keys[0].condition} if len(keys) == 1 and keys[0].exact else set()
        residual: Expr | None = None
        for condition in decided:
            if condition not in exact:
                residual = (
                    condition if residual is None else Call("and", (residual, condition), condition.position)
                )
        tested = frozenset[str]() if residual is None else columns_of(residual)
        return Level(bound, side, decided, keys, residual, tested, self.carried(now))

    def _keys(self, side: int, schema: pa.Schema | None) -> Iterator[Key]:
        """Everything that a side's rows can be looked up by."""
        sides = self.sides
        for condition in self.sides_of:
            for find, band in ((equality_of, False), (band_of, True)):
                if (terms := find(condition, sides[side], schema)) is None:
                    continue
                own = (bare(terms.own, sides[side]), band)
                if own not in self.values[side]:
                    self.values[side].append(own)
                yield Key(
                    condition,
                    own[0],
                    self.values[side].index(own),
                    terms.other,
                    _sides(terms.other, sides),
                    terms.width,
                    terms.exact,
                )


def _sides(expr: Expr, sides: Sequence[str]) -> frozenset[int]:
    return frozenset(sides.index(c.partition(".")[0]) for c in columns_of(expr))


def _valid_in(valid: np.ndarray, array: pa.Array) -> np.ndarray:
    """Return which rows are valid so far, and in this array too."""
    if not array.null_count:
        return valid
    here = as_mask(pc.is_valid(array))
    return here & valid if valid.size else here
