"""JoinRun: several streams in one process; joins in shared chains, window queries by the ordinary engine."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa

from weft.builder import QueryBuilder
from weft.duration import parse_duration
from weft.engine.compile import compile_plan
from weft.engine.final import END
from weft.errors import JobError, QueryError
from weft.join_builder import JoinBuilder
from weft.joins.adapt import adapt
from weft.joins.chain import Chain, Counts
from weft.joins.clock import Clock, Timed
from weft.joins.explain import ChainPlan, choose_ends, plan_chain
from weft.joins.member import Key, Member, member, merged
from weft.joins.program import JoinProgram, compile_joins
from weft.joins.rates import COMPARISONS, Costs, assumed, measured
from weft.local import LocalRun
from weft.optimize import plan as make_plan
from weft.query import RESULT_TIME, JoinQuery, Query
from weft.tables import Batch, Tables, TableSource, as_table

Asked: TypeAlias = Query | QueryBuilder | JoinQuery | JoinBuilder
"""A query over one stream or several, built or in the making."""


@dataclass
class _Engine:
    """The ordinary engine at work for some queries, of which only those still asked are answered."""

    run: LocalRun
    asked: set[str]

    def step(self, batch: pa.Table, watermark: int | None = None) -> dict[str, pa.Table]:
        """The answers after one more batch."""
        return self._wanted(self.run.step(batch, watermark))

    def close(self) -> dict[str, pa.Table]:
        """The answers that still wait."""
        return self._wanted(self.run.close())

    def _wanted(self, answers: dict[str, pa.Table]) -> dict[str, pa.Table]:
        return {n: table for n, table in answers.items() if n in self.asked and table.num_rows}


@dataclass
class _Shared:
    """Joins of one kind: their chain, once the schemas of both streams are known, and what waits for that."""

    members: list[Member]
    chain: Chain | None = None
    waiting: list[tuple[list[Timed | None], list[int | None]]] = field(default_factory=list)
    engines: dict[str, _Engine] = field(default_factory=dict)
    looked: Counts | None = None


@dataclass
class _Windows:
    """Window queries over one stream, and their engine once its schema is known."""

    queries: list[Query]
    engine: _Engine | None = None


class JoinRun:
    """Several streams in this process: feed them with ``step``, end them with ``close``.

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

    def __init__(
        self,
        queries: Iterable[Asked],
        time: str | Mapping[str, str],
        lateness: str | datetime.timedelta = "0 s",
        *,
        strategy: str = "share-all",
        technique: str = "auto",
        threads: int | None = None,
        strict: bool = False,
        chain: str | float = "mem-opt",
        costs: Costs = COMPARISONS,
        tables: Mapping[str, TableSource] | None = None,
    ) -> None:
        self.time, self.lateness = time, parse_duration(lateness, "lateness")
        self.strategy, self.technique, self.threads, self.strict = strategy, technique, threads, strict
        self.shape, self.costs, self.tables = chain, costs, Tables(tables)
        self.clocks: dict[str, Clock] = {}
        self.schemas: dict[str, pa.Schema] = {}
        self._shared: dict[Key, _Shared] = {}
        self._windows: list[_Windows] = []
        self._asked: dict[str, Query | JoinQuery] = {}
        self._add_all([built(q) for q in queries])
        if not self._asked:
            raise QueryError("there is no query to run")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the queries."""
        return tuple(self._asked)

    @property
    def streams(self) -> set[str]:
        """The streams that queries read."""
        return {s for q in self._asked.values() for s in _streams(q)}

    @property
    def state_rows(self) -> int:
        """How many rows the chains keep."""
        return sum(chain.state_rows for chain in self.chains)

    @property
    def late(self) -> dict[str, int]:
        """Rows of each stream that came too late, and were left out."""
        return {stream: clock.late for stream, clock in self.clocks.items()}

    @property
    def bad(self) -> int:
        """Values of joins that could not be computed, and were NULL."""
        return sum(chain.counts.bad for chain in self.chains)

    @property
    def chains(self) -> list[Chain]:
        """The chains that run."""
        return [s.chain for s in self._shared.values() if s.chain is not None]

    def watermark(self, stream: str) -> int | None:
        """The least time that rows of a stream can still have; None before its first."""
        clock = self.clocks.get(stream)
        return None if clock is None else clock.watermark

    def step(self, batches: Mapping[str, Batch]) -> dict[str, pa.Table]:
        """Take in a batch of some of the streams and give the results that are then certain."""
        tables = {stream: self._checked(stream, batch) for stream, batch in batches.items()}
        results: dict[str, pa.Table] = {}
        for windows in self._windows:
            self._step_windows(windows, tables, results)
        timed = {s: self.clocks[s].admit(t) for s, t in tables.items()}
        for shared in self._shared.values():
            streams = shared.members[0].streams
            marks = [self.watermark(s) for s in streams]
            shared.waiting.append(([timed.get(s) for s in streams], marks))
            self._step_joins(shared, results)
        return results

    def close(self) -> dict[str, pa.Table]:
        """Give everything that still waits."""
        results: dict[str, pa.Table] = {}
        for windows in self._windows:
            if windows.engine is not None:
                results |= windows.engine.close()
        for shared in self._shared.values():
            shared.waiting.append(([None, None], [END, END]))
            self._step_joins(shared, results)
            for engine in shared.engines.values():
                for name, table in engine.close().items():
                    results[name] = pa.concat_tables([results[name], table]) if name in results else table
        return results

    def add(self, query: Asked) -> None:
        """Answer one more query from now on.

        A join that a running one covers (the same streams, conditions and selections, and ranges at least as
        long) has that one's rows behind it at once; another begins with the rows that come after it.
        """
        self._add_all([built(query)])

    def drop(self, name: str) -> None:
        """Answer a query no more; what it waits for is forgotten."""
        asked = self._asked.pop(name, None)
        if asked is None:
            raise JobError(f"no query is called {name!r}; running are {', '.join(self._asked)}")
        for windows in self._windows:
            windows.queries = [q for q in windows.queries if q.name != name]
            if windows.engine is not None:
                windows.engine.asked.discard(name)
                if not windows.queries:
                    windows.engine.run.shutdown()
        self._windows = [w for w in self._windows if w.queries]
        for key, shared in list(self._shared.items()):
            for place, each in enumerate(shared.members):
                if name in each.answers:
                    self._drop_join(key, shared, place, name)
                    break

    def _drop_join(self, key: Key, shared: _Shared, place: int, name: str) -> None:
        """Leave out one query of a join, and the join if it was its only one."""
        dropped = shared.members[place]
        engine = shared.engines.get(dropped.name)
        if engine is not None:
            engine.asked.discard(name)
        left = tuple(q for q in dropped.aggregates if q.name != name)
        if left:
            shared.members[place] = replace(dropped, aggregates=left)
            return
        del shared.members[place]
        if engine is not None:
            shared.engines.pop(dropped.name).run.shutdown()
        if not shared.members:
            del self._shared[key]
        elif shared.chain is not None:
            shared.chain.drop(dropped.name)

    def rechain(self, shape: str | float | None = None) -> list[ChainPlan]:
        """Slice every chain anew, by the rates measured so far; no result changes."""
        plans = []
        for chain in self.chains:
            rates = measured(chain)
            if rates is not None:
                made = plan_chain(chain.members, rates, self.shape if shape is None else shape, self.costs)
                chain.reshape(made.ends)
                plans.append(made)
        return plans

    def explain(self) -> list[ChainPlan]:
        """The chains as they are, with what they should cost at the rates measured so far."""
        found = []
        for shared in self._shared.values():
            chain = shared.chain
            rates = (measured(chain) if chain else None) or assumed(shared.members)
            ends = [slices.ends for slices in chain.sides] if chain else None
            found.append(plan_chain(shared.members, rates, self.shape, self.costs, ends))
        return found

    def result_schema(self, name: str) -> pa.Schema:
        """The schema of a query's results."""
        for windows in self._windows:
            if any(q.name == name for q in windows.queries):
                if windows.engine is None:
                    raise JobError(f"there is no batch of the stream {windows.queries[0].source!r}")
                return windows.engine.run.program.result_schema(name)
        for shared in self._shared.values():
            for each in shared.members:
                if name in each.answers:
                    if shared.chain is None:
                        missing = [s for s in each.streams if s not in self.schemas]
                        raise JobError(f"there is no batch of the stream {missing[0]!r}")
                    if each.name in shared.engines:
                        return shared.engines[each.name].run.program.result_schema(name)
                    return shared.chain.program.results[name]
        raise KeyError(f"no query is called {name!r}")

    def shutdown(self) -> None:
        """Let the threads go."""
        for windows in self._windows:
            if windows.engine is not None:
                windows.engine.run.shutdown()
        for shared in self._shared.values():
            for engine in shared.engines.values():
                engine.run.shutdown()

    def _add_all(self, queries: Sequence[Query | JoinQuery]) -> None:
        for query in queries:
            if query.name in self._asked:
                raise QueryError("two queries have this name", query=query.name, hint="names must be unique")
            self._asked[query.name] = query
        by_source: dict[str, list[Query]] = {}
        for query in queries:
            if isinstance(query, Query):
                by_source.setdefault(query.source, []).append(query)
        self._windows += [_Windows(some) for some in by_source.values()]
        for each in merged(member(q) for q in queries if isinstance(q, JoinQuery)):
            try:
                self._add_join(each)
            except QueryError:
                for name in each.answers:
                    del self._asked[name]
                raise

    def _add_join(self, added: Member) -> None:
        shared = self._shared.get(added.key)
        if shared is None:
            shared = _Shared([added])
            self._start(shared)
            self._shared[added.key] = shared
        elif shared.chain is None:
            shared.members.append(added)
        else:
            program = shared.chain.program.with_members((*shared.chain.members, added), self.schemas)
            shared.engines |= self._engines([added], program)
            shared.chain.add(added, program)
            shared.members.append(added)

    def _start(self, shared: _Shared) -> None:
        """Begin a chain if the schemas of both streams are known."""
        if not all(s in self.schemas for s in shared.members[0].streams):
            return
        times = {s: self.clocks[s].time for s in shared.members[0].streams}
        for name in (n for m in shared.members for n in m.answers):
            asked = self._asked.get(name)
            if isinstance(asked, JoinQuery):  # one by one, so that an error names the query
                compile_joins([member(asked)], self.schemas, times)
        program = compile_joins(shared.members, self.schemas, times, self.strict)
        ends = choose_ends(shared.members, self.shape, assumed(shared.members), self.costs)
        shared.engines = self._engines(shared.members, program)
        shared.chain = Chain(program, ends)

    def _engines(self, members: Sequence[Member], program: JoinProgram) -> dict[str, _Engine]:
        """What aggregates the results of joins, for those where something does."""
        found = {}
        for each in members:
            if each.aggregates:
                plan = make_plan(each.aggregates, strategy=self.strategy, technique=self.technique)
                compiled = compile_plan(plan, program.results[each.name], RESULT_TIME, self.strict)
                found[each.name] = _Engine(LocalRun(compiled, threads=1), set(each.answers))
        return found

    def _step_joins(self, shared: _Shared, results: dict[str, pa.Table]) -> None:
        if shared.chain is None:
            self._start(shared)
        if shared.chain is None:
            return
        joined: dict[str, list[pa.Table]] = {}
        for batches, marks in shared.waiting:
            for name, table in shared.chain.step(batches, marks).items():
                joined.setdefault(name, []).append(table)
        shared.waiting.clear()
        shared.looked = adapt(shared.chain, shared.looked, self.shape, self.costs)
        known = [m for m in shared.chain.watermarks if m is not None]
        for name, engine in shared.engines.items():
            tables = joined.pop(name, [engine.run.program.schema.empty_table()])
            results |= engine.step(pa.concat_tables(tables), min(known) if len(known) == 2 else None)
        results |= {name: pa.concat_tables(tables) for name, tables in joined.items()}

    def _step_windows(
        self, windows: _Windows, tables: Mapping[str, pa.Table], results: dict[str, pa.Table]
    ) -> None:
        table = tables.get(windows.queries[0].source)
        if table is None:
            return
        if windows.engine is None:
            plan = make_plan(windows.queries, strategy=self.strategy, technique=self.technique)
            threads = self.threads or 1
            program = compile_plan(
                plan,
                table.schema,
                self._time(windows.queries[0].source),
                self.strict,
                threads,
                tables=self.tables.schemas(plan.queries),
            )
            names = {q.name for q in windows.queries}
            windows.engine = _Engine(LocalRun(program, self.lateness, threads, self.tables), names)
        results |= windows.engine.step(table)

    def _checked(self, stream: str, batch: Batch) -> pa.Table:
        """A batch as a table of the types that its stream's first batch had."""
        if stream not in self.streams | set(self.schemas):
            raise JobError(
                f"no query reads the stream {stream!r}; they read {', '.join(sorted(self.streams))}"
            )
        table = as_table(batch)
        first = self.schemas.get(stream)
        if first is None:
            time = self._time(stream)
            for query in self._asked.values():
                if isinstance(query, JoinQuery) and stream in query.streams:
                    _check_time(table.schema, stream, time)
            self.schemas[stream], self.clocks[stream] = table.schema, Clock(time, self.lateness)
        elif not table.schema.equals(first):
            for name in first.names:
                given = table.schema.field(name).type if name in table.schema.names else None
                if given != first.field(name).type:
                    raise JobError(
                        f"column {name!r} of {stream!r} is {given or 'missing'} in this batch but "
                        f"{first.field(name).type} in the first; give every batch the same columns and types"
                    )
            table = table.select(first.names)
        return table

    def _time(self, stream: str) -> str:
        return self.time if isinstance(self.time, str) else time_of(self.time, stream)


def built(query: Asked) -> Query | JoinQuery:
    """The query itself."""
    return query.build() if isinstance(query, QueryBuilder | JoinBuilder) else query


def time_of(time: Mapping[str, str], stream: str) -> str:
    """The time column of a stream."""
    if stream not in time:
        raise JobError(f"there is no time column for the stream {stream!r}; add it to time={{...}}")
    return time[stream]


def _check_time(schema: pa.Schema, stream: str, time: str) -> None:
    if time not in schema.names or not pa.types.is_timestamp(schema.field(time).type):
        what: Any = schema.field(time).type if time in schema.names else "missing"
        raise JobError(
            f"the time column {time!r} of {stream!r} is {what}; name a timestamp column with time={{...}}"
        )


def _streams(query: Query | JoinQuery) -> tuple[str, ...]:
    return query.streams if isinstance(query, JoinQuery) else (query.source,)
