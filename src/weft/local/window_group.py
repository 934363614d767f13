"""Window queries over one of several streams, answered by the ordinary engine as its batches come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from weft.errors import JobError
from weft.io.files import Chunk
from weft.local.run import LocalRun
from weft.model.query import Query
from weft.operators.blame import Failed
from weft.operators.lookups.tables import LookupTables
from weft.operators.times import Seen
from weft.operators.watermark import IN_ORDER, TimeRules
from weft.operators.windows.compile import compile_plan
from weft.planning.joins.rates import ChainCosts
from weft.planning.planner import plan as make_plan
from weft.runner.options import RunOptions


class GroupOptions(NamedTuple):
    """Options that all groups of queries of a run share, with what was read for them."""

    given: RunOptions
    tables: LookupTables
    costs: ChainCosts


@dataclass
class WindowEngine:
    """The ordinary engine at work for queries, of which only those in ``names`` are still answered."""

    run: LocalRun
    names: set[str]

    @classmethod
    def of(
        cls,
        queries: Sequence[Query],
        schema: pa.Schema,
        time: str,
        options: GroupOptions,
        rules: TimeRules = IN_ORDER,
        threads: int = 1,
    ) -> WindowEngine:
        """An engine for these queries over rows of this schema."""
        streams = {q.source for q in queries}  # names were checked where the queries came
        strategy, technique = options.given["strategy"], options.given["technique"]
        plan = make_plan(queries, strategy=strategy, technique=technique, streams=streams)
        program = compile_plan(
            plan,
            schema,
            time,
            options.given["strict"],
            threads,
            tables=options.tables.schemas(plan.queries),
            streams=streams,
            zone=options.given["zone"],
        )
        run = LocalRun(program, threads=threads, tables=options.tables, rules=rules)
        return cls(run, {q.name for q in queries})

    def step(self, batch: pa.Table | Chunk, watermark: int | None = None) -> dict[str, pa.Table]:
        """The answers after one more batch."""
        return self._still_answered(self.run.step(batch, watermark))

    def close(self) -> dict[str, pa.Table]:
        """The answers that still wait."""
        return self._still_answered(self.run.close())

    @property
    def errors(self) -> Failed:
        """The queries among them that could not be answered, and why."""
        return {name: error for name, error in self.run.errors.items() if name in self.names}

    def _still_answered(self, answers: dict[str, pa.Table]) -> dict[str, pa.Table]:
        return {n: table for n, table in answers.items() if n in self.names and table.num_rows}


class WindowGroup:
    """Window queries over one stream, and their engine once its schema is known."""

    def __init__(self, queries: Sequence[Query], time: str, options: GroupOptions, rules: TimeRules) -> None:
        self.queries, self.time, self.options, self.rules = list(queries), time, options, rules
        self.stream = self.queries[0].source
        self.engine: WindowEngine | None = None

    @property
    def seen(self) -> Seen:
        """Counts of the rows so far."""
        return Seen() if self.engine is None else self.engine.run.seen

    def step(self, chunk: Chunk) -> dict[str, pa.Table]:
        """The answers after one more batch of the stream."""
        if self.engine is None:
            threads = self.options.given["threads"] or 1
            self.engine = WindowEngine.of(
                self.queries, chunk.table.schema, self.time, self.options, self.rules, threads
            )
        return self.engine.step(chunk)

    def close(self) -> dict[str, pa.Table]:
        """The answers that still wait."""
        return {} if self.engine is None else self.engine.close()

    def drop(self, name: str) -> None:
        """Answer a query no more, if it is one of these; the engine goes with the last of them."""
        self.queries = [q for q in self.queries if q.name != name]
        if self.engine is not None:
            self.engine.names.discard(name)
        if not self.queries:
            self.shutdown()

    def result_schema(self, name: str) -> pa.Schema:
        """The schema of a query's results."""
        if self.engine is None:
            raise JobError(f"there is no batch of the stream {self.stream!r}")
        return self.engine.run.program.result_schema(name)

    def shutdown(self) -> None:
        """Let the threads go."""
        if self.engine is not None:
            self.engine.run.shutdown()
