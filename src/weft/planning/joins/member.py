"""Joins that can share a chain: the same streams and the same conditions, whatever the aliases and order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from weft.errors import QueryError
from weft.model.as_data import canonical
from weft.model.expression import Call, Expr, columns_of, with_columns
from weft.model.join import JoinQuery
from weft.model.query import Lookup, Output, Query

Key: TypeAlias = tuple[tuple[str, ...], frozenset[Expr]]
"""The common part of one chain's members: the streams, in order of name, and the conditions."""


@dataclass(frozen=True)
class Member:
    """One join as its chain sees it: sides in the order of their names, columns called ``side.column``.

    ``aggregates`` are the queries over its results, of one or more joins that differ in nothing else.
    ``lookups`` bring columns of tables to the rows of each side. Such columns are called by how they are
    looked up, and inner lookups are selections, so joins with other lookups can share a chain.
    """

    query: JoinQuery
    sides: tuple[str, ...]
    streams: tuple[str, ...]
    ranges: tuple[int, ...]
    selections: tuple[Expr | None, ...]
    conditions: tuple[Expr, ...]
    outputs: tuple[Output, ...]
    aggregates: tuple[Query, ...] = ()
    lookups: tuple[tuple[Lookup, ...], ...] = ()

    @property
    def name(self) -> str:
        """The query's name."""
        return self.query.name

    @property
    def answers(self) -> tuple[str, ...]:
        """The names of the queries that its results answer."""
        return tuple(q.name for q in self.aggregates) or (self.name,)

    @property
    def key(self) -> Key:
        """Equal for members that can share a chain."""
        return self.streams, frozenset(self.conditions)

    def columns(self, side: str) -> frozenset[str]:
        """The columns of a side that conditions and outputs read."""
        read = frozenset[str]().union(
            *(columns_of(e) for e in self.conditions), *(columns_of(o.expr) for o in self.outputs)
        )
        return frozenset(c[len(side) + 1 :] for c in read if c.startswith(f"{side}."))

    def covers(self, other: Member) -> bool:
        """Return whether every result of the other is one of this member's, with all its columns at hand."""
        wide = all(own_range >= other_range for own_range, other_range in zip(self.ranges, other.ranges))
        return wide and self.selections == other.selections and other.read <= self.read

    @property
    def read(self) -> frozenset[str]:
        """The columns that its outputs are made of."""
        return frozenset[str]().union(*(columns_of(o.expr) for o in self.outputs))


def member(query: JoinQuery) -> Member:
    """The join in the spelling that all of its kind share.

    >>> import weft
    >>> one, other = weft.sql('''
    ...     SELECT t.x FROM temperature t [RANGE '1 min'], humidity h [RANGE '2 min'] WHERE t.x = h.x;
    ...     SELECT b.x FROM humidity a [RANGE '3 min'], temperature b [RANGE '4 min'] WHERE a.x = b.x''')
    >>> member(one).key == member(other).key
    True
    """
    order = sorted(range(len(query.sides)), key=lambda n: query.sides[n].stream)
    taken: dict[str, int] = {}
    sides, names = [], dict[str, str]()
    for number in order:
        side = query.sides[number]
        name = side.stream.replace(".", "_")  # the first dot of a column's name ends its side's
        taken[name] = taken.get(name, 0) + 1
        sides.append(name if taken[name] == 1 else f"{name}#{taken[name]}")
        for expr in (*query.conditions, *(o.expr for o in query.outputs)):
            for column in columns_of(expr):
                alias, dot, rest = column.partition(".")
                if dot and alias == side.alias:
                    names[column] = f"{sides[-1]}.{rest}"
    return Member(
        query,
        tuple(sides),
        tuple(query.sides[n].stream for n in order),
        tuple(query.sides[n].range for n in order),
        tuple(query.selections[n] for n in order),
        # In one order, for codes are made of the equalities in theirs.
        tuple(sorted({_oriented(with_columns(c, names)) for c in query.conditions}, key=canonical)),
        tuple(Output(o.alias, with_columns(o.expr, names)) for o in query.outputs),
        () if query.aggregate is None else (query.aggregate,),
        tuple(query.lookups[n] for n in order) if query.lookups else ((),) * len(order),
    )


def merged(members: Iterable[Member]) -> list[Member]:
    """Joins that are aggregated and differ in their aggregates only as one, so that these share their slices.

    >>> import weft
    >>> text = "SELECT count(*) AS n FROM a [RANGE '1 min'], b [RANGE '2 min'] WHERE a.x = b.x GROUP BY"
    >>> both = weft.sql(f"{text} window('1 min'); {text} window('5 min')")
    >>> [m.name for m in merged(map(member, both))]
    ['q1+q2']
    """
    distinct: list[Member] = []
    for new in members:
        for place, other in enumerate(distinct):
            if new.aggregates and other.aggregates and (together := _together(other, new)):
                distinct[place] = together
                break
        else:
            distinct.append(new)
    return distinct


def _together(one: Member, other: Member) -> Member | None:
    same = ("key", "ranges", "selections")
    outputs = {o.alias: o for o in other.outputs} | {o.alias: o for o in one.outputs}
    if any(getattr(one, n) != getattr(other, n) for n in same) or any(
        outputs[o.alias] != o for o in other.outputs
    ):
        return None
    # No query has such a name, so none that comes later can be mistaken for it.
    query = one.query.renamed(f"{one.name}+{other.name}")
    return replace(
        one,
        query=query,
        outputs=tuple(outputs.values()),
        aggregates=(*one.aggregates, *other.aggregates),
        lookups=tuple(map(_united, one.lookups, other.lookups)),
    )


def _united(lookups: tuple[Lookup, ...], others: tuple[Lookup, ...]) -> tuple[Lookup, ...]:
    """The lookups of both, those that look up alike once."""
    return tuple(({lookup.name: lookup for lookup in (*others, *lookups)}).values())


def _oriented(condition: Expr) -> Expr:
    """An equality with its operands in one order."""
    if isinstance(condition, Call) and condition.function == "=":
        return Call("=", tuple(sorted(condition.args, key=str)), condition.position)
    return condition


def sharing(queries: Iterable[JoinQuery]) -> list[list[Member]]:
    """The joins, those that can share a chain together, in order of first appearance."""
    groups: dict[Key, list[Member]] = {}
    for query in queries:
        new = member(query)
        groups.setdefault(new.key, []).append(new)
    return list(groups.values())


MAX_SIDES = 9


def check_sides(members: Sequence[Member]) -> None:
    """Refuse a join of fewer than two streams or more than nine."""
    for join in members:
        if not 2 <= len(join.sides) <= MAX_SIDES:
            raise QueryError(
                f"this is a join of {len(join.sides)} streams, and the most is {MAX_SIDES}",
                query=join.name,
                hint="join some of them first, and the result with the others",
            )
