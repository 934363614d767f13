"""Programs: any mix of queries compiled into stages, and compiled anew whenever the queries change.

A stream with window queries has a stage of its own; all joins are one stage; window queries over the results
of joins are one more, behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa

from weft.expr.types import UTC
from weft.model.as_data import join_to_dict
from weft.model.join import JoinQuery
from weft.model.names import check_names
from weft.model.query import Query
from weft.operators.contract import Marks, Stage
from weft.operators.joins.compile import JoinCompiler, StreamPosition
from weft.operators.joins.running_plan import running_chains
from weft.operators.joins.stage import JOINED, JOINS, JoinsStage
from weft.operators.joins.state import Joins
from weft.operators.lookups.bind import BoundLookup
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.history import origin_of
from weft.operators.windows.program import Origin, WindowProgram
from weft.operators.windows.stage import WindowsStage
from weft.planning.joins.rates import Rates
from weft.planning.live import LivePlanner
from weft.planning.plan import Plan, merged
from weft.runner.clock import StreamTime
from weft.runner.reads import Reads, StreamColumns

AnyQuery: TypeAlias = Query | JoinQuery

RESULTS = "results"
"""The name of the stage of window queries over the results of joins."""

UNNAMED = ""
"""The name of a stream that is given without one."""


def windows_name(stream: str) -> str:
    """Return the name of the stage of a stream's window queries.

    >>> windows_name("trades")
    'windows:trades'
    """
    return f"windows:{stream}"


@dataclass(frozen=True)
class Program:
    """All queries of one version, made ready; a stage stands behind those whose outputs it reads.

    ``schemas`` and ``times`` are the columns, and the time column, of every stream that there is; ``reads``
    says what is read of them.
    """

    version: int
    stages: tuple[Stage, ...]
    queries: tuple[AnyQuery, ...]
    schemas: Mapping[str, pa.Schema]
    times: Mapping[str, str]
    plan: Plan
    buckets: int = 1
    strict: bool = False
    zone: str = UTC
    streams: tuple[str, ...] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent to tasks: what can be computed again is not."""
        return {column.name: getattr(self, column.name) for column in fields(self)}

    @cached_property
    def by_stream(self) -> dict[str, list[Stage]]:
        """The stages that read each source."""
        return {name: [stage for stage in self.stages if name in stage.inputs] for name in self.schemas}

    @cached_property
    def levels(self) -> tuple[tuple[Stage, ...], ...]:
        """The stages that read sources alone, and those that read what these give; none is empty but where
        there is no stage at all."""
        behind = tuple(stage for stage in self.stages if JOINED in stage.inputs)
        ahead = tuple(stage for stage in self.stages if JOINED not in stage.inputs)
        return (ahead, behind) if behind else (ahead,)

    @cached_property
    def reads(self) -> Reads:
        """The columns that are read of each stream; of one that no query reads, its time, so that a query
        which is added later knows how far it has come."""
        reads = {}
        for name, schema in self.schemas.items():
            stages, time = self.by_stream[name], self.times[name]
            columns = {time}.union(*(stage.inputs[name].names for stage in stages))
            if not stages and not _is_timed(schema, time):
                continue
            keys = {key for stage in stages for key in stage.keys.get(name, ())}
            fields = [schema.field(column) for column in schema.names if column in columns]
            reads[name] = StreamColumns(pa.schema(fields), tuple(sorted(keys)))
        return reads

    @cached_property
    def results(self) -> dict[str, pa.Schema]:
        """The columns of each query's results."""
        schemas: dict[str, pa.Schema] = {}
        for stage in self.stages:
            schemas |= stage.results
        return {query.name: schemas[query.name] for query in self.queries}

    @cached_property
    def lookups(self) -> tuple[BoundLookup, ...]:
        """The lookups of all stages, each once."""
        return tuple(
            dict.fromkeys(
                lookup for stage in self.stages for bound in stage.lookups.values() for lookup in bound
            )
        )

    @property
    def rounds(self) -> int:
        """Return how many exchanges there are between preparing rows and the first step."""
        return max((stage.rounds for stage in self.stages), default=0)

    def result_schema(self, name: str) -> pa.Schema:
        """Return the columns of a query's results."""
        return self.results[name]

    def stage(self, name: str) -> Any:
        """Return the stage of a name; None where there is none."""
        return next((stage for stage in self.stages if stage.name == name), None)

    def stage_of(self, query: str) -> Stage | None:
        """Return the stage that answers a query; None where there is no such query."""
        return next((stage for stage in self.stages if query in stage.results), None)

    @property
    def windows(self) -> list[WindowProgram]:
        """The window queries of each stage that has any, compiled."""
        return [stage.program for stage in self.stages if isinstance(stage, WindowsStage)]

    @property
    def joins(self) -> Joins | None:
        """The joins, if there are any."""
        stage = self.stage(JOINS)
        return None if stage is None else stage.joins

    def with_stages(self, stages: Mapping[str, Stage]) -> Program:
        """Return the same program with other stages of these names."""
        changed = tuple(stages.get(stage.name, stage) for stage in self.stages)
        return replace(self, stages=changed, plan=plan_of(changed))

    def renumbered(self, version: int) -> Program:
        """Return the same program as another version."""
        stages = tuple(stage.renumbered(version) for stage in self.stages)
        return replace(self, version=version, stages=stages)

    def data(self) -> dict[str, dict[str, Any]]:
        """Return what is written down of each stage: its layout, and how its queries came."""
        data: dict[str, dict[str, Any]] = {}
        for stage in self.stages:
            data[stage.name] = {"layout": dict(stage.layout), "data": stage.to_data()}
        return data


def plan_of(stages: Iterable[Stage]) -> Plan:
    """Return the plan that stages run: trees, and chains as they are sliced and ordered now."""
    stages = tuple(stages)
    plans = {stage.stream: stage.program.plan for stage in stages if isinstance(stage, WindowsStage)}
    joining = next((stage for stage in stages if isinstance(stage, JoinsStage)), None)
    if joining is None:
        return next(iter(plans.values())) if len(plans) == 1 else merged(plans)
    joins = joining.joins
    if JOINED in plans:
        # As they are asked of the join; those that run name it in their predicates.
        members = (member for program in joins.programs for member in program.members)
        plans[JOINED] = plans[JOINED].with_queries(q for member in members for q in member.aggregates)
    return merged(plans, running_chains(joins.programs, joins.ends, joining.orders))


def _is_timed(schema: pa.Schema, time: str) -> bool:
    return time in schema.names and pa.types.is_timestamp(schema.field(time).type)


@dataclass(frozen=True)
class Position:
    """The position that a stream has come to: of each of its streams, and the marks of each stage."""

    streams: Mapping[str, StreamTime] = field(default_factory=dict)
    marks: Mapping[str, Marks] = field(default_factory=dict)

    def latest(self, streams: Iterable[str]) -> int | None:
        """Return the latest time seen of some streams; None before any row."""
        times = (self.streams[name].seen.max_time for name in streams if name in self.streams)
        return max((time for time in times if time is not None), default=None)

    def mark(self, stage: str, stream: str) -> int | None:
        """Return the mark of a stage for a stream: the stream's own, where the stage is new."""
        own = self.streams[stream].mark if stream in self.streams else None
        return self.marks.get(stage, {}).get(stream, own)


BEGINNING = Position()


@dataclass(eq=False)
class ProgramCompiler:
    """Compiles the queries of a run over its streams.

    ``streams`` are the names that FROM may have; None where the one stream was given without a name.
    ``tables`` gives the columns of the lookup tables that queries read. ``shape`` is how joins are sliced.
    """

    schemas: Mapping[str, pa.Schema]
    times: Mapping[str, str]
    streams: tuple[str, ...] | None = None
    strategy: str = "share-all"
    technique: str = "auto"
    strict: bool = False
    buckets: int = 1
    shape: str | float = "mem-opt"
    zone: str = UTC
    tables: Callable[[Iterable[AnyQuery]], Mapping[str, pa.Schema]] = lambda queries: {}
    given: Plan | None = None
    planners: dict[str, LivePlanner] = field(default_factory=dict)

    def compile(
        self,
        queries: Sequence[AnyQuery],
        version: int = 1,
        before: Program | None = None,
        at: Position = BEGINNING,
        rates: Mapping[Any, Rates] | None = None,
    ) -> Program:
        """Return the program of queries, where ``before`` ran until now and streams have come to ``at``.

        Queries that were there go on as they are; others find what those before them have kept. ``rates`` are
        those measured of joins.
        """
        check_names(queries, self.streams)
        stages: list[Stage] = []
        for stream in self.schemas:
            own = [q for q in queries if isinstance(q, Query) and self.stream_of(q) == stream]
            if own:
                stages.append(self._windows(stream, own, version, before, at))
        joining = [q for q in queries if isinstance(q, JoinQuery)]
        if joining:
            stages += self._joins(joining, version, before, at, rates)
        return self._program(stages, queries, version)

    def restore(
        self, queries: Sequence[AnyQuery], version: int, stages: Mapping[str, Mapping[str, Any]]
    ) -> Program:
        """Return the program that was written down as ``Program.data``, as it was."""
        restored: list[Stage] = []
        for stream in self.schemas:
            own = [q for q in queries if isinstance(q, Query) and self.stream_of(q) == stream]
            if own:
                origins = WindowsStage.origins(stages[windows_name(stream)]["data"])
                restored.append(self._stage(stream, own, version, origins, None))
        joining = [q for q in queries if isinstance(q, JoinQuery)]
        if joining:
            data = {**stages[JOINS]["data"], "queries": list(map(join_to_dict, joining))}
            origins = WindowsStage.origins(stages[RESULTS]["data"]) if RESULTS in stages else {}
            restored += self._join_stages(self._compiler(joining).restored(data, version, origins))
        return self._program(restored, queries, version)

    def alone(self, query: AnyQuery) -> Program:
        """Return the program of one query, whatever runs; QueryError where it cannot be answered."""
        if isinstance(query, JoinQuery):
            return self._program(self._join_stages(self._compiler([query]).joins([query])), [query], 0)
        stream = self.stream_of(query)
        program = self._alone(stream, query)
        return self._program([WindowsStage(windows_name(stream), stream, program)], [query], 0)

    def stream_of(self, query: Query) -> str:
        """Return the stream that a window query reads."""
        return UNNAMED if self.streams is None else query.source

    def planner(self, stage: str) -> LivePlanner:
        """Return the planner of a stage's window queries."""
        if stage not in self.planners:
            if self.given is not None and not self.given.chains and len(self.schemas) == 1:
                self.planners[stage] = LivePlanner.of(self.given, self.streams)
            else:
                streams = None if stage == RESULTS else self.streams
                self.planners[stage] = LivePlanner(
                    self.strategy, self.technique, self.buckets, streams=streams
                )
        return self.planners[stage]

    def _program(self, stages: Sequence[Stage], queries: Sequence[AnyQuery], version: int) -> Program:
        return Program(
            version,
            tuple(stages),
            tuple(queries),
            self.schemas,
            self.times,
            plan_of(stages),
            self.buckets,
            self.strict,
            self.zone,
            self.streams,
        )

    def _windows(
        self, stream: str, queries: Sequence[Query], version: int, before: Program | None, at: Position
    ) -> WindowsStage:
        """Compile the window queries of a stream."""
        name = windows_name(stream)
        stage = None if before is None else before.stage(name)
        running: WindowProgram | None = None if stage is None else stage.program
        origins: dict[str, Origin] = {}
        if before is not None:
            there = {} if running is None else {e.query.name: e for e in running.entries}
            # As they were asked for: those that run name the columns of lookup tables anew.
            asked = {query.name: query for query in before.queries}
            latest, mark = at.latest([stream]), at.mark(name, stream)
            for query in queries:
                if query.name in there and asked[query.name] == query:
                    origins[query.name] = there[query.name].origin
                else:
                    alone, kept = self._alone(stream, query), running or self._empty(stream)
                    origins[query.name] = origin_of(alone, kept, latest, mark)
        return self._stage(stream, queries, version, origins, running)

    def _stage(
        self,
        stream: str,
        queries: Sequence[Query],
        version: int,
        origins: Mapping[str, Origin],
        running: WindowProgram | None,
    ) -> WindowsStage:
        given = self.given if running is None else None  # later plans are made for the rates of then
        fits = given is not None and not given.chains and set(given.queries) == set(queries)
        plan = given if given is not None and fits else self.planner(windows_name(stream))(queries)
        return WindowsStage(
            windows_name(stream), stream, self._compiled(plan, stream, origins, version, running)
        )

    def _compiled(
        self,
        plan: Plan,
        stream: str,
        origins: Mapping[str, Origin] | None = None,
        version: int = 1,
        running: WindowProgram | None = None,
    ) -> WindowProgram:
        return compile_plan(
            plan,
            self.schemas[stream],
            self.times[stream],
            self.strict,
            self.buckets,
            origins,
            version,
            running,
            self.tables(plan.queries),
            self.streams,
            self.zone,
        )

    def _alone(self, stream: str, query: Query) -> WindowProgram:
        return self._compiled(self.planner(windows_name(stream)).alone(query), stream, version=0)

    def _empty(self, stream: str) -> WindowProgram:
        return self._compiled(Plan((), self.strategy, 1.0), stream, version=0)

    def _compiler(self, queries: Sequence[JoinQuery]) -> JoinCompiler:
        return JoinCompiler(
            self.schemas,
            self.times,
            self.planner(RESULTS),
            self.strict,
            self.buckets,
            self.shape,
            zone=self.zone,
            tables=self.tables(queries),
        )

    def _joins(
        self,
        queries: Sequence[JoinQuery],
        version: int,
        before: Program | None,
        at: Position,
        rates: Mapping[Any, Rates] | None,
    ) -> list[Stage]:
        """Compile joins, and the window queries over their results."""
        compiler, running = self._compiler(queries), None
        place = StreamPosition()
        if before is not None:
            running = before.joins or compiler.joins([])
            joined = dict.fromkeys(s for q in (*running.queries, *queries) for s in q.streams)
            marks = {stream: at.mark(JOINS, stream) for stream in joined}
            place = StreamPosition(at.latest(joined), marks, at.marks.get(RESULTS, {}).get(JOINED))
        before_it = None if before is None else before.stage(JOINS)
        return self._join_stages(compiler.joins(queries, version, running, place, rates), before_it)

    def _join_stages(self, joins: Joins, before: JoinsStage | None = None) -> list[Stage]:
        stage = JoinsStage(joins, shape=self.shape) if before is None else before.followed_by(joins)
        stages: list[Stage] = [stage]
        if joins.results.entries:
            stages.append(WindowsStage(RESULTS, JOINED, joins.results))
        return stages
