"""Compiling: a plan checked against one stream's schema, before anything runs, becomes a WindowProgram.

Equal predicates become one bit of the signature, equal group-by sets one grouping, equal parts of aggregates
one part of their grouping.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from weft.aggregates import Part, named
from weft.aggregates.part import part as make_part
from weft.errors import QueryError
from weft.expr.check import check, check_predicate, output_type
from weft.expr.types import UTC, arrow_type, read_zone, sql_type
from weft.final import check_technique
from weft.model.expression import Column, Expr
from weft.model.instants import BEGINNING_OF_TIME
from weft.model.names import check_names
from weft.model.query import Aggregate, Query
from weft.operators.lookups.bind import bind_plan, with_tables
from weft.operators.windows.program import Answer, Axis, CompiledQuery, Grouping, Origin, WindowProgram
from weft.planning.plan import Plan, check_one_stream
from weft.slicing import SLICERS, reduce_progressions

T = TypeVar("T")

Place: TypeAlias = tuple[Axis, tuple[str, ...], Expr | None, int]
"""The identity of a grouping: axis, keys, predicate, and since when rows are counted."""


def compile_plan(  # noqa: PLR0913  (choices of their own, given by keyword)
    plan: Plan,
    schema: pa.Schema,
    time: str,
    strict: bool = False,
    buckets: int = 1,
    origins: Mapping[str, Origin] | None = None,
    version: int = 1,
    running: WindowProgram | None = None,
    tables: Mapping[str, pa.Schema] | None = None,
    streams: Collection[str] | None = None,
    zone: str = UTC,
) -> WindowProgram:
    """Check a plan against a stream's schema and make it ready to run in so many buckets.

    ``strict`` lets a value that cannot be computed (a division by zero, say) stop the run instead of
    being null and counted. ``origins`` are those of queries that came while the stream ran, ``running`` is
    the program before this one: what it has checked is not checked again. ``tables`` are the schemas of the
    lookup tables that queries may read, ``streams`` the names of the streams where they are given by name.
    ``zone`` is that of local times: of ``hour``, of casts between times and texts or dates, of literals.
    """
    check_one_stream(plan)
    check_names(plan.queries, streams)
    _check_time(schema, time)
    zone = read_zone(zone)
    given, (plan, lookups) = plan, bind_plan(plan, schema, tables or {}, zone)
    rows = with_tables(schema, lookups)
    origin_of = {q.name: (origins or {}).get(q.name, Origin()) for q in plan.queries}
    predicates = _numbered(q.predicate for q in plan.queries)
    places = _numbered(place for q in plan.queries for place in _places(q, origin_of[q.name]))
    parts: list[dict[Part, int]] = [{} for _ in places]
    stream = _Stream(rows, time, zone)
    entries = _entries(plan, origin_of, _Numbers(predicates, places, parts), stream, buckets, running)
    _check_techniques(plan, entries, parts)
    program = WindowProgram(
        given,
        schema,
        time,
        tuple(entries),
        _groupings(places, parts, rows, plan, entries),
        tuple(predicates),
        plan.progressions,
        strict,
        lookups,
        buckets,
        version,
        None if streams is None else tuple(streams),
        zone,
    )
    for entry in program.entries:
        if not _was_checked(entry.query, running):
            _check_result(entry, program)
    return program


def _was_checked(query: Query, running: WindowProgram | None) -> bool:
    checked = running.by_name.get(query.name) if running else None
    return checked is not None and checked.query is query


class _Stream(NamedTuple):
    """The rows that queries read: their columns, which of them is the time, the zone of local times."""

    schema: pa.Schema
    time: str
    zone: str


class _Numbers(NamedTuple):
    """The numbers of predicates and groupings, and those of the parts of each grouping so far."""

    predicates: Mapping[Expr | None, int]
    places: Mapping[Place, int]
    parts: Sequence[dict[Part, int]]


def _entries(
    plan: Plan,
    origin_of: Mapping[str, Origin],
    numbers: _Numbers,
    stream: _Stream,
    buckets: int,
    running: WindowProgram | None,
) -> list[CompiledQuery]:
    """Make every query ready; the parts that it needs are added to those of its grouping."""
    entries: list[CompiledQuery] = []
    predicates, places, parts = numbers
    checked_answers: list[dict[Aggregate, Answer]] = [{} for _ in parts]
    for number, tree in enumerate(plan.trees):
        for query in tree.queries:
            origin = origin_of[query.name]
            grouping = places[_places(query, origin)[-1]]
            if running is not None and _was_checked(query, running):
                checked = running.by_name[query.name]
                answers = _renumbered(checked, running.groupings[checked.grouping], parts[grouping])
            else:
                try:
                    answers = _check_query(query, stream, parts[grouping], checked_answers[grouping])
                except QueryError as error:
                    raise error.of(query.name) from None
            bucket = None if query.group_by else tree.node % buckets
            if bucket is not None and origin.bucket is not None:
                bucket = origin.bucket % buckets
            else:
                origin = replace(origin, bucket=bucket)
            entries.append(
                CompiledQuery(query, number, grouping, predicates[query.predicate], answers, bucket, origin)
            )
    return entries


def _check_result(entry: CompiledQuery, program: WindowProgram) -> None:
    """The outputs of a query must have types, and its HAVING must be a condition over them."""
    query = entry.query
    try:
        result = program.result_schema(query.name)
        if query.having is not None:
            hidden = ((a.alias, a.type) for a in entry.answers if a.alias not in result.names)
            check_predicate(query.having, pa.schema([*result, *hidden]), program.zone)
    except QueryError as error:
        raise error.of(query.name) from None


def _places(query: Query, origin: Origin) -> list[Place]:
    """The groupings a query's rows go through, the one that answers it last.

    Rows are counted from when a query came, so that later ones have numbers of their own.
    """
    if not query.window.rows:
        return [(Axis.TIME, query.group_by, None, BEGINNING_OF_TIME)]
    waiting = (Axis.WAITING, query.group_by, None, BEGINNING_OF_TIME)
    return [waiting, (Axis.ROWS, query.group_by, query.predicate, origin.since)]


def _numbered(values: Iterable[T]) -> dict[T, int]:
    """The distinct values, in order, and their numbers."""
    return {value: number for number, value in enumerate(dict.fromkeys(values))}


def _check_techniques(plan: Plan, entries: Sequence[CompiledQuery], parts: Sequence[dict[Part, int]]) -> None:
    """A tree's technique must be able to run every part that the tree's queries need."""
    needed: list[set[tuple[int, int]]] = [set() for _ in plan.trees]
    listed = [list(numbers) for numbers in parts]
    for entry in entries:
        needed[entry.tree].update((entry.grouping, n) for answer in entry.answers for n in answer.parts)
    for tree, numbers in zip(plan.trees, needed):
        needed_parts = [listed[grouping][number] for grouping, number in sorted(numbers)]
        check_technique(tree.technique, {str(part): part.monoid for part in needed_parts})


def _check_time(schema: pa.Schema, time: str) -> None:
    if time not in schema.names:
        raise QueryError(
            f"the stream has no time column {time!r}", hint=f"its columns are {', '.join(schema.names)}"
        )
    dtype = schema.field(time).type
    if not pa.types.is_timestamp(dtype):
        raise QueryError(
            f"the time column {time!r} is {dtype}, not a timestamp", hint="convert it to a timestamp first"
        )


def _check_query(
    query: Query, stream: _Stream, parts: dict[Part, int], answers: dict[Aggregate, Answer]
) -> tuple[Answer, ...]:
    """Check a query, and add the parts and answers that are new."""
    schema, time, zone = stream
    if query.time is not None and query.time != time:
        raise QueryError(f"its windows are over {query.time!r}, but the stream's time column is {time!r}")
    if query.predicate is not None:
        check_predicate(query.predicate, schema, zone)
    for column in query.keys:
        check(column, schema, zone)
    columns = query.result_columns
    for name in columns:
        if columns.count(name) > 1:
            raise QueryError(f"two result columns are called {name!r}", hint="give one of them another alias")
    if not query.aggregates:
        raise QueryError("it has no aggregate", hint="add one, such as count(*)")
    if query.window.rows:
        for part in COUNTING_PARTS:
            parts.setdefault(part, len(parts))
    tz = schema.field(time).type.tz
    for aggregate in query.aggregates:
        if aggregate not in answers:
            answers[aggregate] = _answer(aggregate, schema, tz, parts, zone)
    return tuple(answers[aggregate] for aggregate in query.aggregates)


def _renumbered(checked: CompiledQuery, grouping: Grouping, parts: dict[Part, int]) -> tuple[Answer, ...]:
    """The answers of a query that was checked before, with the numbers that their parts have now."""
    if checked.query.window.rows:
        for part in COUNTING_PARTS:
            parts.setdefault(part, len(parts))
    return tuple(
        replace(a, parts=tuple(parts.setdefault(grouping.parts[n], len(parts)) for n in a.parts))
        for a in checked.answers
    )


def _answer(
    aggregate: Aggregate, schema: pa.Schema, tz: str | None, parts: dict[Part, int], zone: str
) -> Answer:
    function = named(aggregate.function)
    if function is None:
        raise QueryError(f"{aggregate.function!r} is not an aggregate", position=aggregate.position)
    types = tuple(check(a, schema, zone) for a in aggregate.args)
    try:
        function = function.bound(aggregate.args)
        result = function.check(types)
        needed = function.parts(aggregate.args, types)
        for part in needed:
            for argument in part.args:
                check(argument, schema, zone)
    except QueryError as error:
        position = error.position or aggregate.position
        raise QueryError(error.message, position=position, hint=error.hint) from None
    numbers = tuple(parts.setdefault(p, len(parts)) for p in needed)
    dtype = arrow_type(result, tz)
    if function.keeps_type and (isinstance(aggregate.args[0], Column) or result == "timestamp"):
        dtype = _plain(output_type(aggregate.args[0], schema, zone, tz))
    return Answer(aggregate.alias, function, numbers, dtype)


def _plain(dtype: pa.DataType) -> pa.DataType:
    """A column's type without dictionary; timestamps in microseconds; one that Arrow can look up."""
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    if pa.types.is_string_view(dtype):
        return pa.string()
    if pa.types.is_decimal32(dtype) or pa.types.is_decimal64(dtype):
        return pa.decimal128(dtype.precision, dtype.scale)
    return pa.timestamp("us", dtype.tz) if pa.types.is_timestamp(dtype) else dtype


COUNTING_PARTS = tuple(make_part(kind, (), ()) for kind in ("rows", "oldest", "newest"))
"""The first parts of groupings that count rows: how many, and the times of the first and the last."""


def _groupings(
    places: Mapping[Place, int],
    parts: Sequence[dict[Part, int]],
    schema: pa.Schema,
    plan: Plan,
    entries: Sequence[CompiledQuery],
) -> tuple[Grouping, ...]:
    needed_by: list[dict[Part, dict[int, None]]] = [{p: {} for p in numbers} for numbers in parts]
    fed_by = [
        places[Axis.WAITING, keys, None, BEGINNING_OF_TIME] if axis is Axis.ROWS else None
        for axis, keys, *_ in places
    ]
    listed = [list(numbers) for numbers in parts]
    for entry in entries:
        grouping_parts = listed[entry.grouping]
        needed = {grouping_parts[n] for answer in entry.answers for n in answer.parts}
        for part in needed.union(COUNTING_PARTS if entry.query.window.rows else ()):
            needed_by[entry.grouping][part][entry.predicate] = None
    for number, feeding in enumerate(fed_by):
        if feeding is not None:
            for part, predicates in needed_by[number].items():
                needed_by[feeding].setdefault(part, {}).update(predicates)
    members: list[list[CompiledQuery]] = [[] for _ in places]
    for entry in entries:
        members[entry.grouping].append(entry)
        feeding = fed_by[entry.grouping]
        if feeding is not None:
            members[feeding].append(entry)
    in_time = plan.progressions
    groupings = []
    for number, (axis, keys, _, since) in enumerate(places):
        types = tuple(_plain(schema.field(k).type) for k in keys)
        for dtype in types:
            sql_type(dtype)
        own = members[number]
        if axis is Axis.ROWS and len({e.tree for e in own}) > 1:
            raise QueryError(
                "windows counted in rows, of one predicate and group-by, must be in one tree of the plan"
            )
        windows = tuple(dict.fromkeys(e.query.window for e in own))
        progressions = in_time
        if axis is Axis.ROWS:
            # Of its own windows alone: a later query has other numbers, and must not cut these anew.
            cut = SLICERS[plan.trees[own[0].tree].slicer]
            progressions = reduce_progressions(p for w in windows for p in cut(w))
        groupings.append(
            Grouping(
                keys,
                types,
                tuple(needed_by[number]),
                tuple(map(tuple, needed_by[number].values())),
                windows,
                tuple(sorted({e.bucket for e in own if e.bucket is not None})),
                progressions,
                axis,
                fed_by[number],
                since,
            )
        )
    return tuple(groupings)
