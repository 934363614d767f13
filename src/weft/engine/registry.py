"""The queries of a running stream over one source: how they change, and what a new one finds there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import pyarrow as pa

from weft.aggregates.registry import DEFINED
from weft.builder import QueryBuilder
from weft.engine.changes import Change, Changes, moment
from weft.engine.compile import compile_plan
from weft.engine.due import NEVER
from weft.engine.history import origin_of
from weft.engine.partial import Seen
from weft.engine.program import Origin, Program
from weft.engine.sharing import Choice, satisfying
from weft.errors import QueryError, WeftError
from weft.optimize import LivePlanner
from weft.optimize.planner import window_query
from weft.plan import Plan
from weft.query import JoinQuery, Query
from weft.sql import sql

Asked: TypeAlias = Query | QueryBuilder | str


class Registry(Changes[Query, Program, Program]):
    """What is answered, and what has been asked for.

    >>> import pyarrow as pa, weft
    >>> text = "-- name: {}\\nSELECT count(*) AS n FROM s [RANGE '{} s']"
    >>> plan = weft.plan(weft.sql(text.format("a", 4)))
    >>> program = compile_plan(plan, pa.schema({"ts": pa.timestamp("us")}), "ts")
    >>> registry = Registry(program, LivePlanner.of(plan))
    >>> asked = registry.add(text.format("b", 2))
    >>> registry.commit(registry.fold(Seen(rows=1, max_time=9_000_000), watermark=9_000_000))
    >>> asked.result().exact_from, asked.result().version
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

    def joined(self, name: str) -> Change:
        """How a query that runs came to be answered."""
        return joined(self.program, name)

    def fold(self, seen: Seen, watermark: int | None, version: int | None = None) -> Program | None:
        """All changes asked for as one new program, for a stream that has come so far; None without any.

        It is in force, and those who asked are told, with ``commit``.
        """
        folded = self._take()
        if not folded:
            return None
        running, version = self.program, version or self.program.version + 1
        origins = {e.query.name: e.origin for e in running.entries}
        queries = {q.name: q for q in running.queries}
        for asked in folded:
            queries.pop(asked.name, None)
            if asked.made is not None:
                queries[asked.name] = asked.made.queries[0]
                origins[asked.name] = origin_of(asked.made, running, seen.max_time, watermark)
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

    def observe(self, choices: Iterable[Choice], latest: int | None) -> None:
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

    def _read(self, query: Asked, name: str | None) -> Query:
        return read_query(query, name)

    def _check(self, query: Query) -> tuple[Program, pa.Schema]:
        """The query compiled alone; QueryError where it cannot join."""
        check_defined(self.program, query.name)
        alone = self.compiled(self._planner.alone(query), {}, 0)
        return alone, alone.result_schema(query.name)


def check_defined(program: Program, name: str) -> None:
    """Refuse a query, of this name, while an aggregate that a running one uses has been defined anew."""
    for entry in program.entries:
        for aggregate, answer in zip(entry.query.aggregates, entry.answers):
            function = DEFINED.get(aggregate.function)
            if function is not None and function.bound(aggregate.args) != answer.function:
                raise QueryError(
                    f"the aggregate {aggregate.function!r}, which '{entry.query.name}' uses, has been "
                    "defined anew since it joined",
                    query=name,
                    hint="define the new one under another name",
                )


def joined(program: Program, name: str) -> Change:
    """How a query of a program came to it."""
    entry = program.by_name.get(name)
    if entry is None:
        return Change(name, program.version)
    origin = entry.origin
    if origin.since == NEVER:
        return Change(name, program.version)
    return Change(
        name, program.version, moment(origin.since, program.time_type.tz), origin.since <= origin.joined
    )


def read_query(query: Asked, name: str | None = None) -> Query:
    """One query from SQL, a builder or as it is, under another name if one is given."""
    read = window_query(read_one(query) if isinstance(query, str) else query)
    return read if name is None else read.renamed(name)


def read_one(text: str) -> Query | JoinQuery:
    """The one query of a text."""
    found = sql(text)
    if len(found) != 1:
        raise QueryError(f"this text has {len(found)} queries", hint="give one at a time")
    return found[0]
