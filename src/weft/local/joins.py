"""Joins in this process, which come and go: what Spark's tasks do, in one bucket and in memory alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pyarrow as pa

from weft.io.arrow import as_chunk
from weft.io.files import Chunk
from weft.model.instants import END_OF_TIME
from weft.model.join import JoinQuery
from weft.operators.blame import Failed
from weft.operators.joins.adapt import adapt
from weft.operators.joins.clock import Clock
from weft.operators.joins.compile import JoinCompiler, StreamPosition
from weft.operators.joins.feeds import feed_rows
from weft.operators.joins.packing import pack_rows
from weft.operators.joins.running_plan import running_plan
from weft.operators.joins.state import Joins, JoinState
from weft.operators.times import Seen
from weft.operators.watermark import IN_ORDER, UNREAD_REMARK, TimeRules, without_silent
from weft.operators.windows.answer import closing_time, final
from weft.operators.windows.carry_over import WindowCarryOver
from weft.operators.windows.prepare import Partials, partial
from weft.operators.windows.sharing import SharingChoice
from weft.operators.windows.state import Piece, State
from weft.planning.joins.plan import JoinPlan
from weft.planning.joins.rates import Counts
from weft.runner.changes import Change
from weft.runner.clock import wall_clock
from weft.runner.join_registry import JoinRegistry
from weft.store.versions import Failure


class LocalJoins:
    """Joins, and aggregates of their results, fed with a batch of some of the streams at a time.

    >>> import datetime, weft
    >>> from weft.planning.live import LivePlanner
    >>> joins = weft.sql('''-- name: pairs
    ...     SELECT a.x FROM a [RANGE '1 min'], b [RANGE '1 min'] WHERE a.x = b.x''')
    >>> minutes = [datetime.datetime(2024, 1, 1, 0, minute) for minute in (0, 1)]
    >>> a = pa.table({"ts": minutes, "x": [1, 2]})
    >>> streams = JoinCompiler({"a": a.schema, "b": a.schema}, {"a": "ts", "b": "ts"}, LivePlanner())
    >>> run = LocalJoins(streams, joins)
    >>> run.step({"a": a, "b": a})["pairs"].column("x").to_pylist()
    [1]
    """

    def __init__(
        self,
        streams: JoinCompiler,
        queries: Sequence[JoinQuery],
        rules: TimeRules = IN_ORDER,
        accept: Callable[[Mapping[str, pa.Schema]], None] | None = None,
        idle: int | None = None,
    ) -> None:
        """A stream from which nothing has come for ``idle`` microseconds holds the others back no more."""
        joins = streams.joins(queries).renumbered(1)
        self.registry, self.idle = JoinRegistry(joins, streams, accept), idle
        self.clock: Callable[[], float] = wall_clock
        self._clocks = {stream: Clock(time, rules) for stream, time in streams.times.items()}
        self._heard: dict[str, int] = {}
        self.remark = ""
        self.seen, self.choices = Seen(), list[SharingChoice]()
        self.skipped: tuple[str, ...] = ()
        self.partial_seconds, self.tree_seconds = 0.0, ()
        self._marks: dict[str, int | None] = dict.fromkeys(streams.schemas)
        self._results: int | None = None
        self._state, self._answers = JoinState(joins, 0), State(joins.results, 0)
        self._looked: list[Counts | None] = [None for _ in joins.programs]

    @property
    def program(self) -> Joins:
        """The joins that run, compiled."""
        return self.registry.program

    @property
    def plan(self) -> JoinPlan:
        """The chains that run."""
        ends = [[slices.ends for slices in chain.sides] for chain in self._state.chains]
        return running_plan([chain.program for chain in self._state.chains], ends)

    @property
    def watermark(self) -> int | None:
        """The time before which all results are there."""
        marks = [self._marks[stream] for stream in self.program.streams]
        return min((mark for mark in marks if mark is not None), default=None) if None not in marks else None

    @property
    def state_rows(self) -> int:
        """Number of rows, waiting pairs and partials that are kept."""
        return self._state.rows + self._answers.rows

    @property
    def state_bytes(self) -> int:
        """Memory that they take, about."""
        return self._state.bytes + self._answers.bytes

    def queries(self) -> tuple[JoinQuery, ...]:
        """The joins that are answered."""
        return self.program.queries

    @property
    def failed(self) -> Mapping[str, Failure]:
        """The queries that could not be answered any more and have left, until they are replaced."""
        return self.registry.failed

    def change(self, name: str) -> Change:
        """Return the change that a running join came with."""
        return self.registry.change(name)

    def add(self, query: Any, name: str | None = None) -> Future[Change]:
        """Add a join with the next batch."""
        return self.registry.add(query, name)

    def drop(self, name: str) -> Future[Change]:
        """Drop a join before the next batch."""
        return self.registry.drop(name)

    def replace(self, query: Any, name: str | None = None) -> Future[Change]:
        """Put a join in the place of the one of its name."""
        return self.registry.replace(query, name)

    def step(self, batches: Mapping[str, pa.Table | Chunk]) -> dict[str, pa.Table]:
        """Take in a batch, or a chunk, of some of the streams, and give the results that are then certain."""
        self._change()
        joins, now, self.remark = self.program, round(self.clock() * 1e6), ""
        arrived: dict[tuple[int, int], list[pa.RecordBatch]] = {}
        for stream in joins.streams:
            self._heard.setdefault(stream, now)
            if stream not in batches:
                continue
            chunk, clock = as_chunk(batches[stream]), self._clocks[stream]
            clock.watermark = self._marks[stream]
            table = chunk.table.select(joins.schemas[stream].names)
            timed, seen = clock.admit(replace(chunk, table=table), now)
            self.seen += seen + Seen(rows=chunk.bad, bad=chunk.bad)
            self.skipped += chunk.skipped
            self._marks[stream], self._heard[stream] = clock.watermark, now
            if clock.rules.lateness is None and chunk.mark is None:
                self.remark = UNREAD_REMARK
            for number, side in joins.sides[stream]:
                chain = self._state.chains[number]
                rows = chain.rows(side, timed)
                if rows is not None:
                    arrived[number, side] = [pack_rows(rows, chain.signatures[side])]
        marks = {stream: self._marks[stream] for stream in joins.streams}
        self._marks |= without_silent(marks, self._heard, now, self.idle)
        return self._join(arrived, self.watermark)

    def empty(self) -> dict[str, pa.Table | Chunk]:
        """A batch without rows."""
        return {}

    def flush(self) -> dict[str, pa.Table] | None:
        """Give all that waits, and go on; None where nothing does."""
        if self.seen.max_time is None or self.watermark == self.seen.max_time + 1:
            return None
        self._marks = {s: max(self.seen.max_time + 1, mark or 0) for s, mark in self._marks.items()}
        return self._join({}, closing_time(self.program.results, self.seen.max_time))

    def close(self) -> dict[str, pa.Table]:
        """Give everything that still waits."""
        self.registry.close()
        self._marks = dict.fromkeys(self._marks, END_OF_TIME)
        return self._join({}, END_OF_TIME)

    def shutdown(self) -> None:
        """Take no more changes."""
        self.registry.close()

    def _change(self) -> bool:
        """Carry the state over to the changed joins; return whether any changed."""
        at = StreamPosition(self.seen.max_time, dict(self._marks), self._results)
        joins = self.registry.apply(at, self.program.version + 1)
        if joins is None:
            return False
        self._state = self._state.carried_over(joins, self._marks)
        self._looked = [None for _ in joins.programs]
        self._answers = WindowCarryOver(self.program.results.layout, joins.results).state(self._answers)
        self.registry.confirm(joins)
        return True

    def _join(
        self, arrived: Mapping[tuple[int, int], Sequence[pa.RecordBatch]], until: int | None
    ) -> dict[str, pa.Table]:
        """The results of rows made ready; ``until`` is the watermark of results after them."""
        joins = self.program
        bad = sum(chain.counts.bad for chain in self._state.chains)
        results, _ = self._state.step(arrived, self._marks, 1)
        shape, costs = self.registry.streams.shape, self.registry.streams.costs
        counted = zip(self._state.chains, self._looked)
        self._looked = [adapt(chain, looked, shape, costs) for chain, looked in counted]
        self.seen += Seen(bad=sum(chain.counts.bad for chain in self._state.chains) - bad)
        feeds = {feed: results.pop(name) for name, feed in joins.feeds.items() if name in results}
        if not joins.results.entries:
            return results
        pieces: Sequence[Piece] = ()
        if feeds:
            partials = self._partials(feed_rows(feeds, joins.results.schema))
            joins = self.program
            self.seen += Seen(late=partials.seen.late, bad=partials.seen.bad)
            pieces, self.choices = partials.pieces, list(partials.choices)
        self._results = max((m for m in (self._results, until) if m is not None), default=None)
        failed = Failed()
        blamed = None if joins.results.strict else failed
        self._answers, answered = final(self._answers, pieces, self._results, joins.results, None, blamed)
        if failed:
            self._go_on_without(failed)
        return results | answered

    def _partials(self, rows: pa.Table) -> Partials:
        """The partials of results, for the queries that can be answered over them."""
        while True:
            failed, program = Failed(), self.program.results
            partials = partial(rows, program, self._results, failed=None if program.strict else failed)
            if not failed:
                return partials
            self._go_on_without(failed)

    def _go_on_without(self, failed: Failed) -> None:
        """Drop queries that cannot be answered any more; the others keep what they have."""
        self.registry.fail({name: str(error) for name, error in failed.items()})
        if not self._change():
            raise next(iter(failed.values()))
