"""Joins of a stream made ready to run, each with what it finds of the joins that ran before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from weft.errors import JobError
from weft.expr.types import UTC
from weft.model.as_data import join_from_dict
from weft.model.expression import columns_of
from weft.model.instants import BEGINNING_OF_TIME
from weft.model.join import RESULT_TIME, JoinQuery
from weft.model.names import check_names
from weft.model.query import Query
from weft.operators.joins.feeds import feed_schema
from weft.operators.joins.lineage import Lineage
from weft.operators.joins.program import JoinProgram, compile_joins
from weft.operators.joins.rows import ROW_COLUMNS
from weft.operators.joins.state import Joins, Marks
from weft.operators.lookups.bind import BoundLookup
from weft.operators.lookups.side import key_names, united
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.history import first_start, origin_of
from weft.operators.windows.program import Origin, WindowProgram
from weft.planning.joins.chain_plan import choose_ends
from weft.planning.joins.feeding import fed, feeding
from weft.planning.joins.member import Key, Member, member, merged
from weft.planning.joins.rates import ChainCosts, Rates, assumed, calibrated
from weft.planning.live import LivePlanner


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Position of a stream of joins: the latest time seen, the watermark of each stream, and that of
    the results."""

    latest: int | None = None
    marks: Marks = field(default_factory=dict)
    results: int | None = None

    def now(self, streams: Sequence[str]) -> int:
        """Return the time before which results of joins of these streams have gone out.

        BEGINNING_OF_TIME where none has.
        """
        marks = [self.marks.get(stream) for stream in streams]
        known_marks = [mark for mark in marks if mark is not None]
        return min(known_marks) if len(known_marks) == len(marks) else BEGINNING_OF_TIME


BEGINNING = StreamPosition()


@dataclass(frozen=True, eq=False)
class JoinCompiler:
    """Streams that joins are compiled for: their columns and times, and how chains are sliced.

    ``tables`` are the columns of the lookup tables.
    """

    schemas: Mapping[str, pa.Schema]
    times: Mapping[str, str]
    planner: LivePlanner
    strict: bool = False
    buckets: int = 1
    shape: str | float = "mem-opt"
    costs: ChainCosts = field(default_factory=calibrated)
    zone: str = UTC
    tables: Mapping[str, pa.Schema] = field(default_factory=dict)

    def joins(
        self,
        queries: Sequence[JoinQuery],
        version: int = 0,
        before: Joins | None = None,
        at: StreamPosition = BEGINNING,
        rates: Mapping[Key, Rates] | None = None,
    ) -> Joins:
        """The joins made ready, where ``before`` ran until now; ``rates`` are those measured of its chains.

        A version that is written down has a number from 1 on, so that ids of two are never the same.

        A join that was there goes on. One that a running join covers goes on from that one; another begins
        with the rows that come after it.
        """
        programs = self._programs(queries)
        running: dict[Key, list[tuple[Member, Lineage]]] = {}
        for program, chain_lineages in zip(before.programs, before.lineages) if before else ():
            running[program.members[0].key] = list(zip(program.members, chain_lineages))
        lineages, ends = [], []
        for number, program in enumerate(programs):
            members, key = program.members, program.members[0].key
            running_members = running.get(key, [])
            lineages.append(
                tuple(
                    _lineage(m, running_members, f"{version}-{number}-{n}", at) for n, m in enumerate(members)
                )
            )
            measured = (rates or {}).get(key)
            expected = (
                assumed(members) if measured is None else assumed(members, measured.rows, measured.join)
            )
            ends.append(choose_ends(members, self.shape, expected, self.costs))
        origins = self._origins(queries, programs, lineages, before, at) if before else {}
        results = self._results(programs, lineages, origins, version)
        schemas = self._read(programs)
        return Joins(
            tuple(queries),
            programs,
            tuple(ends),
            {s: self.times[s] for s in schemas},
            schemas,
            tuple(lineages),
            results,
            _lookups(programs),
        )

    def restored(self, data: Mapping[str, Any], version: int, origins: Mapping[str, Origin]) -> Joins:
        """The joins behind ``to_data``, as they were."""
        queries = tuple(map(join_from_dict, data["queries"]))
        programs = self._programs(queries)
        lineages = tuple(
            tuple(
                Lineage(tuple(lineage["ids"]), lineage["since"], lineage.get("columns", {}))
                for lineage in chain
            )
            for chain in data["lines"]
        )
        results = self._results(programs, lineages, origins, version)
        schemas = self._read(programs)
        times = {s: self.times[s] for s in schemas}
        return Joins(
            queries, programs, tuple(data["ends"]), times, schemas, lineages, results, _lookups(programs)
        )

    def _programs(self, queries: Sequence[JoinQuery]) -> tuple[JoinProgram, ...]:
        check_names(queries, self.schemas)
        for query in queries:
            # One by one, so that an error names the query.
            self._compiled([member(query)])
        groups: dict[Key, list[Member]] = {}
        for chain_member in merged(feeding(member(query)) for query in queries):
            groups.setdefault(chain_member.key, []).append(chain_member)
        return tuple(map(self._compiled, groups.values()))

    def _compiled(self, members: Sequence[Member]) -> JoinProgram:
        return compile_joins(members, self.schemas, self.times, self.strict, self.zone, self.tables)

    def _read(self, programs: Sequence[JoinProgram]) -> dict[str, pa.Schema]:
        """The columns that are read of each stream itself, in order of name.

        While there is no join, the times of all streams are read: rows go by that one added later lacks.
        """
        needed: dict[str, set[str]] = {} if programs else {s: {self.times[s]} for s in self._timed()}
        for chain_member in (m for program in programs for m in program.members):
            for side, stream, selection in zip(
                chain_member.sides, chain_member.streams, chain_member.selections
            ):
                names = needed.setdefault(stream, {self.times[stream]})
                names |= chain_member.columns(side)
                names |= frozenset() if selection is None else columns_of(selection)
        for stream, lookups in _lookups(programs).items():
            needed[stream] |= key_names(lookups)
        for stream, names in needed.items():
            for name in sorted(names & set(ROW_COLUMNS)):
                raise JobError(f"column {name!r} of {stream!r} has a name that weft uses itself; rename it")
        return {s: pa.schema([f for f in self.schemas[s] if f.name in needed[s]]) for s in sorted(needed)}

    def _timed(self) -> list[str]:
        """The streams whose time column can be read."""
        fields = {s: (schema, schema.get_field_index(self.times[s])) for s, schema in self.schemas.items()}
        return [s for s, (schema, n) in fields.items() if n >= 0 and pa.types.is_timestamp(schema.types[n])]

    def _results(
        self,
        programs: Sequence[JoinProgram],
        lineages: Sequence[Sequence[Lineage]],
        origins: Mapping[str, Origin],
        version: int,
    ) -> WindowProgram:
        """The program of the queries over results."""
        queries = [
            fed(query, lineage.id)
            for program, chain_lineages in zip(programs, lineages)
            for chain_member, lineage in zip(program.members, chain_lineages)
            for query in chain_member.aggregates
        ]
        schema = feed_schema(programs)
        plan = self.planner(queries)
        return compile_plan(
            plan, schema, RESULT_TIME, self.strict, self.buckets, origins, version, zone=self.zone
        )

    def _origins(
        self,
        queries: Sequence[JoinQuery],
        programs: Sequence[JoinProgram],
        lineages: Sequence[Sequence[Lineage]],
        before: Joins,
        at: StreamPosition,
    ) -> dict[str, Origin]:
        """From which window on each query over results is exact."""
        there = set(before.queries)
        stays = {q.name for q in queries if q in there}
        old_origins = {e.query.name: e.origin for e in before.results.entries}
        schema = feed_schema(programs)
        origins: dict[str, Origin] = {}
        for program, chain_lineages in zip(programs, lineages):
            for chain_member, lineage in zip(program.members, chain_lineages):
                for query in chain_member.aggregates:
                    if query.name in stays:
                        origins[query.name] = old_origins[query.name]
                    elif at.latest is not None:
                        origins[query.name] = self._origin(query, chain_member, lineage, schema, before, at)
        return origins

    def _origin(
        self,
        query: Query,
        chain_member: Member,
        lineage: Lineage,
        schema: pa.Schema,
        before: Joins,
        at: StreamPosition,
    ) -> Origin:
        """The origin of a query over the results of a join, which may have been there before it."""
        assert at.latest is not None
        old = next((m for m, other in before.members.values() if other.id == lineage.id), None)
        since = lineage.since
        if old is None:
            # None of its results has been given to anyone; those of before are late.
            since = since if since == BEGINNING_OF_TIME or at.results is None else max(since, at.results)
            origin = Origin(BEGINNING_OF_TIME, at.latest)
        else:
            read = [columns_of(o.expr) for o in chain_member.outputs if o.alias in query.columns]
            since = max(since, lineage.complete_from(frozenset[str]().union(*read)))
            plan = self.planner.alone(fed(query, lineage.id))
            alone = compile_plan(plan, schema, RESULT_TIME, self.strict, self.buckets, zone=self.zone)
            origin = origin_of(alone, before.results, at.latest, at.results)
        if since == BEGINNING_OF_TIME:
            return origin
        first = since if query.window.rows else first_start(query.window, since)
        return replace(origin, since=max(origin.since, first), latest_when_added=at.latest)


def _lookups(programs: Sequence[JoinProgram]) -> dict[str, tuple[BoundLookup, ...]]:
    """Return what is put beside the rows of each stream, for all chains that read it."""
    by_stream: dict[str, list[BoundLookup]] = {}
    for program in programs:
        for stream, lookups in zip(program.members[0].streams, program.lookups):
            if lookups:
                by_stream.setdefault(stream, []).extend(lookups)
    return {stream: united(lookups) for stream, lookups in by_stream.items()}


def _lineage(
    new: Member, running: Sequence[tuple[Member, Lineage]], join_id: str, at: StreamPosition
) -> Lineage:
    """Return the lineage of a join that comes to a chain in which others are."""
    for old, lineage in running:
        if old.aggregates and new.aggregates and _feeds_alike(old, new):
            return _with_columns(lineage, old, new, at)
        if old.query == new.query:
            return lineage
    if at.latest is None:
        return Lineage((join_id,))
    now = at.now(new.streams)
    for old, lineage in running:
        if old.covers(new) and lineage.complete_from(new.read) <= now:
            return Lineage((join_id, *lineage.ids), max(lineage.since, now))
    # Whatever joins to a result from then on has come after all rows so far.
    return Lineage((join_id,), at.latest + max(new.ranges))


def _with_columns(lineage: Lineage, old: Member, new: Member, at: StreamPosition) -> Lineage:
    """Return the lineage of a join that goes on with the columns of other queries over its results."""
    columns = {name: since for name, since in lineage.columns.items() if name in new.read}
    if at.latest is not None:  # kept rows lack what has not been read so far
        columns |= dict.fromkeys(sorted(new.read - old.read), at.latest + max(new.ranges))
    return replace(lineage, columns=columns)


def _feeds_alike(one: Member, other: Member) -> bool:
    return (one.ranges, one.selections) == (other.ranges, other.selections)
