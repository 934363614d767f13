"""Changes of what a stream answers: asked for from any thread, taken between two batches, then reported."""

from __future__ import annotations

import datetime
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from weft.errors import JobError, NameTaken, UnknownQuery, WeftError
from weft.model.join import JoinQuery
from weft.model.names import check_added
from weft.model.query import Query
from weft.store.versions import Failure

EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Change:
    """A change that a batch has taken: the query's name, and the version of the queries that it made.

    Of a query that was added, windows that start at ``exact_from`` or later are answered (None: all);
    ``history`` says whether rows from before that are in them. Windows counted in rows count from then.
    Of a join, results from ``exact_from`` on are all there; before, those of the rows that came after it.
    """

    name: str
    version: int
    exact_from: datetime.datetime | None = None
    history: bool = False


class Answering(Protocol):
    """Some queries made ready to run."""

    @property
    def queries(self) -> Sequence[Any]:
        """The queries."""
        ...


Q = TypeVar("Q", Query, JoinQuery)
P = TypeVar("P", bound=Answering)
M = TypeVar("M")


@dataclass(frozen=True, slots=True, eq=False)
class PendingChange(Generic[Q, M]):
    """A change asked for: the query of this name is dropped, and ``query`` is added, if there is one.

    ``prepared`` is what a new program is made of, ``schema`` that of its results. ``failure`` says that
    nobody asked: the query failed.
    """

    name: str
    query: Q | None
    prepared: M | None
    schema: pa.Schema | None
    failure: Failure | None = None
    future: Future[Change] = field(default_factory=Future)


class Changes(ABC, Generic[Q, P, M]):
    """The queries that are answered, ``program``, and the changes that are pending.

    ``accept`` refuses results that the sink cannot take. ``streams`` are those given by name. ``failed`` are
    the queries that had to leave, by name, until another takes the name or they are dropped.
    """

    def __init__(
        self,
        program: P,
        accept: Callable[[Mapping[str, pa.Schema]], None] | None,
        streams: Collection[str] | None,
    ) -> None:
        self.program, self._accept, self._streams = program, accept, streams
        self._lock = threading.Lock()
        self._pending: list[PendingChange[Q, M]] = []
        self._taken: list[PendingChange[Q, M]] = []
        self._failing: list[PendingChange[Q, M]] = []
        self._ended = False
        self.failed: Mapping[str, Failure] = {}

    @abstractmethod
    def change(self, name: str) -> Change:
        """Return the change that a running query came with."""

    @abstractmethod
    def _read(self, query: Any, name: str | None) -> Q:
        """One query from SQL, a builder or as it is, under another name if one is given."""

    @abstractmethod
    def _check(self, query: Q) -> tuple[M, pa.Schema | None]:
        """Prepare a query, and give the schema of its results; QueryError where it cannot be added."""

    def add(self, query: Any, name: str | None = None) -> Future[Change]:
        """Add a query with the next batch; errors in it are raised at once."""
        read = self._read(query, name)
        return self._ask(read.name, read, leaves=False)

    def drop(self, name: str) -> Future[Change]:
        """Drop a query before the next batch; its open windows are not answered."""
        return self._ask(name, None, leaves=True)

    def replace(self, query: Any, name: str | None = None) -> Future[Change]:
        """Put a query in the place of the one of the same name."""
        read = self._read(query, name)
        return self._ask(read.name, read, leaves=True)

    def fail(self, messages: Mapping[str, str]) -> None:
        """Drop queries that could not be answered: with the next ``apply``, which takes no other change."""
        running = {q.name: q for q in self.program.queries}
        self._failing = [
            PendingChange(name, None, None, None, Failure(message, running[name]))
            for name, message in messages.items()
        ]

    @property
    def failing(self) -> bool:
        """True while queries that failed are still to be dropped."""
        return bool(self._failing)

    def remembered(self) -> dict[str, Failure]:
        """The queries that have failed, as they will be once what was taken is in force."""
        changed = {change.name for change in self._taken}
        before = {name: failure for name, failure in self.failed.items() if name not in changed}
        return before | {c.name: c.failure for c in self._taken if c.failure is not None}

    def rebase(self, before: Iterable[Q], given: Iterable[Q]) -> None:
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

    def confirm(self, program: P | None) -> None:
        """Put a program made of the changes taken in force, and report it to those who asked."""
        if program is None:
            return
        with self._lock:
            self.failed = self.remembered()
            confirmed, self._taken, self.program = self._taken, [], program
        for change in confirmed:
            change.future.set_result(self.change(change.name))

    def close(self) -> None:
        """Take no more changes; those that no batch has taken fail."""
        with self._lock:
            self._ended = True
        self._fail(JobError("the run ended before a batch took the change"))

    def _take(self) -> list[PendingChange[Q, M]]:
        """All changes asked for so far, for a program to be made of them; queries that failed leave alone,
        since nothing may be made of what they have kept."""
        if self._failing:
            self._taken, self._failing = self._failing, []
            return self._taken
        with self._lock:
            self._taken = [c for c in self._pending if c.future.set_running_or_notify_cancel()]
            self._pending = []
        # The sink may have got results since they were asked for.
        self._taken = [change for change in self._taken if self._is_accepted(change)]
        return self._taken

    def _ask(self, name: str, query: Q | None, leaves: bool) -> Future[Change]:
        if query is not None:
            with self._lock:  # before it is compiled alone, which knows nothing of the others
                check_added(query, self._queries().values(), self._streams)
        prepared, schema = (None, None) if query is None else self._check(query)
        if query is not None and schema is not None and self._accept is not None:
            self._accept({query.name: schema})
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
                check_added(query, queries.values(), self._streams)
            change = PendingChange(name, query, prepared, schema)
            self._pending.append(change)
        return change.future

    def _is_accepted(self, change: PendingChange[Q, M]) -> bool:
        """Return whether the sink takes a query's results; one that it does not take is refused alone."""
        if change.schema is None or self._accept is None:
            return True
        try:
            self._accept({change.name: change.schema})
        except WeftError as error:
            change.future.set_exception(error)
            return False
        return True

    def _queries(self) -> dict[str, Q]:
        """The queries, by name, once all pending changes are made."""
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


def moment(time: int, tz: str | None) -> datetime.datetime:
    """A time in microseconds as Python has it, in UTC where there is a zone.

    >>> moment(8_000_000, None)
    datetime.datetime(1970, 1, 1, 0, 0, 8)
    """
    try:
        instant = EPOCH + datetime.timedelta(microseconds=time)
    except OverflowError:
        instant = datetime.datetime.max if time > 0 else datetime.datetime.min
    return instant if tz is None else instant.replace(tzinfo=datetime.UTC)


def _name_hint(names: Iterable[str]) -> str:
    listed = sorted(names)
    return (
        f"there are {', '.join(listed[:8])}{' and more' * (len(listed) > 8)}" if listed else "there is none"
    )
