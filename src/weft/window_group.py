"""Window queries over one of several streams, answered by the ordinary engine as its batches come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from weft.engine.blame import Failed
from weft.engine.compile import compile_plan
from weft.engine.partial import Seen
from weft.engine.watermark import IN_ORDER, TimeRules
from weft.errors import JobError
from weft.expr import UTC
from weft.files import Chunk
from weft.joins.rates import Costs
from weft.local import LocalRun
from weft.optimize import plan as make_plan
from weft.query import Query
from weft.tables import Tables


@dataclass(frozen=True)
class Options:
    """How queries over several streams are run; ``shape`` is that of chains."""

    strategy: str
    technique: str
    threads: int
    strict: bool
    shape: str | float
    costs: Costs
    tables: Tables
    zone: str = UTC


@dataclass
class Engine:
    """The ordinary engine at work for some queries, of which only those still asked are answered."""

    run: LocalRun
    asked: set[str]

    @classmethod
    def of(
        cls,
        queries: Sequence[Query],
        schema: pa.Schema,
        time: str,
        options: Options,
        rules: TimeRules = IN_ORDER,
        threads: int = 1,
    ) -> Engine:
        """An engine for these queries over rows of this schema."""
        streams = {q.source for q in queries}  # names were checked where the queries came
        plan = make_plan(queries, strategy=options.strategy, technique=options.technique, streams=streams)
        program = compile_plan(
            plan,
            schema,
            time,
            options.strict,
            threads,
            tables=options.tables.schemas(plan.queries),
            streams=streams,
            zone=options.zone,
        )
        run = LocalRun(program, threads=threads, tables=options.tables, rules=rules)
        return cls(run, {q.name for q in queries})

    def step(self, batch: pa.Table | Chunk, watermark: int | None = None) -> dict[str, pa.Table]:
        """The answers after one more batch."""
        return self._wanted(self.run.step(batch, watermark))

    def close(self) -> dict[str, pa.Table]:
        """The answers that still wait."""
        return self._wanted(self.run.close())

    @property
    def errors(self) -> Failed:
        """The queries still asked that could not be answered, and why."""
        return {name: error for name, error in self.run.errors.items() if name in self.asked}

    def _wanted(self, answers: dict[str, pa.Table]) -> dict[str, pa.Table]:
        return {n: table for n, table in answers.items() if n in self.asked and table.num_rows}


class WindowGroup:
    """Window queries over one stream, and their engine once its schema is known."""

    def __init__(self, queries: Sequence[Query], time: str, options: Options, rules: TimeRules) -> None:
        self.queries, self.time, self.options, self.rules = list(queries), time, options, rules
        self.stream = self.queries[0].source
        self.engine: Engine | None = None

    @property
    def seen(self) -> Seen:
        """Counts of the rows so far."""
        return Seen() if self.engine is None else self.engine.run.seen

    def step(self, chunk: Chunk) -> dict[str, pa.Table]:
        """The answers after one more batch of the stream."""
        if self.engine is None:
            options = self.options
            self.engine = Engine.of(
                self.queries, chunk.table.schema, self.time, options, self.rules, options.threads
            )
        return self.engine.step(chunk)

    def close(self) -> dict[str, pa.Table]:
        """The answers that still wait."""
        return {} if self.engine is None else self.engine.close()

    def drop(self, name: str) -> None:
        """Answer a query no more, if it is one of these; the engine goes with the last of them."""
        self.queries = [q for q in self.queries if q.name != name]
        if self.engine is not None:
            self.engine.asked.discard(name)
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
