"""The Program: a plan made ready for one stream's schema; what every task carries and every batch reads.

Columns and types are checked here, before anything runs. Equal predicates become one bit of the
signature, equal group-by sets one grouping, equal parts of aggregates one part of their grouping.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import pyarrow as pa

from weft.aggregates import AggregateFunction, Monoid, Part, named
from weft.aggregates.part import part as make_part
from weft.engine.bind import Join, bind_plan, with_tables
from weft.errors import QueryError
from weft.expr import arrow_type, check, check_predicate, sql_type
from weft.final import check_technique
from weft.plan import Plan, Tree
from weft.query import Aggregate, Column, Expr, Query, Window
from weft.slicing import SLICERS, Progression, reduce_progressions


@dataclass(frozen=True, slots=True)
class Answer:
    """One aggregate of a query: its function, where its parts are in the grouping, and its Arrow type."""

    alias: str
    function: AggregateFunction
    parts: tuple[int, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One query made ready: its tree, grouping, predicate bit and answers.

    ``bucket`` is the one that answers it, None where each bucket does for its own groups.
    """

    query: Query
    tree: int
    grouping: int
    predicate: int
    answers: tuple[Answer, ...]
    bucket: int | None


class Axis(enum.Enum):
    """What the cells of a grouping are cut along."""

    TIME = "time"
    WAITING = "waiting"  # not cut: rows that wait for their numbers
    ROWS = "rows"  # the numbers of the rows that satisfy one predicate


@dataclass(frozen=True, slots=True)
class Grouping:
    """One group-by set: its key columns, every part that its queries need, and which predicates need it.

    Groups are spread over all buckets by their keys. Without keys there is nothing to spread: ``buckets`` are
    then those that answer a query, the nodes of the plan.

    ``progressions`` are the edges that its cells are cut at. Windows counted in rows have two: their rows
    wait in one, which all predicates share, and each predicate counts its own in another, ``fed_by`` it.
    """

    keys: tuple[str, ...]
    key_types: tuple[pa.DataType, ...]
    parts: tuple[Part, ...]
    needed_by: tuple[tuple[int, ...], ...]
    windows: tuple[Window, ...]
    buckets: tuple[int, ...]
    progressions: tuple[Progression, ...]
    axis: Axis = Axis.TIME
    fed_by: int | None = None

    @property
    def predicates(self) -> tuple[int, ...]:
        """The predicates of its queries."""
        return tuple(dict.fromkeys(p for needing in self.needed_by for p in needing))

    @property
    def needs(self) -> dict[Part, tuple[int, ...]]:
        """Which predicates need each part."""
        return dict(zip(self.parts, self.needed_by))


@dataclass(frozen=True)
class Program:
    """Everything a batch needs, checked against the schema."""

    plan: Plan
    schema: pa.Schema
    time: str
    entries: tuple[Entry, ...]
    groupings: tuple[Grouping, ...]
    predicates: tuple[Expr | None, ...]
    progressions: tuple[Progression, ...]
    strict: bool = False
    joins: tuple[Join, ...] = ()

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of the stream that are read, in the schema's order."""
        read = {self.time}.union(*(e.query.columns for e in self.entries))
        return tuple(name for name in self.schema.names if name in read)

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """The windows in time."""
        return tuple({w for g in self.groupings if g.axis is Axis.TIME for w in g.windows})

    @cached_property
    def counts_rows(self) -> bool:
        """Whether any window is counted in rows."""
        return any(g.axis is Axis.ROWS for g in self.groupings)

    @cached_property
    def families(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The predicates of each grouping, those of a tree together; trees with one in common are one."""
        families: list[list[set[int]]] = [[] for _ in self.groupings]
        members: dict[tuple[int, int], set[int]] = {}
        for entry in self.entries:
            members.setdefault((entry.grouping, entry.tree), set()).add(entry.predicate)
        for (grouping, _), predicates in members.items():
            apart = [each for each in families[grouping] if not each & predicates]
            joined = predicates.union(*(each for each in families[grouping] if each & predicates))
            families[grouping] = [*apart, joined]
        return tuple(tuple(tuple(sorted(each)) for each in some) for some in families)

    @cached_property
    def edges(self) -> dict[tuple[int, int], tuple[Progression, ...]]:
        """Where the queries of each grouping and predicate need their rows cut."""
        needed: dict[tuple[int, int], list[Progression]] = {}
        for entry in self.entries:
            cut = SLICERS[self.trees[entry.tree].slicer]
            needed.setdefault((entry.grouping, entry.predicate), []).extend(cut(entry.query.window))
        return {where: reduce_progressions(some) for where, some in needed.items()}

    @cached_property
    def queries(self) -> tuple[Query, ...]:
        """The queries as they were asked, in the plan's order, which is that of the entries."""
        return self.plan.queries

    @cached_property
    def trees(self) -> tuple[Tree, ...]:
        """The plan's trees."""
        return self.plan.trees

    @cached_property
    def fingerprint(self) -> str:
        """A hash of queries, columns and time: what a checkpoint must have been written by."""
        types = [(name, str(self.schema.field(name).type)) for name in self.columns]
        types += [(name, str(type)) for join in self.joins for name, _, type in join.columns]
        text = repr((sorted(map(repr, self.queries)), types, self.time))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def time_type(self) -> pa.DataType:
        """The Arrow type of window_start and window_end: microseconds in the time column's zone."""
        return pa.timestamp("us", self.schema.field(self.time).type.tz)

    def entry(self, name: str) -> Entry:
        """The entry of the query with this name."""
        for entry in self.entries:
            if entry.query.name == name:
                return entry
        raise KeyError(f"no query is called {name!r}")

    def result_schema(self, name: str) -> pa.Schema:
        """The Arrow schema of a query's results."""
        entry = self.entry(name)
        fields = [*self._keys(entry), *self._bounds(), *((a.alias, a.type) for a in entry.answers)]
        schema = pa.schema(fields)
        if entry.query.outputs:
            tz = self.time_type.tz
            fields = [*self._keys(entry), *self._bounds()]
            fields += [(o.alias, _output_type(o.expr, schema, tz)) for o in entry.query.outputs]
        return pa.schema(fields)

    def _keys(self, entry: Entry) -> list[tuple[str, pa.DataType]]:
        grouping = self.groupings[entry.grouping]
        return list(zip(entry.query.result_keys, grouping.key_types))

    def _bounds(self) -> list[tuple[str, pa.DataType]]:
        return [("window_start", self.time_type), ("window_end", self.time_type)]


def compile_plan(
    plan: Plan,
    schema: pa.Schema,
    time: str,
    strict: bool = False,
    buckets: int = 1,
    tables: Mapping[str, pa.Schema] | None = None,
) -> Program:
    """Check a plan against a stream's schema and make it ready to run in so many buckets.

    ``strict`` lets a value that cannot be computed (a division by zero, say) stop the run instead of
    being null and counted. ``tables`` are the schemas of the static tables that queries may join.
    """
    _check_names(plan.queries)
    _check_time(schema, time)
    asked, (plan, joins) = plan, bind_plan(plan, schema, tables or {})
    rows = with_tables(schema, joins)
    predicates = list(dict.fromkeys(q.predicate for q in plan.queries))
    places = list(dict.fromkeys(place for q in plan.queries for place in _places(q)))
    parts: list[dict[Part, int]] = [{} for _ in places]
    entries = []
    for number, tree in enumerate(plan.trees):
        for query in tree.queries:
            grouping = places.index(_places(query)[-1])
            try:
                answers = _check_query(query, rows, time, parts[grouping])
            except QueryError as error:
                raise error.of(query.name) from None
            predicate = predicates.index(query.predicate)
            bucket = None if query.group_by else tree.node % buckets
            entries.append(Entry(query, number, grouping, predicate, answers, bucket))
    _check_techniques(plan, entries, parts)
    program = Program(
        asked,
        schema,
        time,
        tuple(entries),
        _groupings(places, parts, rows, plan, entries),
        tuple(predicates),
        plan.progressions,
        strict,
        joins,
    )
    for query in plan.queries:
        try:
            result = program.result_schema(query.name)
            if query.having is not None:
                entry = program.entry(query.name)
                everything = [
                    *result,
                    *((a.alias, a.type) for a in entry.answers if a.alias not in result.names),
                ]
                check_predicate(query.having, pa.schema(everything))
        except QueryError as error:
            raise error.of(query.name) from None
    return program


Place: TypeAlias = tuple[Axis, tuple[str, ...], Expr | None]


def _places(query: Query) -> list[Place]:
    """The groupings a query's rows go through, the one that answers it last."""
    if not query.window.rows:
        return [(Axis.TIME, query.group_by, None)]
    return [(Axis.WAITING, query.group_by, None), (Axis.ROWS, query.group_by, query.predicate)]


def _check_techniques(plan: Plan, entries: Sequence[Entry], parts: Sequence[dict[Part, int]]) -> None:
    """A tree's technique must be able to run every part that the tree's queries need."""
    needed: list[dict[str, Monoid]] = [{} for _ in plan.trees]
    for entry in entries:
        known = list(parts[entry.grouping])
        for number in {n for answer in entry.answers for n in answer.parts}:
            needed[entry.tree][str(known[number])] = known[number].monoid
    for tree, monoids in zip(plan.trees, needed):
        check_technique(tree.technique, monoids)


def _check_names(queries: Sequence[Query]) -> None:
    if not queries:
        raise QueryError("there is no query to run")
    seen: set[str] = set()
    for query in queries:
        if query.name in seen:
            raise QueryError("two queries have this name", query=query.name, hint="names must be unique")
        seen.add(query.name)


def _check_time(schema: pa.Schema, time: str) -> None:
    if time not in schema.names:
        raise QueryError(
            f"the stream has no time column {time!r}", hint=f"its columns are {', '.join(schema.names)}"
        )
    type = schema.field(time).type
    if not pa.types.is_timestamp(type):
        raise QueryError(
            f"the time column {time!r} is {type}, not a timestamp", hint="convert it to a timestamp first"
        )


def _check_query(query: Query, schema: pa.Schema, time: str, parts: dict[Part, int]) -> tuple[Answer, ...]:
    if query.time is not None and query.time != time:
        raise QueryError(f"its windows are over {query.time!r}, but the stream's time column is {time!r}")
    if query.predicate is not None:
        check_predicate(query.predicate, schema)
    for column in query.keys:
        check(column, schema)
    columns = query.result_columns
    for name in columns:
        if columns.count(name) > 1:
            raise QueryError(f"two result columns are called {name!r}", hint="give one of them another alias")
    if not query.aggregates:
        raise QueryError("it has no aggregate", hint="add one, such as count(*)")
    if query.window.rows:
        for part in COUNTED:
            parts.setdefault(part, len(parts))
    tz = schema.field(time).type.tz
    return tuple(_answer(aggregate, schema, tz, parts) for aggregate in query.aggregates)


def _answer(aggregate: Aggregate, schema: pa.Schema, tz: str | None, parts: dict[Part, int]) -> Answer:
    function = named(aggregate.function)
    if function is None:
        raise QueryError(f"{aggregate.function!r} is not an aggregate", position=aggregate.position)
    types = tuple(check(a, schema) for a in aggregate.args)
    try:
        function = function.bound(aggregate.args)
        result = function.check(types)
        needed = function.parts(aggregate.args, types)
        for part in needed:
            for argument in part.args:
                check(argument, schema)
    except QueryError as error:
        position = error.position or aggregate.position
        raise QueryError(error.message, position=position, hint=error.hint) from None
    numbers = tuple(parts.setdefault(p, len(parts)) for p in needed)
    type = arrow_type(result, tz)
    if function.keeps_type and isinstance(aggregate.args[0], Column):
        type = _plain(schema.field(aggregate.args[0].name).type)
    return Answer(aggregate.alias, function, numbers, type)


def _plain(type: pa.DataType) -> pa.DataType:
    """A column's type without dictionary; timestamps in microseconds."""
    if pa.types.is_dictionary(type):
        type = type.value_type
    return pa.timestamp("us", type.tz) if pa.types.is_timestamp(type) else type


def _output_type(expr: Expr, schema: pa.Schema, tz: str | None) -> pa.DataType:
    type = check(expr, schema)
    return schema.field(expr.name).type if isinstance(expr, Column) else arrow_type(type, tz)


COUNTED = tuple(make_part(kind, (), ()) for kind in ("rows", "oldest", "newest"))
"""The first parts of groupings that count rows: how many, and the times of the first and the last."""


def _groupings(
    places: Sequence[Place],
    parts: Sequence[dict[Part, int]],
    schema: pa.Schema,
    plan: Plan,
    entries: Sequence[Entry],
) -> tuple[Grouping, ...]:
    needed_by: list[dict[Part, dict[int, None]]] = [{p: {} for p in some} for some in parts]
    fed_by = [
        places.index((Axis.WAITING, keys, None)) if axis is Axis.ROWS else None for axis, keys, _ in places
    ]
    for entry in entries:
        known = list(parts[entry.grouping])
        needed = {known[n] for answer in entry.answers for n in answer.parts}
        for part in needed.union(COUNTED if entry.query.window.rows else ()):
            needed_by[entry.grouping][part][entry.predicate] = None
    for number, feeding in enumerate(fed_by):
        if feeding is not None:
            for part, predicates in needed_by[number].items():
                needed_by[feeding].setdefault(part, {}).update(predicates)
    groupings = []
    for number, (axis, keys, _) in enumerate(places):
        types = tuple(_plain(schema.field(k).type) for k in keys)
        for type in types:
            sql_type(type)
        mine = [e for e in entries if number in (e.grouping, fed_by[e.grouping])]
        if axis is Axis.ROWS and len({e.tree for e in mine}) > 1:
            raise QueryError(
                "windows counted in rows, of one predicate and group-by, must be in one tree of the plan"
            )
        progressions = plan.trees[mine[0].tree].progressions if axis is Axis.ROWS else plan.progressions
        groupings.append(
            Grouping(
                keys,
                types,
                tuple(needed_by[number]),
                tuple(map(tuple, needed_by[number].values())),
                tuple(dict.fromkeys(e.query.window for e in mine)),
                tuple(sorted({e.bucket for e in mine if e.bucket is not None})),
                progressions,
                axis,
                fed_by[number],
            )
        )
    return tuple(groupings)
