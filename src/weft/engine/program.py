"""The Program: a plan made ready for one stream's schema; what every task carries and every batch reads.

Columns and types are checked here, before anything runs. Equal predicates become one bit of the
signature, equal group-by sets one grouping, equal parts of aggregates one part of their grouping.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias, TypeVar

import pyarrow as pa

from weft.aggregates import AggregateFunction, Monoid, Part, named
from weft.aggregates.part import part as make_part
from weft.engine.bind import Join, bind_plan, with_tables
from weft.engine.due import NEVER
from weft.engine.layout import Layout, Shape, part_text
from weft.errors import QueryError
from weft.expr import arrow_type, check, check_predicate, sql_type
from weft.final import check_technique
from weft.plan import Plan, Tree
from weft.query import Aggregate, Column, Expr, JoinQuery, Query, Window
from weft.query_json import canonical
from weft.slicing import SLICERS, Progression, reduce_progressions

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """One aggregate of a query: its function, where its parts are in the grouping, and its Arrow type."""

    alias: str
    function: AggregateFunction
    parts: tuple[int, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Origin:
    """How a query came to a running stream, in microseconds of event time; NEVER: before the first row.

    Its windows that start at ``since`` or later are answered. ``joined`` is the latest time that had been
    seen when it came. ``bucket`` is the one that has its history, None where each has that of its own groups.
    """

    since: int = NEVER
    joined: int = NEVER
    bucket: int | None = None


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
    origin: Origin = Origin()


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
    wait in one, which all predicates share, and each predicate counts its own in another, ``fed_by`` it,
    from the rows of time ``since`` on.
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
    since: int = NEVER

    @property
    def predicates(self) -> tuple[int, ...]:
        """The predicates of its queries."""
        return tuple(dict.fromkeys(p for needing in self.needed_by for p in needing))

    @property
    def ordered(self) -> bool:
        """Whether it matters in which order states are combined, so that slices must not overlap."""
        return any(part.ordered for part in self.parts)

    @property
    def needs(self) -> dict[Part, tuple[int, ...]]:
        """Which predicates need each part."""
        return dict(zip(self.parts, self.needed_by))


@dataclass(frozen=True)
class Program:
    """Everything a batch needs, checked against the schema; ``version`` counts the changes of queries."""

    plan: Plan
    schema: pa.Schema
    time: str
    entries: tuple[Entry, ...]
    groupings: tuple[Grouping, ...]
    predicates: tuple[Expr | None, ...]
    progressions: tuple[Progression, ...]
    strict: bool = False
    joins: tuple[Join, ...] = ()
    buckets: int = 1
    version: int = 1

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
    def layout(self) -> Layout:
        """What its state looks like, as plain data."""
        predicates = tuple(map(canonical, self.predicates))
        shapes = (
            Shape(
                g.axis.value,
                g.keys,
                predicates[g.predicates[0]] if g.axis is Axis.ROWS else None,
                g.since,
                tuple((part_text(p), len(p.words)) for p in g.parts),
            )
            for g in self.groupings
        )
        return Layout(predicates, tuple(shapes))

    @cached_property
    def time_type(self) -> pa.DataType:
        """The Arrow type of window_start and window_end: microseconds in the time column's zone."""
        return pa.timestamp("us", self.schema.field(self.time).type.tz)

    @cached_property
    def by_name(self) -> dict[str, Entry]:
        """The entries by the names of their queries."""
        return {e.query.name: e for e in self.entries}

    def result_schema(self, name: str) -> pa.Schema:
        """The Arrow schema of a query's results."""
        entry = self.by_name[name]
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
    origins: Mapping[str, Origin] | None = None,
    version: int = 1,
    running: Program | None = None,
    tables: Mapping[str, pa.Schema] | None = None,
) -> Program:
    """Check a plan against a stream's schema and make it ready to run in so many buckets.

    ``strict`` lets a value that cannot be computed (a division by zero, say) stop the run instead of
    being null and counted. ``origins`` are those of queries that came while the stream ran, ``running`` is
    the program before this one: what it has checked is not checked again. ``tables`` are the schemas of the
    static tables that queries may join.
    """
    check_names(plan.queries)
    _check_time(schema, time)
    asked, (plan, joins) = plan, bind_plan(plan, schema, tables or {})
    rows = with_tables(schema, joins)
    came = {q.name: (origins or {}).get(q.name, Origin()) for q in plan.queries}
    predicates = _numbered(q.predicate for q in plan.queries)
    places = _numbered(place for q in plan.queries for place in _places(q, came[q.name]))
    parts: list[dict[Part, int]] = [{} for _ in places]
    entries, unchecked = [], []
    for number, tree in enumerate(plan.trees):
        for query in tree.queries:
            origin = came[query.name]
            grouping = places[_places(query, origin)[-1]]
            checked = running.by_name.get(query.name) if running else None
            if running is not None and checked is not None and checked.query is query:
                answers = _moved(checked, running.groupings[checked.grouping], parts[grouping])
            else:
                unchecked.append(query)
                try:
                    answers = _check_query(query, rows, time, parts[grouping])
                except QueryError as error:
                    raise error.of(query.name) from None
            bucket = None if query.group_by else tree.node % buckets
            if bucket is not None and origin.bucket is not None:
                bucket = origin.bucket
            origin = replace(origin, bucket=bucket)
            entries.append(
                Entry(query, number, grouping, predicates[query.predicate], answers, bucket, origin)
            )
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
        buckets,
        version,
    )
    for query in unchecked:
        try:
            result = program.result_schema(query.name)
            if query.having is not None:
                entry = program.by_name[query.name]
                everything = [
                    *result,
                    *((a.alias, a.type) for a in entry.answers if a.alias not in result.names),
                ]
                check_predicate(query.having, pa.schema(everything))
        except QueryError as error:
            raise error.of(query.name) from None
    return program


Place: TypeAlias = tuple[Axis, tuple[str, ...], Expr | None, int]


def _places(query: Query, origin: Origin) -> list[Place]:
    """The groupings a query's rows go through, the one that answers it last.

    Rows are counted from when a query came, so that later ones have numbers of their own.
    """
    if not query.window.rows:
        return [(Axis.TIME, query.group_by, None, NEVER)]
    waiting = (Axis.WAITING, query.group_by, None, NEVER)
    return [waiting, (Axis.ROWS, query.group_by, query.predicate, origin.since)]


def _numbered(values: Iterable[T]) -> dict[T, int]:
    """The distinct values, in order, and their numbers."""
    return {value: number for number, value in enumerate(dict.fromkeys(values))}


def _check_techniques(plan: Plan, entries: Sequence[Entry], parts: Sequence[dict[Part, int]]) -> None:
    """A tree's technique must be able to run every part that the tree's queries need."""
    needed: list[dict[str, Monoid]] = [{} for _ in plan.trees]
    known = [list(some) for some in parts]
    for entry in entries:
        for number in {n for answer in entry.answers for n in answer.parts}:
            part = known[entry.grouping][number]
            needed[entry.tree].setdefault(str(part), part.monoid)
    for tree, monoids in zip(plan.trees, needed):
        check_technique(tree.technique, monoids)


def check_names(queries: Sequence[Query | JoinQuery]) -> None:
    """Refuse queries of the same name."""
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


def _moved(checked: Entry, grouping: Grouping, parts: dict[Part, int]) -> tuple[Answer, ...]:
    """The answers of a query that was checked before, with the numbers that their parts have now."""
    if checked.query.window.rows:
        for part in COUNTED:
            parts.setdefault(part, len(parts))
    return tuple(
        replace(a, parts=tuple(parts.setdefault(grouping.parts[n], len(parts)) for n in a.parts))
        for a in checked.answers
    )


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
    places: Mapping[Place, int],
    parts: Sequence[dict[Part, int]],
    schema: pa.Schema,
    plan: Plan,
    entries: Sequence[Entry],
) -> tuple[Grouping, ...]:
    needed_by: list[dict[Part, dict[int, None]]] = [{p: {} for p in some} for some in parts]
    fed_by = [
        places[Axis.WAITING, keys, None, NEVER] if axis is Axis.ROWS else None for axis, keys, *_ in places
    ]
    listed = [list(some) for some in parts]
    for entry in entries:
        known = listed[entry.grouping]
        needed = {known[n] for answer in entry.answers for n in answer.parts}
        for part in needed.union(COUNTED if entry.query.window.rows else ()):
            needed_by[entry.grouping][part][entry.predicate] = None
    for number, feeding in enumerate(fed_by):
        if feeding is not None:
            for part, predicates in needed_by[number].items():
                needed_by[feeding].setdefault(part, {}).update(predicates)
    members: list[list[Entry]] = [[] for _ in places]
    for entry in entries:
        members[entry.grouping].append(entry)
        feeding = fed_by[entry.grouping]
        if feeding is not None:
            members[feeding].append(entry)
    in_time = plan.progressions
    groupings = []
    for number, (axis, keys, _, since) in enumerate(places):
        types = tuple(_plain(schema.field(k).type) for k in keys)
        for type in types:
            sql_type(type)
        mine = members[number]
        if axis is Axis.ROWS and len({e.tree for e in mine}) > 1:
            raise QueryError(
                "windows counted in rows, of one predicate and group-by, must be in one tree of the plan"
            )
        windows = tuple(dict.fromkeys(e.query.window for e in mine))
        progressions = in_time
        if axis is Axis.ROWS:
            # Of its own windows alone: a later query has other numbers, and must not cut these anew.
            cut = SLICERS[plan.trees[mine[0].tree].slicer]
            progressions = reduce_progressions(p for w in windows for p in cut(w))
        groupings.append(
            Grouping(
                keys,
                types,
                tuple(needed_by[number]),
                tuple(map(tuple, needed_by[number].values())),
                windows,
                tuple(sorted({e.bucket for e in mine if e.bucket is not None})),
                progressions,
                axis,
                fed_by[number],
                since,
            )
        )
    return tuple(groupings)
