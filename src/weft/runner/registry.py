"""The queries of a running stream over one source: how they change, and what a new one finds there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import pyarrow as pa

from weft.aggregates.registry import USER_FUNCTIONS
from weft.errors import QueryError, WeftError
from weft.model.instants import BEGINNING_OF_TIME
from weft.model.query import Query
from weft.operators.times import Seen
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.history import origin_of
from weft.operators.windows.program import Origin, Program
from weft.operators.windows.sharing import SharingChoice, satisfying
from weft.planning.live import LivePlanner
from weft.planning.plan import Plan
from weft.runner.changes import Change, Changes, moment
from weft.sql.builder import QueryBuilder
from weft.sql.read import read_query

WindowQueryInput: TypeAlias = Query | QueryBuilder | str


class Registry(Changes[Query, Program, Program]):
    """The window queries that are answered, and the changes that are pending.

    >>> import pyarrow as pa, weft
    >>> text = "-- name: {}\\nSELECT count(*) AS n FROM s [RANGE '{} s']"
    >>> plan = weft.plan(weft.sql(text.format("a", 4)))
    >>> program = compile_plan(plan, pa.schema({"ts": pa.timestamp("us")}), "ts")
    >>> registry = Registry(program, LivePlanner.of(plan))
    >>> added = registry.add(text.format("b", 2))
    >>> registry.confirm(registry.apply(Seen(rows=1, max_time=9_000_000), watermark=9_000_000))
    >>> added.result().exact_from, added.result().version
    (datetime.datetime(1970, 1, 1, 0, 0, 8), 2)
    """

    def __init__(
        self,
        program: Program,
        planner: LivePlanner,
        accept: Callable[[Mapping[str, pa.Schema]], None] | None = None,
        tables: Callable[[Iterable[Query]], Mapping[str, pa.Schema]] = lambda queries: {},
    ) -> None:
        super().__init__(program, accept, program.streams)
        self._planner, self._tables = planner, tables
        self._since: int | None = None
        self._satisfying = 0

    def change(self, name: str) -> Change:
        """Return the change that a running query came with."""
        return change_of(self.program, name)

    def apply(self, seen: Seen, watermark: int | None, version: int | None = None) -> Program | None:
        """Return a new program with all pending changes, for a stream that has come so far; None without any.

        ``confirm`` puts it in force, and reports it to those who asked.
        """
        changes = self._take()
        if not changes:
            return None
        running, version = self.program, version or self.program.version + 1
        origins = {e.query.name: e.origin for e in running.entries}
        queries = {q.name: q for q in running.queries}
        for change in changes:
            queries.pop(change.name, None)
            if change.prepared is not None:
                queries[change.name] = change.prepared.queries[0]
                origins[change.name] = origin_of(change.prepared, running, seen.max_time, watermark)
        self._measure(seen.max_time)
        try:
            return self.compiled(self._planner(list(queries.values())), origins, version)
        except WeftError as error:
            self._fail(error)
            return None

    def compiled(self, plan: Plan, origins: Mapping[str, Origin], version: int) -> Program:
        """A program for another plan over the same stream."""
        old, tables = self.program, self._tables(plan.queries)
        return compile_plan(
            plan,
            old.schema,
            old.time,
            old.strict,
            old.buckets,
            origins,
            version,
            old,
            tables,
            old.streams,
            old.zone,
        )

    def observe(self, choices: Iterable[SharingChoice], latest: int | None) -> None:
        """Count the rows of a batch that satisfy a query, for the others cost the plan nothing.

        ``latest`` is the time of its latest row. The first batch only tells from when on time is counted.
        """
        if self._since is None:
            self._since = latest
        else:
            self._satisfying += satisfying(choices)

    def _measure(self, latest: int | None) -> None:
        """Plan for the rate, in event time, of rows that satisfy a query, since the last change."""
        if self._since is not None and latest is not None and latest > self._since and self._satisfying:
            self._planner.rate = self._satisfying / (latest - self._since) * 1e6
            self._since, self._satisfying = latest, 0

    def _read(self, query: WindowQueryInput, name: str | None) -> Query:
        return read_query(query, name)

    def _check(self, query: Query) -> tuple[Program, pa.Schema]:
        """Compile the query alone; QueryError where it cannot be added."""
        check_defined(self.program, query.name)
        alone = self.compiled(self._planner.alone(query), {}, 0)
        return alone, alone.result_schema(query.name)


def check_defined(program: Program, name: str) -> None:
    """Refuse a query, of this name, while an aggregate that a running one uses has been defined anew."""
    for entry in program.entries:
        for aggregate, answer in zip(entry.query.aggregates, entry.answers):
            function = USER_FUNCTIONS.get(aggregate.function)
            if function is not None and function.bound(aggregate.args) != answer.function:
                raise QueryError(
                    f"the aggregate {aggregate.function!r}, which '{entry.query.name}' uses, has been "
                    "defined anew since it joined",
                    query=name,
                    hint="define the new one under another name",
                )


def change_of(program: Program, name: str) -> Change:
    """Return the change that a query of a program came with."""
    entry = program.by_name.get(name)
    if entry is None:
        return Change(name, program.version)
    origin = entry.origin
    if origin.since == BEGINNING_OF_TIME:
        return Change(name, program.version)
    return Change(
        name,
        program.version,
        moment(origin.since, program.time_type.tz),
        origin.since <= origin.latest_when_added,
    )
