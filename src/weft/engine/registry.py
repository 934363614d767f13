"""The queries of a running stream: changes are asked for from any thread and taken between two batches."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from weft.aggregates.registry import DEFINED
from weft.builder import QueryBuilder
from weft.engine.compile import compile_plan
from weft.engine.due import NEVER
from weft.engine.history import origin_of
from weft.engine.partial import Seen
from weft.engine.program import Origin, Program
from weft.engine.sharing import Choice, satisfying
from weft.errors import JobError, NameTaken, QueryError, UnknownQuery, WeftError
from weft.optimize import LivePlanner
from weft.optimize.planner import window_query
from weft.plan import Plan
from weft.query import Query
from weft.sql import sql

Asked: TypeAlias = Query | QueryBuilder | str

EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Change:
    """A change that a batch has taken: the query's name, and the version of the queries that it made.

    Of a query that joined, windows that start at ``exact_from`` or later are answered (None: all);
    ``history`` says whether rows from before it joined are in them. Windows counted in rows count from then.
    """

    name: str
    version: int
    exact_from: datetime.datetime | None = None
    history: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A change asked for: what has this name leaves, and a query joins if ``alone`` is its program."""

    name: str
    alone: Program | None
    future: Future[Change] = field(default_factory=Future)


class Registry:
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
        self.program, self._planner, self._accept, self._tables = program, planner, accept, tables
        self._lock = threading.Lock()
        self._asked: list[_Asked] = []
        self._folded: list[_Asked] = []
        self._since: int | None = None
        self._satisfying = 0
        self._ended = False

    def add(self, query: Asked, name: str | None = None) -> Future[Change]:
        """Let a query join with the next batch; errors in it are raised at once."""
        read = read_query(query, name)
        return self._ask(read.name, read, leaves=False)

    def drop(self, name: str) -> Future[Change]:
        """Let a query leave before the next batch; its open windows are not answered."""
        return self._ask(name, None, leaves=True)

    def replace(self, query: Asked, name: str | None = None) -> Future[Change]:
        """Let a query take the place of the one of the same name."""
        read = read_query(query, name)
        return self._ask(read.name, read, leaves=True)

    def rebase(self, before: Iterable[Query], given: Iterable[Query]) -> None:
        """Ask for what has changed in the queries that runs are started with; all others are left alone."""
        old, new, running = (
            {q.name: q for q in queries} for queries in (before, given, self.program.queries)
        )
        for name in {**old, **new}:
            query = new.get(name)
            if query == old.get(name):
                continue
            if query is None:
                if name in running:
                    self.drop(name)
            elif name not in running:
                self.add(query)
            elif running[name] != query:
                self.replace(query)

    def fold(self, seen: Seen, watermark: int | None, version: int | None = None) -> Program | None:
        """All changes asked for as one new program, for a stream that has come so far; None without any.

        It is in force, and those who asked are told, with ``commit``.
        """
        with self._lock:
            self._folded = [a for a in self._asked if a.future.set_running_or_notify_cancel()]
            self._asked = []
        # The sink may have got results since they were asked for.
        self._folded = [asked for asked in self._folded if self._still_fits(asked)]
        if not self._folded:
            return None
        running, version = self.program, version or self.program.version + 1
        origins = {e.query.name: e.origin for e in running.entries}
        queries = {q.name: q for q in running.queries}
        for asked in self._folded:
            queries.pop(asked.name, None)
            if asked.alone is not None:
                queries[asked.name] = asked.alone.queries[0]
                origins[asked.name] = origin_of(asked.alone, running, seen.max_time, watermark)
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
            plan, old.schema, old.time, old.strict, old.buckets, origins, version, old, tables
        )

    def commit(self, program: Program | None) -> None:
        """Put a folded program in force."""
        if program is None:
            return
        with self._lock:
            folded, self._folded, self.program = self._folded, [], program
        for asked in folded:
            asked.future.set_result(self._change(asked))

    def close(self) -> None:
        """Take no more changes; those that no batch has taken fail."""
        with self._lock:
            self._ended = True
        self._fail(JobError("the run ended before a batch took the change"))

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

    def _ask(self, name: str, query: Query | None, leaves: bool) -> Future[Change]:
        alone = None if query is None else self._check(query)
        with self._lock:
            if self._ended:
                raise JobError("the run has ended; its queries cannot change any more")
            known = self._names()
            if leaves and name not in known:
                raise UnknownQuery("there is no such query", query=name, hint=_known(known))
            if not leaves and name in known:
                raise NameTaken(
                    "there is a query of this name already",
                    query=name,
                    hint="replace it, or take another name",
                )
            asked = _Asked(name, alone)
            self._asked.append(asked)
        return asked.future

    def _check(self, query: Query) -> Program:
        """The query compiled alone; QueryError where it cannot join."""
        for entry in self.program.entries:
            for aggregate, answer in zip(entry.query.aggregates, entry.answers):
                function = DEFINED.get(aggregate.function)
                if function is not None and function.bound(aggregate.args) != answer.function:
                    raise QueryError(
                        f"the aggregate {aggregate.function!r}, which '{entry.query.name}' uses, has been "
                        "defined anew since it joined",
                        query=query.name,
                        hint="define the new one under another name",
                    )
        alone = self.compiled(self._planner.alone(query), {}, 0)
        if self._accept is not None:
            self._accept({query.name: alone.result_schema(query.name)})
        return alone

    def _still_fits(self, asked: _Asked) -> bool:
        """Whether the sink takes a query's results; one that it does not take is refused alone."""
        if asked.alone is None or self._accept is None:
            return True
        try:
            self._accept({asked.name: asked.alone.result_schema(asked.name)})
        except WeftError as error:
            asked.future.set_exception(error)
            return False
        return True

    def _names(self) -> set[str]:
        """The names in use once all that was asked for is done."""
        names = set(self.program.by_name)
        for asked in (*self._folded, *self._asked):
            if not asked.future.cancelled():
                (names.add if asked.alone is not None else names.discard)(asked.name)
        return names

    def _change(self, asked: _Asked) -> Change:
        if asked.alone is None:
            return Change(asked.name, self.program.version)
        return joined(self.program, asked.name)

    def _fail(self, error: WeftError) -> None:
        with self._lock:
            failed = [*self._folded, *(self._asked if self._ended else ())]
            self._folded, self._asked = [], [] if self._ended else self._asked
        for asked in failed:
            if not asked.future.done():
                asked.future.set_exception(error)


def joined(program: Program, name: str) -> Change:
    """How a query of a program came to it."""
    entry = program.by_name.get(name)
    if entry is None:
        return Change(name, program.version)
    origin = entry.origin
    if origin.since == NEVER:
        return Change(name, program.version)
    return Change(
        name, program.version, _moment(origin.since, program.time_type.tz), origin.since <= origin.joined
    )


def read_query(query: Asked, name: str | None = None) -> Query:
    """One query from SQL, a builder or as it is, under another name if one is given."""
    if isinstance(query, str):
        found = sql(query)
        if len(found) != 1:
            raise QueryError(f"this text has {len(found)} queries", hint="give one at a time")
        read = window_query(found[0])
    else:
        read = window_query(query)
    return read if name is None else read.renamed(name)


def _known(names: Iterable[str]) -> str:
    listed = sorted(names)
    return (
        f"there are {', '.join(listed[:8])}{' and more' * (len(listed) > 8)}" if listed else "there is none"
    )


def _moment(time: int, tz: str | None) -> datetime.datetime:
    try:
        moment = EPOCH + datetime.timedelta(microseconds=time)
    except OverflowError:
        moment = datetime.datetime.max if time > 0 else datetime.datetime.min
    return moment if tz is None else moment.replace(tzinfo=datetime.UTC)
