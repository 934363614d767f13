"""Changes of what a stream answers: asked for from any thread, taken between two batches, then told of."""

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
from weft.names import check_joining
from weft.query import JoinQuery, Query

EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Change:
    """A change that a batch has taken: the query's name, and the version of the queries that it made.

    Of a query that joined, windows that start at ``exact_from`` or later are answered (None: all);
    ``history`` says whether rows from before it joined are in them. Windows counted in rows count from then.
    Of a join, results from ``exact_from`` on are all there; before, those of the rows that came after it.
    """

    name: str
    version: int
    exact_from: datetime.datetime | None = None
    history: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """A query that could not be answered any more, and why; it has left, and the others have gone on."""

    message: str
    query: Any = field(repr=False)


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
class Asked(Generic[Q, M]):
    """A change asked for: what has this name leaves, and ``query`` joins, if there is one.

    ``made`` is what was made of it, ``schema`` that of its results. ``failure`` says that nobody asked: the
    query failed.
    """

    name: str
    query: Q | None
    made: M | None
    schema: pa.Schema | None
    failure: Failure | None = None
    future: Future[Change] = field(default_factory=Future)


class Changes(ABC, Generic[Q, P, M]):
    """What is answered, ``program``, and what has been asked for.

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
        self._asked: list[Asked[Q, M]] = []
        self._folded: list[Asked[Q, M]] = []
        self._failing: list[Asked[Q, M]] = []
        self._ended = False
        self.failed: Mapping[str, Failure] = {}

    @abstractmethod
    def joined(self, name: str) -> Change:
        """How a query that runs came to be answered."""

    @abstractmethod
    def _read(self, query: Any, name: str | None) -> Q:
        """One query from SQL, a builder or as it is, under another name if one is given."""

    @abstractmethod
    def _check(self, query: Q) -> tuple[M, pa.Schema | None]:
        """What is made of a query, and the schema of its results; QueryError where it cannot join."""

    def add(self, query: Any, name: str | None = None) -> Future[Change]:
        """Let a query join with the next batch; errors in it are raised at once."""
        read = self._read(query, name)
        return self._ask(read.name, read, leaves=False)

    def drop(self, name: str) -> Future[Change]:
        """Let a query leave before the next batch; its open windows are not answered."""
        return self._ask(name, None, leaves=True)

    def replace(self, query: Any, name: str | None = None) -> Future[Change]:
        """Let a query take the place of the one of the same name."""
        read = self._read(query, name)
        return self._ask(read.name, read, leaves=True)

    def fail(self, messages: Mapping[str, str]) -> None:
        """Let queries that could not be answered leave: with the next fold, which takes no other change."""
        running = {q.name: q for q in self.program.queries}
        self._failing = [
            Asked(name, None, None, None, Failure(message, running[name]))
            for name, message in messages.items()
        ]

    @property
    def failing(self) -> bool:
        """Whether queries that failed are still to leave."""
        return bool(self._failing)

    def remembered(self) -> dict[str, Failure]:
        """The queries that have failed, as they will be once what was taken is in force."""
        left = {a.name for a in self._folded}
        kept = {name: failure for name, failure in self.failed.items() if name not in left}
        return kept | {a.name: a.failure for a in self._folded if a.failure is not None}

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

    def commit(self, program: P | None) -> None:
        """Put a program made of what was taken in force, and tell those who asked."""
        if program is None:
            return
        with self._lock:
            self.failed = self.remembered()
            folded, self._folded, self.program = self._folded, [], program
        for asked in folded:
            asked.future.set_result(self.joined(asked.name))

    def close(self) -> None:
        """Take no more changes; those that no batch has taken fail."""
        with self._lock:
            self._ended = True
        self._fail(JobError("the run ended before a batch took the change"))

    def _take(self) -> list[Asked[Q, M]]:
        """All changes asked for so far, for a program to be made of them; queries that failed leave alone,
        since nothing may be made of what they have kept."""
        if self._failing:
            self._folded, self._failing = self._failing, []
            return self._folded
        with self._lock:
            self._folded = [a for a in self._asked if a.future.set_running_or_notify_cancel()]
            self._asked = []
        # The sink may have got results since they were asked for.
        self._folded = [asked for asked in self._folded if self._still_fits(asked)]
        return self._folded

    def _ask(self, name: str, query: Q | None, leaves: bool) -> Future[Change]:
        if query is not None:
            with self._lock:  # before it is compiled alone, which knows nothing of the others
                check_joining(query, self._queries().values(), self._streams)
        made, schema = (None, None) if query is None else self._check(query)
        if query is not None and schema is not None and self._accept is not None:
            self._accept({query.name: schema})
        with self._lock:
            if self._ended:
                raise JobError("the run has ended; its queries cannot change any more")
            known = self._queries()
            if leaves and name not in known and name not in self.failed:
                raise UnknownQuery("there is no such query", query=name, hint=_known(known))
            if not leaves and name in known:
                raise NameTaken(
                    "there is a query of this name already",
                    query=name,
                    hint="replace it, or take another name",
                )
            if query is not None:
                check_joining(query, known.values(), self._streams)
            asked = Asked(name, query, made, schema)
            self._asked.append(asked)
        return asked.future

    def _still_fits(self, asked: Asked[Q, M]) -> bool:
        """Whether the sink takes a query's results; one that it does not take is refused alone."""
        if asked.schema is None or self._accept is None:
            return True
        try:
            self._accept({asked.name: asked.schema})
        except WeftError as error:
            asked.future.set_exception(error)
            return False
        return True

    def _queries(self) -> dict[str, Q]:
        """The queries, by name, once all that was asked for is done."""
        queries = {q.name: q for q in self.program.queries}
        for asked in (*self._folded, *self._asked):
            if not asked.future.cancelled():
                queries.pop(asked.name, None)
                if asked.query is not None:
                    queries[asked.name] = asked.query
        return queries

    def _fail(self, error: WeftError) -> None:
        with self._lock:
            failed = [*self._folded, *(self._asked if self._ended else ())]
            self._folded, self._asked = [], [] if self._ended else self._asked
        for asked in failed:
            if not asked.future.done():
                asked.future.set_exception(error)


def moment(time: int, tz: str | None) -> datetime.datetime:
    """A time in microseconds as Python has it, in UTC where there is a zone.

    >>> moment(8_000_000, None)
    datetime.datetime(1970, 1, 1, 0, 0, 8)
    """
    try:
        found = EPOCH + datetime.timedelta(microseconds=time)
    except OverflowError:
        found = datetime.datetime.max if time > 0 else datetime.datetime.min
    return found if tz is None else found.replace(tzinfo=datetime.UTC)


def _known(names: Iterable[str]) -> str:
    listed = sorted(names)
    return (
        f"there are {', '.join(listed[:8])}{' and more' * (len(listed) > 8)}" if listed else "there is none"
    )
