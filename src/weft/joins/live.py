"""Joins of a running stream: made ready again whenever they change, each with what it finds of before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from weft.engine.changes import Change, Changes, moment
from weft.engine.compile import compile_plan
from weft.engine.due import NEVER
from weft.engine.history import first_start, origin_of
from weft.engine.program import Origin, Program
from weft.engine.registry import check_defined, joined, read_one
from weft.errors import CheckpointError, JobError, QueryError, WeftError
from weft.expr import UTC
from weft.join_builder import JoinBuilder
from weft.joins.explain import choose_ends
from weft.joins.feeds import fed, feed_schema, feeding
from weft.joins.lines import Line
from weft.joins.member import Key, Member, member, merged
from weft.joins.program import JoinProgram, compile_joins
from weft.joins.rates import Costs, Rates, assumed, calibrated
from weft.joins.rows import OWN
from weft.joins.state import Joins, Marks
from weft.names import check_names
from weft.optimize import LivePlanner
from weft.query import RESULT_TIME, JoinQuery, Query, columns_of
from weft.query_json import join_from_dict, join_to_dict


@dataclass(frozen=True, slots=True)
class Moment:
    """How far a stream of joins has come: the latest time seen, the watermark of each stream, and that of
    the results."""

    latest: int | None = None
    marks: Marks = field(default_factory=dict)
    results: int | None = None

    def now(self, streams: Sequence[str]) -> int:
        """The time before which results of joins of these streams have gone out; NEVER where none has."""
        found = [self.marks.get(stream) for stream in streams]
        known = [mark for mark in found if mark is not None]
        return min(known) if len(known) == len(found) else NEVER


BEGINNING = Moment()


@dataclass(frozen=True, eq=False)
class Streams:
    """What joins are made ready for: all streams with their columns and times, and how chains are sliced."""

    schemas: Mapping[str, pa.Schema]
    times: Mapping[str, str]
    planner: LivePlanner
    strict: bool = False
    buckets: int = 1
    shape: str | float = "mem-opt"
    costs: Costs = field(default_factory=calibrated)
    zone: str = UTC

    def joins(
        self,
        queries: Sequence[JoinQuery],
        version: int = 0,
        before: Joins | None = None,
        at: Moment = BEGINNING,
        rates: Mapping[Key, Rates] | None = None,
    ) -> Joins:
        """The joins made ready, where ``before`` ran until now; ``rates`` are those measured of its chains.

        A version that is written down has a number from 1 on, so that ids of two are never the same.

        A join that was there goes on. One that a running join covers goes on from that one; another begins
        with the rows that come after it.
        """
        programs = self._programs(queries)
        running: dict[Key, list[tuple[Member, Line]]] = {}
        for program, some in zip(before.programs, before.lines) if before else ():
            running[program.members[0].key] = list(zip(program.members, some))
        lines, ends = [], []
        for number, program in enumerate(programs):
            members, key = program.members, program.members[0].key
            there = running.get(key, [])
            lines.append(tuple(_line(m, there, f"{version}-{number}-{n}", at) for n, m in enumerate(members)))
            known = (rates or {}).get(key)
            expected = assumed(members) if known is None else assumed(members, known.rows, known.join)
            ends.append(choose_ends(members, self.shape, expected, self.costs))
        origins = self._origins(queries, programs, lines, before, at) if before else {}
        results = self._results(programs, lines, origins, version)
        schemas = self._read(programs)
        return Joins(
            tuple(queries),
            programs,
            tuple(ends),
            {s: self.times[s] for s in schemas},
            schemas,
            tuple(lines),
            results,
        )

    def restored(self, data: Mapping[str, Any], version: int, origins: Mapping[str, Origin]) -> Joins:
        """The joins behind ``to_data``, as they were."""
        queries = tuple(map(join_from_dict, data["queries"]))
        programs = self._programs(queries)
        lines = tuple(
            tuple(Line(tuple(line["ids"]), line["since"]) for line in some) for some in data["lines"]
        )
        results = self._results(programs, lines, origins, version)
        schemas = self._read(programs)
        times = {s: self.times[s] for s in schemas}
        return Joins(queries, programs, tuple(data["ends"]), times, schemas, lines, results)

    def check(self, data: Mapping[str, Any], place: str) -> None:
        """Refuse streams that are not those of a checkpoint."""
        remedy = "use another checkpoint directory, or the same streams"
        if sorted(self.schemas) != data["streams"]:
            raise CheckpointError(
                f"checkpoint '{place}' belongs to the streams {', '.join(data['streams'])}, not to "
                f"{', '.join(sorted(self.schemas))}; {remedy}"
            )
        for stream, time in data["times"].items():
            if self.times[stream] != time:
                raise CheckpointError(
                    f"checkpoint '{place}' belongs to streams of which the time column of '{stream}' is "
                    f"'{time}', not '{self.times[stream]}'; {remedy}"
                )
            for name, type in data["types"][stream].items():
                schema = self.schemas[stream]
                found = str(schema.field(name).type) if name in schema.names else "missing"
                if found != type:
                    raise CheckpointError(
                        f"checkpoint '{place}' belongs to streams of which column '{name}' of '{stream}' is "
                        f"{type}, not {found}; {remedy}"
                    )

    def to_data(self, joins: Joins, base: Iterable[JoinQuery]) -> dict[str, Any]:
        """The joins as plain data; ``base`` are those that the run was started with."""
        return {
            "streams": sorted(self.schemas),
            "queries": list(map(join_to_dict, joins.queries)),
            "base": list(map(join_to_dict, base)),
            "times": dict(joins.times),
            "types": {s: {f.name: str(f.type) for f in schema} for s, schema in joins.schemas.items()},
            "layout": joins.layout.to_data(),
            "lines": [
                [{"ids": list(line.ids), "since": line.since} for line in some] for some in joins.lines
            ],
            "ends": [[list(side) for side in ends] for ends in joins.ends],
        }

    def _programs(self, queries: Sequence[JoinQuery]) -> tuple[JoinProgram, ...]:
        check_names(queries, self.schemas)
        for query in queries:
            # One by one, so that an error names the query.
            self._compiled([member(query)])
        groups: dict[Key, list[Member]] = {}
        for each in merged(feeding(member(query)) for query in queries):
            groups.setdefault(each.key, []).append(each)
        return tuple(map(self._compiled, groups.values()))

    def _compiled(self, members: Sequence[Member]) -> JoinProgram:
        return compile_joins(members, self.schemas, self.times, self.strict, self.zone)

    def _read(self, programs: Sequence[JoinProgram]) -> dict[str, pa.Schema]:
        """The columns that are read of each stream, in order of name."""
        needed: dict[str, set[str]] = {}
        for each in (m for program in programs for m in program.members):
            for side, stream, selection in zip(each.sides, each.streams, each.selections):
                names = needed.setdefault(stream, {self.times[stream]})
                names |= each.columns(side)
                names |= frozenset() if selection is None else columns_of(selection)
        for stream, names in needed.items():
            for name in sorted(names & set(OWN)):
                raise JobError(f"column {name!r} of {stream!r} has a name that weft uses itself; rename it")
        return {s: pa.schema([f for f in self.schemas[s] if f.name in needed[s]]) for s in sorted(needed)}

    def _results(
        self,
        programs: Sequence[JoinProgram],
        lines: Sequence[Sequence[Line]],
        origins: Mapping[str, Origin],
        version: int,
    ) -> Program:
        """The program of the queries over results."""
        asked = [
            fed(query, line.id)
            for program, some in zip(programs, lines)
            for each, line in zip(program.members, some)
            for query in each.aggregates
        ]
        schema = feed_schema(programs)
        plan = self.planner(asked)
        return compile_plan(
            plan, schema, RESULT_TIME, self.strict, self.buckets, origins, version, zone=self.zone
        )

    def _origins(
        self,
        queries: Sequence[JoinQuery],
        programs: Sequence[JoinProgram],
        lines: Sequence[Sequence[Line]],
        before: Joins,
        at: Moment,
    ) -> dict[str, Origin]:
        """From which window on each query over results is exact."""
        there = set(before.queries)
        stays = {q.name for q in queries if q in there}
        known = {e.query.name: e.origin for e in before.results.entries}
        schema = feed_schema(programs)
        found: dict[str, Origin] = {}
        for program, some in zip(programs, lines):
            for each, line in zip(program.members, some):
                for query in each.aggregates:
                    if query.name in stays:
                        found[query.name] = known[query.name]
                    elif at.latest is not None:
                        found[query.name] = self._origin(query, each, line, schema, before, at)
        return found

    def _origin(
        self, query: Query, each: Member, line: Line, schema: pa.Schema, before: Joins, at: Moment
    ) -> Origin:
        """The origin of a query over the results of a join, which may have been there before it."""
        assert at.latest is not None
        old = next((m for m, other in before.members.values() if other.id == line.id), None)
        since = line.since
        if old is None:
            # None of its results has been given to anyone; those of before are late.
            since = since if since == NEVER or at.results is None else max(since, at.results)
            origin = Origin(NEVER, at.latest)
        else:
            read = [columns_of(o.expr) for o in each.outputs if o.alias in query.columns]
            if not frozenset[str]().union(*read) <= old.read:
                since = at.latest + max(each.ranges)  # kept rows lack what it reads
            plan = self.planner.alone(fed(query, line.id))
            alone = compile_plan(plan, schema, RESULT_TIME, self.strict, self.buckets, zone=self.zone)
            origin = origin_of(alone, before.results, at.latest, at.results)
        if since == NEVER:
            return origin
        first = since if query.window.rows else first_start(query.window, since)
        return replace(origin, since=max(origin.since, first), joined=at.latest)


def _line(new: Member, there: Sequence[tuple[Member, Line]], id: str, at: Moment) -> Line:
    """How a join comes to a chain in which others are."""
    for old, line in there:
        if old.query == new.query or (old.aggregates and new.aggregates and _feeds_alike(old, new)):
            return line
    if at.latest is None:
        return Line((id,))
    for old, line in there:
        if old.covers(new):
            return Line((id, *line.ids), max(line.since, at.now(new.streams)))
    # Whatever joins to a result from then on has come after all rows so far.
    return Line((id,), at.latest + max(new.ranges))


def _feeds_alike(one: Member, other: Member) -> bool:
    return (one.ranges, one.selections) == (other.ranges, other.selections)


class JoinRegistry(Changes[JoinQuery, Joins, JoinQuery]):
    """The joins of a running stream, and what has been asked for.

    >>> import weft
    >>> schema = pa.schema({"ts": pa.timestamp("us"), "x": pa.int64()})
    >>> streams = Streams({"a": schema, "b": schema}, {"a": "ts", "b": "ts"}, LivePlanner())
    >>> text = "-- name: {}\\nSELECT a.x FROM a [RANGE '{} s'], b [RANGE '5 s'] WHERE a.x = b.x"
    >>> registry = JoinRegistry(streams.joins(weft.sql(text.format("long", 9))), streams)
    >>> asked = registry.add(text.format("short", 4))
    >>> at = Moment(9_000_000, {"a": 9_000_000, "b": 8_000_000})
    >>> registry.commit(registry.fold(at, version=2))
    >>> asked.result().exact_from, asked.result().history
    (datetime.datetime(1970, 1, 1, 0, 0, 8), True)
    """

    def __init__(
        self,
        joins: Joins,
        streams: Streams,
        accept: Callable[[Mapping[str, pa.Schema]], None] | None = None,
    ) -> None:
        super().__init__(joins, accept, streams.schemas)
        self.streams = streams

    def joined(self, name: str) -> Change:
        """How a join that runs came to be answered."""
        joins = self.program
        if name not in joins.members:
            return Change(name, joins.version)
        each, line = joins.members[name]
        if each.aggregates:
            return joined(joins.results, name)
        if line.since == NEVER:
            return Change(name, joins.version, None, len(line.ids) > 1)
        tz = joins.result_schema(name).field(RESULT_TIME).type.tz
        return Change(name, joins.version, moment(line.since, tz), len(line.ids) > 1)

    def fold(self, at: Moment, version: int, rates: Mapping[Key, Rates] | None = None) -> Joins | None:
        """All changes asked for as the joins of another version; None without any."""
        folded = self._take()
        if not folded:
            return None
        queries = {q.name: q for q in self.program.queries}
        for asked in folded:
            queries.pop(asked.name, None)
            if asked.made is not None:
                queries[asked.name] = asked.made
        try:
            return self.streams.joins(list(queries.values()), version, self.program, at, rates)
        except WeftError as error:
            self._fail(error)
            return None

    def _read(self, query: JoinQuery | JoinBuilder | str, name: str | None) -> JoinQuery:
        return read_join(query, name)

    def _check(self, query: JoinQuery) -> tuple[JoinQuery, pa.Schema]:
        check_defined(self.program.results, query.name)
        return query, self.streams.joins([query]).result_schema(query.name)


def read_join(query: Any, name: str | None = None) -> JoinQuery:
    """One join from SQL, a builder or as it is, under another name if one is given."""
    read = read_one(query) if isinstance(query, str) else query
    read = read.build() if isinstance(read, JoinBuilder) else read
    if not isinstance(read, JoinQuery):
        raise QueryError(
            "a stream of joins cannot answer window queries beside them",
            query=getattr(read, "name", None),
            hint="give it a weft.stream of its own, over one source",
        )
    return read if name is None else read.renamed(name)
