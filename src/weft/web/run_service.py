"""A run as its clients see it: changes within limits, and everything there is to read. Knows no HTTP."""

from __future__ import annotations

import datetime
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

import pyarrow as pa

from weft.errors import JobError, QueryError, UnknownQuery
from weft.io.sinks.latest import Group, LatestSink, of_group
from weft.model.join import JoinQuery
from weft.model.query import Query
from weft.runner.changes import Change
from weft.runner.contract import RunningStream
from weft.sql.read import read_one
from weft.sql.text import check_name, split
from weft.web.filters import typed
from weft.web.groups import Groups
from weft.web.limits import MAX_NAME_CHARACTERS, MAX_SQL_CHARACTERS, Limits
from weft.web.record import Record

STREAM = re.compile(r"[\w.-]+")
MAX_CACHED_GROUPS = 100
"""Queries whose groups are remembered until their next results."""


class TooMuch(JobError):
    """More queries, or more changes at once, than the server takes."""


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """A change asked for: its kind in words, and the version in force when it was."""

    name: str
    state: str
    version: int
    future: Future[Change]


@dataclass(frozen=True, slots=True)
class Shown:
    """A query and its state; ``since`` is when it was added to the run or asked for."""

    name: str
    state: str
    since: datetime.datetime
    query: Query | JoinQuery
    change: Change | None
    results: int
    windows: int = 0
    error: str | None = None


class RunService:
    """A run with its record and latest results; all methods can be called from any thread."""

    def __init__(
        self,
        running: RunningStream,
        latest: LatestSink,
        record: Record,
        engine: str,
        limits: Limits | None = None,
        texts: Mapping[str, str] | None = None,
    ) -> None:
        self.running, self.latest, self.record, self.engine = running, latest, record, engine
        self.limits = limits or Limits()
        self.started = _now()
        self._since: dict[str, datetime.datetime] = {}
        self._texts = dict(texts or {})
        self._groups: dict[str, tuple[tuple[int, Query | JoinQuery], Groups]] = {}
        self._requests: tuple[tuple[ChangeRequest, Query | JoinQuery | None, datetime.datetime], ...] = ()
        self._lock = threading.Lock()

    @property
    def state(self) -> str:
        """The state of the run: running, ended or failed."""
        if self.running.is_active:
            return "running"
        return "ended" if self.running.exception is None else "failed"

    def add(self, sql: str, name: str | None = None) -> ChangeRequest:
        """Add a query; without a name in the text or beside it, it gets one that is free."""
        query, named = self._read(sql, name)
        with self._lock:
            names = self._names_in_use()
            if not named:
                query = query.renamed(
                    next(n for i in range(1, len(names) + 2) if (n := f"q{i}") not in names)
                )
            if len(names) >= self.limits.queries and query.name not in names:
                raise TooMuch(
                    f"there are {len(names)} queries, and this server takes no more; drop one first"
                )
            return self._ask("adding", query.name, query, lambda: self.running.add(query), sql)

    def replace(self, name: str, sql: str) -> ChangeRequest:
        """Replace the query of this name by another; what that one has answered is forgotten."""
        query, _ = self._read(sql, name)
        with self._lock:
            return self._ask("replacing", name, query, lambda: self.running.replace(query), sql)

    def drop(self, name: str) -> ChangeRequest:
        """Drop a query."""
        with self._lock:
            return self._ask("dropping", name, None, lambda: self.running.drop(name), None)

    def queries(self) -> list[Shown]:
        """Return the queries that are answered, those that are being added and those that failed, by name."""
        program, requests = self.running.program, self._open()
        last = {a.name: (a, query, when) for a, query, when in requests}
        answered = {q.name for q in program.queries}
        shown = []
        for query in program.queries:
            change, _, _ = last.pop(query.name, (None, None, None))
            shown.append(
                Shown(
                    query.name,
                    "running" if change is None else change.state,
                    self._since.get(query.name, self.started),
                    query,
                    self.running.change(query.name),
                    self.latest.delivered[query.name],
                    self.latest.windows[query.name],
                )
            )
        shown += [
            Shown(
                name,
                last.pop(name)[0].state if name in last else "failed",
                self._since.get(name, self.started),
                failure.query,
                None,
                self.latest.delivered[name],
                self.latest.windows[name],
                failure.message,
            )
            for name, failure in self.running.failed.items()
            if name not in answered
        ]
        shown += [
            Shown(name, "adding", when, query, None, 0)
            for name, (_, query, when) in last.items()
            if query is not None
        ]
        return sorted(shown, key=lambda s: s.name)

    def query(self, name: str) -> Shown:
        """One query of them."""
        for shown in self.queries():
            if shown.name == name:
                return shown
        raise UnknownQuery("there is no such query", query=name, hint="GET /api/v1/queries lists them")

    def results(self, name: str, where: dict[str, str | None]) -> pa.Table:
        """The latest results of a query, oldest first, of the groups asked for."""
        query = self.query(name).query
        table = self._table(query)
        group = _group(query, where, table.schema)
        return table.slice(0, 0) if group is None else of_group(table, group)

    def series(self, name: str, where: dict[str, str | None]) -> pa.Table:
        """The latest results of one group, oldest first, which is followed from now on."""
        query = self.query(name).query
        missing = set(query.result_keys) - where.keys()
        if missing:
            raise QueryError(
                f"which {' and '.join(sorted(missing))}?",
                query=name,
                hint="give a value for each column that the query groups by",
            )
        table = self._table(query)
        group = _group(query, where, table.schema)
        series = None if group is None else self.latest.series(name, group)
        return table.slice(0, 0) if series is None else series

    def groups(self, query: Query | JoinQuery) -> Groups:
        """The groups of a query with their latest answers; kept for as long as no other ones come."""
        seq = self.latest.newest(query.name)
        cached = self._groups.get(query.name)
        if cached is None or cached[0] != (seq, query):
            if len(self._groups) >= MAX_CACHED_GROUPS:
                self._groups.clear()
            cached = (seq, query), Groups(self._table(query), query.result_keys)
            self._groups[query.name] = cached
        return cached[1]

    def text(self, name: str) -> str | None:
        """The SQL that a query was asked in, where this server has seen it."""
        return self._texts.get(name)

    def _table(self, query: Query | JoinQuery) -> pa.Table:
        """The latest results of a query; none where those there are come from one that it has replaced."""
        table, columns = self.latest.table(query.name), list(query.result_columns)
        if table is None or table.column_names != columns:
            return pa.table({column: [] for column in columns})
        return table

    def _read(self, sql: str, name: str | None) -> tuple[Query | JoinQuery, bool]:
        """The query of a text, and whether it was given a name."""
        if len(sql) > MAX_SQL_CHARACTERS:
            raise QueryError(
                f"the text has more than {MAX_SQL_CHARACTERS:,} characters", hint="ask for less at once"
            )
        try:
            query = read_one(sql)
        except RecursionError:
            raise QueryError("nested too deeply", hint="use fewer parentheses") from None
        for stream in query.streams:
            if not STREAM.fullmatch(stream):
                raise QueryError(
                    f"{stream!r} is not the name of a stream", query=query.name, hint="FROM reaches no files"
                )
        windowed = query.aggregate if isinstance(query, JoinQuery) else query
        if windowed is not None and not windowed.window.rows and windowed.window.slide < self.limits.slide:
            raise QueryError(
                f"a window every {windowed.window.slide} µs",
                hint=f"take a slide of at least {self.limits.slide} µs",
            )
        named = name is not None or split(sql)[0].named
        if name is not None:
            query = query.renamed(check_name(name))
        if len(query.name) > MAX_NAME_CHARACTERS:
            raise QueryError(
                f"the name has more than {MAX_NAME_CHARACTERS} characters", hint="take a shorter one"
            )
        return query, named

    def _ask(
        self,
        state: str,
        name: str,
        query: Query | JoinQuery | None,
        ask: Callable[[], Future[Change]],
        sql: str | None,
    ) -> ChangeRequest:
        waiting = self._open()
        if len(waiting) >= 2 * self.limits.queries:
            raise TooMuch("too many changes wait for the next batch; try again after it")
        version = self.running.program.version
        try:
            request = ChangeRequest(name, state, version, ask())
        except RecursionError:
            raise QueryError("nested too deeply", query=name, hint="use fewer parentheses") from None
        self._requests = (*waiting, (request, query, _now()))
        request.future.add_done_callback(lambda _: self._done(request, sql))
        return request

    def _open(self) -> tuple[tuple[ChangeRequest, Query | JoinQuery | None, datetime.datetime], ...]:
        """The changes that no batch has taken yet."""
        return tuple(entry for entry in self._requests if not entry[0].future.done())

    def _names_in_use(self) -> set[str]:
        """The names in use once all that was asked for is done."""
        names = {q.name for q in self.running.queries()} | set(self.running.failed)
        for request, query, _ in self._open():
            (names.discard if query is None else names.add)(request.name)
        return names

    def _done(self, request: ChangeRequest, sql: str | None) -> None:
        """Called when a batch has taken the change, before it has results."""
        if not request.future.cancelled() and request.future.exception() is None:
            self._since[request.name] = _now()
            self.latest.forget(request.name)
            if sql is None:
                self._texts.pop(request.name, None)
            else:
                self._texts[request.name] = sql


def _group(query: Query | JoinQuery, where: Mapping[str, str | None], schema: pa.Schema) -> Group | None:
    """Columns and values from text; None where no value of the column's type is written so."""
    for column in where:
        if column not in query.result_keys:
            raise QueryError(
                f"the query does not group by '{column}'",
                query=query.name,
                hint=f"its groups are {', '.join(query.result_keys)}"
                if query.result_keys
                else "it has no groups",
            )
    try:
        return tuple((column, typed(value, schema.field(column).type)) for column, value in where.items())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        return None


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
