"""The queries of a run: changes asked for from any thread, taken between two batches, then reported."""

from __future__ import annotations

import threading
from abc import ABC
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from weft.aggregates.registry import USER_FUNCTIONS
from weft.errors import JobError, NameTaken, QueryError, UnknownQuery, WeftError
from weft.model.names import check_added
from weft.operators.contract import Note, Tuner
from weft.operators.windows.sharing import SharingChoice, satisfying
from weft.operators.windows.stage import WindowsStage
from weft.planning.plan import Plan
from weft.runner.changes import Change, moment
from weft.runner.program import AnyQuery, Position, Program, ProgramCompiler
from weft.runner.reads import Reads, StreamColumns
from weft.sql.read import QueryInput, read_any
from weft.store.version_file import Failure

Accept = Callable[[Mapping[str, pa.Schema]], None]
"""Refuses results that a sink cannot take, by raising JobError."""


@dataclass(frozen=True, slots=True, eq=False)
class AskedChange:
    """A change asked for: the query of this name is dropped, and ``query`` is added, if there is one.

    ``schema`` is that of its results, ``reads`` the columns that it reads. ``failure`` says that nobody
    asked: the query failed.
    """

    name: str
    query: AnyQuery | None
    schema: pa.Schema | None = None
    reads: Reads = field(default_factory=dict)
    failure: Failure | None = None
    future: Future[Change] = field(default_factory=Future)


class RunningQueries:
    """The queries that are answered, compiled as ``program``, and the changes that are pending.

    ``accept`` refuses results that the sink cannot take. ``failed`` are the queries that had to leave, by
    name, until another takes the name or they are dropped. The notes of steps go to ``learn``: rates and
    costs by which a stage is planned when queries change, and tuned while they do not. ``on_ask`` is called
    when a change has been asked for.

    >>> import weft
    >>> from weft.operators.times import Seen
    >>> from weft.runner.clock import StreamTime
    >>> text = "-- name: {}\\nSELECT count(*) AS n FROM s [RANGE '{} s']"
    >>> compiler = ProgramCompiler({"": pa.schema({"ts": pa.timestamp("us")})}, {"": "ts"})
    >>> running = RunningQueries(compiler, compiler.compile(weft.sql(text.format("a", 4))))
    >>> added = running.add(text.format("b", 2))
    >>> nine = StreamTime(Seen(rows=1, max_time=9_000_000), 9_000_000)
    >>> running.confirm(running.apply(Position({"": nine}), version=2))
    >>> added.result().exact_from, added.result().version
    (datetime.datetime(1970, 1, 1, 0, 0, 8), 2)
    """

    def __init__(self, compiler: ProgramCompiler, program: Program, accept: Accept | None = None) -> None:
        self.compiler, self.program, self._accept = compiler, program, accept
        self._lock = threading.Lock()
        self._pending: list[AskedChange] = []
        self._taken: list[AskedChange] = []
        self._failing: list[AskedChange] = []
        self._ended = False
        self._tuners: dict[str, Tuner] = {}
        self._rates = RateOfRows()
        self.failed: Mapping[str, Failure] = {}
        self.on_ask: Callable[[], object] = bool

    def change(self, name: str) -> Change:
        """Return the change that a running query came with: from when on it is exact."""
        program = self.program
        stage = program.stage_of(name)
        if stage is None:
            return Change(name, program.version)
        since, history, tz = stage.exact_from(name)
        return Change(name, program.version, None if since is None else moment(since, tz), history)

    def add(self, query: QueryInput | str, name: str | None = None) -> Future[Change]:
        """Add a query with the next batch; errors in it are raised at once."""
        read = read_any(query, name)
        return self._ask(read.name, read, leaves=False)

    def drop(self, name: str) -> Future[Change]:
        """Drop a query before the next batch; its open windows are not answered."""
        return self._ask(name, None, leaves=True)

    def replace(self, query: QueryInput | str, name: str | None = None) -> Future[Change]:
        """Put a query in the place of the one of the same name."""
        read = read_any(query, name)
        return self._ask(read.name, read, leaves=True)

    def fail(self, messages: Mapping[str, str]) -> None:
        """Drop queries that could not be answered: with the next ``apply``, which takes no other change."""
        running = {q.name: q for q in self.program.queries}
        self._failing = [
            AskedChange(name, None, failure=Failure(message, running[name]))
            for name, message in messages.items()
        ]

    @property
    def failing(self) -> bool:
        """True while queries that failed are still to be dropped."""
        return bool(self._failing)

    def remembered(self) -> dict[str, Failure]:
        """Return the queries that have failed, as they will be once what was taken is in force."""
        changed = {change.name for change in self._taken}
        before = {name: failure for name, failure in self.failed.items() if name not in changed}
        return before | {c.name: c.failure for c in self._taken if c.failure is not None}

    def rebase(self, before: Iterable[AnyQuery], given: Iterable[AnyQuery]) -> None:
        """Ask for what has changed in the queries that runs are started with; all others are left alone."""
        old, new, running = (
            {q.name: q for q in queries} for queries in (before, given, self.program.queries)
        )
        for name in {**old, **new}:
            query = new.get(name)
            if query == old.get(name):
                continue
            if query is None:
                if name in running or name in self.failed:
                    self.drop(name)
            elif name not in running:
                self.add(query)
            elif running[name] != query:
                self.replace(query)

    def apply(self, at: Position, version: int) -> Program | None:
        """Return a new program with all pending changes, for streams that have come so far; None without any.

        ``confirm`` puts it in force, and reports it to those who asked.
        """
        changes = self._take()
        if not changes:
            return None
        queries = {q.name: q for q in self.program.queries}
        for change in changes:
            queries.pop(change.name, None)
            if change.query is not None:
                queries[change.name] = change.query
        self._rates.measure(self.compiler, at)
        rates = {key: rate for tuner in self._tuners.values() for key, rate in _rates_of(tuner).items()}
        try:
            return self.compiler.compile(list(queries.values()), version, self.program, at, rates)
        except WeftError as error:
            self._fail(error)
            return None

    def columns_ahead(self, stream: str) -> tuple[str, ...]:
        """Return the columns of a stream that queries read, those included that are still to be added."""
        reads = [self.program.reads, *(change.reads for change in list(self._pending))]
        names = {name for read in reads if stream in read for name in read[stream].schema.names}
        return tuple(name for name in self.program.schemas[stream].names if name in names)

    def confirm(self, program: Program | None) -> None:
        """Put a program made of the changes taken in force, and report it to those who asked."""
        if program is None:
            return
        with self._lock:
            self.failed = self.remembered()
            confirmed, self._taken, self.program = self._taken, [], program
        self._tuners = {}
        for change in confirmed:
            change.future.set_result(self.change(change.name))

    def learn(
        self, notes: Mapping[str, Sequence[Note]], choices: Iterable[SharingChoice], at: Position
    ) -> None:
        """Take in the notes of a step, by stage, and what its rows shared."""
        for stage in self.program.stages:
            if stage.name in notes:
                if stage.name not in self._tuners:
                    self._tuners[stage.name] = stage.tuner()
                self._tuners[stage.name].learn(notes[stage.name])
        self._rates.observe(choices, at)

    def tuned(self) -> Program | None:
        """Return the same program with stages decided anew by what was learnt; None where all stay."""
        tuned = {
            stage.name: better
            for stage in self.program.stages
            if stage.name in self._tuners and (better := self._tuners[stage.name].tuned(stage)) is not None
        }
        return self.program.with_stages(tuned) if tuned else None

    def close(self) -> None:
        """Take no more changes; those that no batch has taken fail."""
        with self._lock:
            self._ended = True
        self._fail(JobError("the run ended before a batch took the change"))

    def _take(self) -> list[AskedChange]:
        """Take all changes asked for so far, for a program to be made of them; queries that failed leave
        alone, since nothing may be made of what they have kept."""
        if self._failing:
            self._taken, self._failing = self._failing, []
            return self._taken
        with self._lock:
            self._taken = [c for c in self._pending if c.future.set_running_or_notify_cancel()]
            self._pending = []
        # The sink may have got results since they were asked for.
        self._taken = [change for change in self._taken if self._is_accepted(change)]
        return self._taken

    def _ask(self, name: str, query: AnyQuery | None, leaves: bool) -> Future[Change]:
        schema, reads = None, dict[str, StreamColumns]()
        if query is not None:
            with self._lock:  # before it is compiled alone, which knows nothing of the others
                check_added(query, self._queries().values(), self.compiler.streams)
            check_defined(self.program, name)
            alone = self.compiler.alone(query)
            schema, reads = alone.result_schema(name), dict(alone.reads)
            if self._accept is not None:
                self._accept({name: schema})
        with self._lock:
            if self._ended:
                raise JobError("the run has ended; its queries cannot change any more")
            queries = self._queries()
            if leaves and name not in queries and name not in self.failed:
                raise UnknownQuery("there is no such query", query=name, hint=_name_hint(queries))
            if not leaves and name in queries:
                raise NameTaken(
                    "there is a query of this name already",
                    query=name,
                    hint="replace it, or take another name",
                )
            if query is not None:
                check_added(query, queries.values(), self.compiler.streams)
            change = AskedChange(name, query, schema, reads)
            self._pending.append(change)
        self.on_ask()
        return change.future

    def _is_accepted(self, change: AskedChange) -> bool:
        """Return whether the sink takes a query's results; one that it does not take is refused alone."""
        if change.schema is None or self._accept is None:
            return True
        try:
            self._accept({change.name: change.schema})
        except WeftError as error:
            change.future.set_exception(error)
            return False
        return True

    def _queries(self) -> dict[str, AnyQuery]:
        """Return the queries, by name, once all pending changes are made."""
        queries = {q.name: q for q in self.program.queries}
        for change in (*self._taken, *self._pending):
            if not change.future.cancelled():
                queries.pop(change.name, None)
                if change.query is not None:
                    queries[change.name] = change.query
        return queries

    def _fail(self, error: WeftError) -> None:
        with self._lock:
            failed = [*self._taken, *(self._pending if self._ended else ())]
            self._taken, self._pending = [], [] if self._ended else self._pending
        for change in failed:
            if not change.future.done():
                change.future.set_exception(error)


class ChangingQueries(ABC):
    """A run whose queries, those of ``running``, may come and go; asked for from any thread."""

    running: RunningQueries

    @property
    def program(self) -> Program:
        """The queries that run, compiled."""
        return self.running.program

    @property
    def plan(self) -> Plan:
        """The plan that runs: trees, chains of joins, and their cost."""
        return self.program.plan

    def queries(self) -> tuple[AnyQuery, ...]:
        """Return the queries that are answered."""
        return self.program.queries

    @property
    def failed(self) -> Mapping[str, Failure]:
        """The queries that could not be answered any more and have left, until they are replaced."""
        return self.running.failed

    def change(self, name: str) -> Change:
        """Return the change that a running query came with: from when on it is exact."""
        return self.running.change(name)

    def add(self, query: QueryInput | str, name: str | None = None) -> Future[Change]:
        """Add a query (or one in SQL) with the next batch; errors in it are raised at once.

        The future has a ``Change`` once a batch has taken it: from when on the query is exact.

        >>> import datetime, weft
        >>> text = "SELECT count(*) AS n FROM s [RANGE '{} min' SLIDE '1 min']"
        >>> batches = [pa.table({"ts": [datetime.datetime(2024, 1, 1, 0, m, 5)]}) for m in range(4)]
        >>> run = weft.local.running.LocalRun(text.format(3), batches[0].schema, "ts")
        >>> _ = run.step(batches[0]), run.step(batches[1])
        >>> added = run.add(text.format(2), name="shorter")
        >>> run.step(batches[2])["shorter"].column("n").to_pylist()
        [2]
        >>> added.result().history, added.result().exact_from
        (True, datetime.datetime(2024, 1, 1, 0, 0))
        """
        return self.running.add(query, name)

    def drop(self, name: str) -> Future[Change]:
        """Drop a query before the next batch; its open windows are not answered."""
        return self.running.drop(name)

    def replace(self, query: QueryInput | str, name: str | None = None) -> Future[Change]:
        """Put a query in the place of the one of its name, with the next batch."""
        return self.running.replace(query, name)


class RateOfRows:
    """The rate, in event time, of rows that satisfy a query since the last change, which plans are made for.

    Rows that satisfy none cost a plan nothing. The first batch only tells from when on time is counted.
    """

    def __init__(self) -> None:
        self._since: int | None = None
        self._satisfying = 0

    def observe(self, choices: Iterable[SharingChoice], at: Position) -> None:
        """Count the rows of a step."""
        if self._since is None:
            self._since = at.latest(at.streams)
        else:
            self._satisfying += satisfying(choices)

    def measure(self, compiler: ProgramCompiler, at: Position) -> None:
        """Let planners plan for the rate since the last change."""
        latest = at.latest(at.streams)
        if self._since is not None and latest is not None and latest > self._since and self._satisfying:
            for planner in compiler.planners.values():
                planner.rate = self._satisfying / (latest - self._since) * 1e6
            self._since, self._satisfying = latest, 0


def check_defined(program: Program, name: str) -> None:
    """Refuse a query, of this name, while an aggregate that a running one uses has been defined anew."""
    entries = [
        e for stage in program.stages if isinstance(stage, WindowsStage) for e in stage.program.entries
    ]
    for entry in entries:
        for aggregate, answer in zip(entry.query.aggregates, entry.answers):
            function = USER_FUNCTIONS.get(aggregate.function)
            if function is not None and function.bound(aggregate.args) != answer.function:
                raise QueryError(
                    f"the aggregate {aggregate.function!r}, which '{entry.query.name}' uses, has been "
                    "defined anew since it was added",
                    query=name,
                    hint="define the new one under another name",
                )


def _rates_of(tuner: Tuner) -> Mapping[Any, Any]:
    return tuner.rates() if hasattr(tuner, "rates") else {}


def _name_hint(names: Iterable[str]) -> str:
    listed = sorted(names)
    return (
        f"there are {', '.join(listed[:8])}{' and more' * (len(listed) > 8)}" if listed else "there is none"
    )
