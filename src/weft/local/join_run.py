"""JoinRun: several streams in one process; joins in shared chains, window queries by the ordinary engine."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import pyarrow as pa

from weft.errors import JobError, QueryError
from weft.expr.types import read_zone
from weft.io.arrow import Batch, as_chunk
from weft.io.files import Chunk
from weft.local.join_group import JoinGroup
from weft.local.window_group import GroupOptions, WindowGroup
from weft.model.duration import parse_optional
from weft.model.join import JoinQuery
from weft.model.names import check_names, time_of
from weft.model.query import Query
from weft.operators.blame import Failed
from weft.operators.joins.chain import Chain
from weft.operators.joins.clock import Clock
from weft.operators.joins.multiway.join import MultiwayJoin
from weft.operators.lookups.tables import LookupTables
from weft.operators.times import Seen
from weft.operators.watermark import TimeRules
from weft.planning.joins.member import Key, Member, member, merged
from weft.planning.joins.plan import SharedPlan
from weft.planning.joins.rates import ChainCosts, calibrated
from weft.runner.clock import wall_clock
from weft.runner.options import RunOptions, filled, with_options
from weft.sql.read import QueryInput, built


class JoinRun:
    """Several streams in this process: feed them with ``step``, end them with ``close``.

    ``streams`` are the names that FROM may have, where they are known.

    >>> import datetime, weft
    >>> joins = weft.sql('''-- name: pairs
    ...     SELECT a.x, b.y FROM a [RANGE '1 min'], b [RANGE '1 min'] WHERE a.x = b.y''')
    >>> minutes = [datetime.datetime(2024, 1, 1, 0, minute) for minute in (0, 1)]
    >>> a = pa.table({"ts": minutes, "x": [1, 2]})
    >>> b = pa.table({"ts": minutes, "y": [1, 2]})
    >>> run = JoinRun(joins, time="ts")
    >>> run.step({"a": a, "b": b})["pairs"].column("x").to_pylist(), run.state_rows
    ([1], 2)
    >>> run.close()["pairs"].column("x").to_pylist()
    [2]
    """

    @with_options(RunOptions)
    def __init__(
        self,
        queries: Iterable[QueryInput],
        time: str | Mapping[str, str],
        lateness: str | datetime.timedelta | None = None,
        *,
        costs: ChainCosts | None = None,
        bounded: Collection[str] = (),
        streams: Collection[str] | None = None,
        **options: Unpack[RunOptions],
    ) -> None:
        """``bounded`` are streams that end, and whose batches know what is unread: without a ``lateness``, no
        row of theirs is late."""
        options = filled(RunOptions, options, "JoinRun")
        self.time, self.bounded, self._stream_names = time, bounded, streams
        self._lateness = parse_optional(lateness, "lateness")
        self._max_ahead = parse_optional(options["max_ahead"], "max_ahead")
        options["zone"] = read_zone(options["zone"])
        self.options = GroupOptions(options, LookupTables(options["tables"]), costs or calibrated())
        self.clocks: dict[str, Clock] = {}
        self.schemas: dict[str, pa.Schema] = {}
        self.skipped: tuple[str, ...] = ()
        self._unread = 0
        self._joins: dict[Key, JoinGroup] = {}
        self._windows: list[WindowGroup] = []
        self._queries: dict[str, Query | JoinQuery] = {}
        self._add_all([built(q) for q in queries])
        if not self._queries:
            raise QueryError("there is no query to run")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the queries."""
        return tuple(self._queries)

    @property
    def streams(self) -> set[str]:
        """The streams that queries read."""
        return {s for q in self._queries.values() for s in _streams(q)}

    @property
    def state_rows(self) -> int:
        """Number of rows that the joins keep."""
        return sum(state.state_rows for state in self.states)

    @property
    def late(self) -> dict[str, int]:
        """Rows of each stream that came too late, and were left out."""
        return {stream: clock.seen.late for stream, clock in self.clocks.items()}

    @property
    def seen(self) -> Seen:
        """Counts of the rows of all streams, and of values that could not be read or computed."""
        rows = sum((clock.seen for clock in self.clocks.values()), Seen(rows=self._unread, bad=self.bad))
        # Window queries count rows late for one of their windows; joins, those behind the watermark.
        late = {s: clock.seen.late for s, clock in self.clocks.items() if self._joined(s)}
        for windows in self._windows:
            late[windows.stream] = max(late.get(windows.stream, 0), windows.seen.late)
        return replace(rows, late=sum(late.values()))

    def _joined(self, stream: str) -> bool:
        return any(stream in group.streams for group in self._joins.values())

    @property
    def bad(self) -> int:
        """Rows and values that could not be read or computed; such values were NULL."""
        engines = [engine for group in self._joins.values() for engine in group.engines.values()]
        engines += [windows.engine for windows in self._windows if windows.engine is not None]
        in_windows = sum(engine.run.seen.bad for engine in engines)
        return self._unread + in_windows + sum(state.counts.bad for state in self.states)

    @property
    def states(self) -> list[Chain | MultiwayJoin]:
        """The state of the joins: a chain for two streams, a multi-way join for more."""
        return [group.state for group in self._joins.values() if group.state is not None]

    @property
    def chains(self) -> list[Chain]:
        """The chains that run."""
        return [state for state in self.states if isinstance(state, Chain)]

    @property
    def errors(self) -> Failed:
        """The queries that could not be answered any more, and why; the others have gone on."""
        windows = [w.engine for w in self._windows if w.engine is not None]
        engines = [*windows, *(e for group in self._joins.values() for e in group.engines.values())]
        return {name: error for engine in engines for name, error in engine.errors.items()}

    def watermark(self, stream: str) -> int | None:
        """The least time that rows of a stream can still have; None before its first."""
        clock = self.clocks.get(stream)
        return None if clock is None else clock.watermark

    def step(self, batches: Mapping[str, Batch | Chunk]) -> dict[str, pa.Table]:
        """Take in a batch, or a chunk, of some of the streams; give the results that are then certain."""
        chunks = {stream: self._checked(stream, as_chunk(batch)) for stream, batch in batches.items()}
        for chunk in chunks.values():
            self._unread += chunk.bad
            self.skipped += chunk.skipped
        results: dict[str, pa.Table] = {}
        for windows in self._windows:
            if windows.stream in chunks:
                # What could not be read is counted here, once for all queries.
                results |= windows.step(replace(chunks[windows.stream], bad=0, skipped=()))
        now = round(wall_clock() * 1e6)
        timed = {s: self.clocks[s].admit(chunk, now)[0] for s, chunk in chunks.items()}
        for group in self._joins.values():
            marks = [self.watermark(s) for s in group.streams]
            results |= group.step([timed.get(s) for s in group.streams], marks)
        return results

    def close(self) -> dict[str, pa.Table]:
        """Give everything that still waits."""
        results: dict[str, pa.Table] = {}
        for group in self._groups:
            results |= group.close()
        return results

    def add(self, query: QueryInput) -> None:
        """Answer one more query from now on.

        A join that a running one covers (the same streams, conditions and selections, and ranges at least as
        long) has that one's rows behind it at once; another begins with the rows that come after it.
        """
        self._add_all([built(query)])

    def drop(self, name: str) -> None:
        """Answer a query no more; what it waits for is forgotten."""
        if self._queries.pop(name, None) is None:
            raise JobError(f"no query is called {name!r}; running are {', '.join(self._queries)}")
        for windows in self._windows:
            windows.drop(name)
        self._windows = [w for w in self._windows if w.queries]
        for key, group in list(self._joins.items()):
            if name in group.answers:
                group.drop(name)
                if not group.members:
                    del self._joins[key]

    def rechain(self, shape: str | float | None = None) -> list[SharedPlan]:
        """Slice chains and choose join orders anew, by the rates measured so far; no result changes."""
        plans = [group.rechain(shape) for group in self._joins.values()]
        return [plan for plan in plans if plan is not None]

    def explain(self) -> list[SharedPlan]:
        """The joins as they run, with what they should cost at the rates measured so far."""
        return [group.explain() for group in self._joins.values()]

    def result_schema(self, name: str) -> pa.Schema:
        """The schema of a query's results."""
        for windows in self._windows:
            if any(q.name == name for q in windows.queries):
                return windows.result_schema(name)
        for group in self._joins.values():
            if name in group.answers:
                return group.result_schema(name)
        raise KeyError(f"no query is called {name!r}")

    def shutdown(self) -> None:
        """Let the threads go."""
        for group in self._groups:
            group.shutdown()

    @property
    def _groups(self) -> list[WindowGroup | JoinGroup]:
        return [*self._windows, *self._joins.values()]

    def _add_all(self, queries: Sequence[Query | JoinQuery]) -> None:
        check_names([*self._queries.values(), *queries], self._stream_names)
        self._queries |= {query.name: query for query in queries}
        by_source: dict[str, list[Query]] = {}
        for query in queries:
            if isinstance(query, Query):
                by_source.setdefault(query.source, []).append(query)
        for source, group in by_source.items():
            self._windows.append(WindowGroup(group, self._time(source), self.options, self._rules(source)))
        for joined in merged(member(q) for q in queries if isinstance(q, JoinQuery)):
            try:
                self._add_join(joined)
            except QueryError:
                for name in joined.answers:
                    del self._queries[name]
                raise

    def _add_join(self, added: Member) -> None:
        if added.key in self._joins:
            self._joins[added.key].add(added)
        else:
            group = JoinGroup(added, self._queries, self.schemas, self.clocks, self.options)
            self._joins[added.key] = group

    def _checked(self, stream: str, chunk: Chunk) -> Chunk:
        """A batch in the types that its stream's first batch had."""
        if stream not in self.streams | set(self.schemas):
            raise JobError(
                f"no query reads the stream {stream!r}; they read {', '.join(sorted(self.streams))}"
            )
        table = chunk.table
        first = self.schemas.get(stream)
        if first is None:
            time = self._time(stream)
            for query in self._queries.values():
                if isinstance(query, JoinQuery) and stream in query.streams:
                    _check_time(table.schema, stream, time)
            self.schemas[stream], self.clocks[stream] = table.schema, Clock(time, self._rules(stream))
        elif not table.schema.equals(first):
            for name in first.names:
                given = table.schema.field(name).type if name in table.schema.names else None
                if given != first.field(name).type:
                    raise JobError(
                        f"column {name!r} of {stream!r} is {given or 'missing'} in this batch but "
                        f"{first.field(name).type} in the first; give every batch the same columns and types"
                    )
            return replace(chunk, table=table.select(first.names))
        return chunk

    def _rules(self, stream: str) -> TimeRules:
        return TimeRules.of(self._lateness, self._max_ahead, None, ends=stream in self.bounded)

    def _time(self, stream: str) -> str:
        return self.time if isinstance(self.time, str) else time_of(self.time, stream)


def _check_time(schema: pa.Schema, stream: str, time: str) -> None:
    if time not in schema.names or not pa.types.is_timestamp(schema.field(time).type):
        dtype: Any = schema.field(time).type if time in schema.names else "missing"
        raise JobError(
            f"the time column {time!r} of {stream!r} is {dtype}; name a timestamp column with time={{...}}"
        )


def _streams(query: Query | JoinQuery) -> tuple[str, ...]:
    return query.streams if isinstance(query, JoinQuery) else (query.source,)
