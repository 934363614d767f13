"""Joins that share their state: a chain of two streams, or a multi-way join, and the aggregates behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from weft.errors import JobError
from weft.local.window_group import GroupOptions, WindowEngine
from weft.model.instants import END_OF_TIME
from weft.model.join import RESULT_TIME, JoinQuery
from weft.model.query import Query
from weft.operators.joins.adapt import adapt, measured
from weft.operators.joins.chain import Chain
from weft.operators.joins.clock import Clock, OrderedRows
from weft.operators.joins.multiway.join import MultiwayJoin
from weft.operators.joins.program import JoinProgram, compile_joins
from weft.planning.joins.chain_plan import choose_ends, plan_chain
from weft.planning.joins.member import Member, member
from weft.planning.joins.multiway_plan import plan_multiway
from weft.planning.joins.plan import SharedPlan
from weft.planning.joins.rates import Counts, assumed


class JoinGroup:
    """Joins of the same streams on the same conditions.

    They begin once the schemas of all their streams are known; what comes before that waits. ``queries``,
    ``schemas`` and ``clocks`` are those of all queries and streams so far.
    """

    def __init__(
        self,
        added: Member,
        queries: Mapping[str, Query | JoinQuery],
        schemas: Mapping[str, pa.Schema],
        clocks: Mapping[str, Clock],
        options: GroupOptions,
    ) -> None:
        self.queries, self.schemas, self.clocks, self.options = queries, schemas, clocks, options
        self.members = [added]
        self.state: Chain | MultiwayJoin | None = None
        self.engines: dict[str, WindowEngine] = {}
        self._waiting: list[tuple[Sequence[OrderedRows | None], Sequence[int | None]]] = []
        self._looked: Counts | None = None
        self._begin()

    @property
    def streams(self) -> tuple[str, ...]:
        """Their streams, in the order of the sides."""
        return self.members[0].streams

    @property
    def answers(self) -> list[str]:
        """The names of the queries that they answer."""
        return [name for member in self.members for name in member.answers]

    def step(self, batches: Sequence[OrderedRows | None], marks: Sequence[int | None]) -> dict[str, pa.Table]:
        """Take in new rows of each side and the watermarks after them; the results that are then certain."""
        self._waiting.append((batches, marks))
        if self.state is None:
            self._begin()
        if self.state is None:
            return {}
        joined: dict[str, list[pa.Table]] = {}
        for rows, after in self._waiting:
            for name, table in self.state.step(rows, after).items():
                joined.setdefault(name, []).append(table)
        self._waiting.clear()
        self._looked = adapt(self.state, self._looked, self.options.given["chain"], self.options.costs)
        results: dict[str, pa.Table] = {}
        for name, engine in self.engines.items():
            tables = joined.pop(name, [engine.run.program.schema.empty_table()])
            results |= engine.step(pa.concat_tables(tables), self.state.now)
        return results | {name: pa.concat_tables(tables) for name, tables in joined.items()}

    def close(self) -> dict[str, pa.Table]:
        """Give everything that still waits."""
        sides = len(self.streams)
        results = self.step([None] * sides, [END_OF_TIME] * sides)
        for engine in self.engines.values():
            for name, table in engine.close().items():
                results[name] = pa.concat_tables([results[name], table]) if name in results else table
        return results

    def add(self, added: Member) -> None:
        """Answer one more join."""
        if self.state is not None:
            program = self.state.program.with_members((*self.state.members, added), self.schemas)
            self.engines |= self._engines([added], program)
            self.state.add(added, program)
        self.members.append(added)

    def drop(self, name: str) -> None:
        """Answer a query no more, and leave out the join behind it if it was its only one."""
        place = next(n for n, joined in enumerate(self.members) if name in joined.answers)
        dropped = self.members[place]
        engine = self.engines.get(dropped.name)
        if engine is not None:
            engine.names.discard(name)
        left = tuple(q for q in dropped.aggregates if q.name != name)
        if left:
            self.members[place] = replace(dropped, aggregates=left)
            return
        del self.members[place]
        if engine is not None:
            self.engines.pop(dropped.name).run.shutdown()
        if self.members and self.state is not None:
            self.state.drop(dropped.name)

    def rechain(self, shape: str | float | None) -> SharedPlan | None:
        """Slice a chain anew, or choose join orders anew, by what was measured so far; no result changes."""
        state = self.state
        rates = None if state is None else measured(state)
        if state is None or rates is None:
            return None
        if isinstance(state, MultiwayJoin):
            state.choose()
            return plan_multiway(state.members, rates, state)
        shape = self.options.given["chain"] if shape is None else shape
        plan = plan_chain(state.members, rates, shape, self.options.costs)
        state.reshape(plan.ends)
        return plan

    def explain(self) -> SharedPlan:
        """Return the plan that runs, with what it should cost at the rates measured so far."""
        state = self.state
        rates = (measured(state) if state else None) or assumed(self.members)
        if len(self.streams) > 2:
            return plan_multiway(self.members, rates, state if isinstance(state, MultiwayJoin) else None)
        ends = [slices.ends for slices in state.sides] if state else None
        return plan_chain(self.members, rates, self.options.given["chain"], self.options.costs, ends)

    def result_schema(self, name: str) -> pa.Schema:
        """The schema of a query's results."""
        if self.state is None:
            missing = [s for s in self.streams if s not in self.schemas]
            raise JobError(f"there is no batch of the stream {missing[0]!r}")
        joined = next(m for m in self.members if name in m.answers)
        if joined.name in self.engines:
            return self.engines[joined.name].run.program.result_schema(name)
        return self.state.program.results[name]

    def shutdown(self) -> None:
        """Let the threads go."""
        for engine in self.engines.values():
            engine.run.shutdown()

    def _begin(self) -> None:
        """Begin if the schemas of all streams are known."""
        if not all(s in self.schemas for s in self.streams):
            return
        times = {s: self.clocks[s].time for s in self.streams}
        for name in self.answers:
            query = self.queries.get(name)
            if isinstance(query, JoinQuery):  # one by one, so that an error names the query
                compile_joins([member(query)], self.schemas, times, zone=self.options.given["zone"])
        program = compile_joins(
            self.members, self.schemas, times, self.options.given["strict"], self.options.given["zone"]
        )
        self.engines = self._engines(self.members, program)
        if len(self.streams) > 2:
            self.state = MultiwayJoin(program)
        else:
            ends = choose_ends(
                self.members, self.options.given["chain"], assumed(self.members), self.options.costs
            )
            self.state = Chain(program, ends)

    def _engines(self, members: Sequence[Member], program: JoinProgram) -> dict[str, WindowEngine]:
        """Make the engines that aggregate the results of joins, where a query does."""
        return {
            each.name: WindowEngine.of(each.aggregates, program.results[each.name], RESULT_TIME, self.options)
            for each in members
            if each.aggregates
        }
