"""The in-process runner: the same two functions as on Spark, on threads of this process."""

from __future__ import annotations

import datetime
import os
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from operator import methodcaller
from time import perf_counter
from typing import Unpack

import pyarrow as pa

from weft.errors import JobError, LateRowsWarning, late_message
from weft.io.arrow import Batch, as_chunk
from weft.io.files import Chunk, Files
from weft.io.files.chunk import Origins
from weft.io.lookups import TableSource
from weft.io.sinks import Sink
from weft.local.batches import as_chunks, is_bounded
from weft.local.results import Results
from weft.model.duration import parse_duration, parse_optional
from weft.model.instants import END_OF_TIME
from weft.model.join import JoinQuery
from weft.model.query import Query
from weft.operators.blame import Failed
from weft.operators.late import LATE_ROWS, REJECTED_ROWS, late_tables
from weft.operators.lookups.tables import LookupTables
from weft.operators.times import Seen
from weft.operators.watermark import UNREAD_REMARK, StepClock, TimeRules
from weft.operators.windows.answer import closing_time, final
from weft.operators.windows.carry_over import WindowCarryOver
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.prepare import Partials, partial
from weft.operators.windows.program import Program
from weft.operators.windows.sharing import SharingChoice, total
from weft.operators.windows.state import Piece, State
from weft.planning.live import LivePlanner
from weft.planning.plan import Plan
from weft.planning.planner import plan as make_plan
from weft.runner.changes import Change
from weft.runner.clock import wall_clock
from weft.runner.memory import keep_memory, without_collections
from weft.runner.options import RunOptions, filled
from weft.runner.registry import Registry
from weft.sql.builder import QueryBuilder
from weft.store.versions import Failure

MAX_ROWS_PER_TASK = 1 << 20
MAX_CELLS_PER_BUCKET = 1 << 20
"""Cells of a bucket above which there are to be more buckets: work on one takes a few times its memory."""

SMALL_RESULT_ROWS = 256
"""Rows of a result table below which many are copied into one."""


def run(
    queries: Iterable[Query | QueryBuilder | JoinQuery] | Plan,
    batches: Batch | Iterable[Batch],
    time: str,
    lateness: str | datetime.timedelta | None = None,
    *,
    streams: Collection[str] | None = None,
    **options: Unpack[RunOptions],
) -> Results:
    """Answer queries over a table, or over batches in order of arrival; all windows are closed at the end.

    See `weft.run`, which runs joins, too. ``streams`` are the names that FROM may have, where they are known.
    """
    options = filled(RunOptions, options, "run")
    plan = (
        queries
        if isinstance(queries, Plan)
        else make_plan(queries, strategy=options["strategy"], technique=options["technique"], streams=streams)
    )
    threads, lookups = options["threads"] or os.cpu_count() or 1, LookupTables(options["tables"])
    with ThreadPoolExecutor(1) as worker, without_collections():
        schema, arriving = _arriving(plan, batches, time)
        program = compile_plan(
            plan,
            schema,
            time,
            options["strict"],
            threads,
            tables=lookups.schemas(plan.queries),
            streams=streams,
            zone=options["zone"],
        )
        rules = TimeRules.of(
            parse_optional(lateness, "lateness"),
            parse_optional(options["max_ahead"], "max_ahead"),
            None,
            ends=is_bounded(batches),
        )
        runner = LocalRun(program, threads=threads, tables=lookups, rules=rules)
        results: dict[str, list[pa.Table]] = {q.name: [] for q in plan.queries}
        try:
            step: Future[dict[str, list[pa.Table]]] | None = None
            # The next batch is read, in this thread, while the last one is worked on.
            for batch in arriving(program):
                if step is not None:
                    _collect(results, step.result())
                step = worker.submit(runner._step, batch)
            if step is not None:
                _collect(results, step.result())
            _collect(results, runner._close())
        finally:
            runner.shutdown()
    return answered(program.result_schema, results, runner.errors, runner.seen, runner.skipped)


def answered(
    schema_of: Callable[[str], pa.Schema],
    results: Mapping[str, list[pa.Table]],
    errors: Failed,
    seen: Seen,
    skipped: Sequence[str],
) -> Results:
    """The results of queries at the end of a run, without those that failed, and the counts of their rows.

    Raises where all queries failed; warns of those that did, and of rows that came too late.
    """
    left = {name: tables for name, tables in results.items() if name not in errors}
    if errors and not left:
        raise next(iter(errors.values()))
    for error in errors.values():
        warnings.warn(f"{error}; it has no results", RuntimeWarning, stacklevel=4)
    if seen.late:
        warnings.warn(late_message(seen.late, seen.rows), LateRowsWarning, stacklevel=4)
    tables = {name: _joined(schema_of(name), parts) for name, parts in left.items()}
    answers = Results(tables, errors)
    answers.rows, answers.late, answers.untimed = seen.rows, seen.late, seen.untimed
    answers.bad, answers.ahead, answers.skipped_files = seen.bad, seen.ahead, tuple(skipped)
    return answers


class LocalRun:
    """A stream in this process: feed it batches with ``step``, end it with ``close``.

    ``choices`` says what the last batch shared, ``partial_seconds`` and ``tree_seconds`` the work it took,
    ``remark`` what a person should know of it. ``late`` is a sink for the rows that missed a window. ``seen``
    counts rows, ``seen.bad`` among them, and ``skipped`` has the files that could not be read and were left
    out. A query that cannot be answered leaves alone, and is in ``failed`` from then on; in a strict program
    its error is raised.

    >>> import datetime, weft
    >>> from weft.operators.windows.compile import compile_plan
    >>> queries = weft.sql("-- name: n\\nSELECT count(*) AS n FROM s [RANGE '1 min']")
    >>> batch = pa.table({"ts": [datetime.datetime(2024, 1, 1, 0, minute, 5) for minute in (0, 1)]})
    >>> run = LocalRun(compile_plan(weft.plan(queries), batch.schema, "ts"))
    >>> run.step(batch)["n"].column("n").to_pylist(), run.close()["n"].column("n").to_pylist()
    ([1], [1])

    Queries may be added and dropped between batches, asked for from any thread.
    """

    def __init__(
        self,
        program: Program,
        lateness: int = 0,
        threads: int | None = None,
        tables: LookupTables | Mapping[str, TableSource] | None = None,
        accept: Callable[[Mapping[str, pa.Schema]], None] | None = None,
        late: Sink | None = None,
        *,
        rules: TimeRules | None = None,
    ) -> None:
        """``rules`` say more of what moves the watermark than ``lateness`` does, and take its place."""
        keep_memory()
        self.rules, self.late, self.steps = rules or TimeRules(lateness), late, 0
        self.clock: Callable[[], float] = wall_clock
        self.heard: dict[str, int] = {}
        self.remark = ""
        if late is not None:
            late.open(late_tables(program.schema), "run")
        self.tables = tables if isinstance(tables, LookupTables) else LookupTables(tables)
        self.threads = threads or os.cpu_count() or 1
        self.states = [State(program, bucket) for bucket in range(self.threads)]
        self.seen = Seen()
        self.skipped: tuple[str, ...] = ()
        self.choices: list[SharingChoice] = []
        self.partial_seconds = 0.0
        self.tree_seconds: tuple[float, ...] = ()
        self.watermark: int | None = None
        self.errors = Failed()
        planner = LivePlanner.of(program.plan, program.streams)
        self._registry = Registry(program, planner, accept, tables=self.tables.schemas)
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="weft")

    @property
    def program(self) -> Program:
        """The queries that run, compiled."""
        return self._registry.program

    @property
    def plan(self) -> Plan:
        """The plan that runs: sharing, and its cost."""
        return self.program.plan

    def queries(self) -> tuple[Query, ...]:
        """The queries that are answered."""
        return self.program.queries

    @property
    def failed(self) -> Mapping[str, Failure]:
        """The queries that could not be answered any more and have left, until they are replaced."""
        return self._registry.failed

    def add(self, query: Query | QueryBuilder | str, name: str | None = None) -> Future[Change]:
        """Add a query (or one in SQL) with the next batch; the future has its ``Change`` from then on.

        >>> import datetime, weft
        >>> from weft.operators.windows.compile import compile_plan
        >>> text = "SELECT count(*) AS n FROM s [RANGE '{} min' SLIDE '1 min']"
        >>> batches = [pa.table({"ts": [datetime.datetime(2024, 1, 1, 0, m, 5)]}) for m in range(4)]
        >>> run = LocalRun(compile_plan(weft.plan(weft.sql(text.format(3))), batches[0].schema, "ts"))
        >>> _ = run.step(batches[0]), run.step(batches[1])
        >>> added = run.add(text.format(2), name="shorter")
        >>> run.step(batches[2])["shorter"].column("n").to_pylist()
        [2]
        >>> added.result().history, added.result().exact_from
        (True, datetime.datetime(2024, 1, 1, 0, 0))
        """
        return self._registry.add(query, name)

    def drop(self, name: str) -> Future[Change]:
        """Drop a query before the next batch; its open windows are not answered."""
        return self._registry.drop(name)

    def replace(self, query: Query | QueryBuilder | str, name: str | None = None) -> Future[Change]:
        """Put a query in the place of the one of its name, with the next batch."""
        return self._registry.replace(query, name)

    def step(self, batch: Batch | Chunk, watermark: int | None = None) -> dict[str, pa.Table]:
        """Take in a batch, or a chunk of a source, and answer the windows that the watermark has then passed.

        ``watermark`` is one known otherwise: no row after this batch is earlier.
        """
        return _whole(self._step(batch, watermark))

    def _step(self, batch: Batch | Chunk, watermark: int | None = None) -> dict[str, list[pa.Table]]:
        """Take one step: rows to partials on all threads, the watermark moved; return each query's answers by
        bucket."""
        self._change()
        chunk = as_chunk(batch)
        table = chunk.table
        self._check(table.schema)
        rows = min(MAX_ROWS_PER_TASK, -(-table.num_rows // self.threads)) or 1
        lookups = self.tables.lookups(self.program)
        clock = StepClock(self.rules, round(self.clock() * 1e6), self.watermark, self.seen.latest, self.heard)

        def shrink(cut: tuple[pa.Table, Origins]) -> tuple[Partials, float, Failed]:
            (rows, origins), began, failed = cut, perf_counter(), Failed()
            partials = partial(
                rows,
                self.program,
                self.watermark,
                len(self.states),
                lookups,
                self.late is not None,
                clock.limit,
                origins,
                None if self.program.strict else failed,
            )
            return partials, perf_counter() - began, failed

        pieces: list[Piece] = []
        choices: list[SharingChoice] = []
        late: list[pa.Table] = []
        self.partial_seconds, seen = 0.0, Seen()
        chunks = list(chunk.cut(rows))
        shrunk = list(self._pool.map(shrink, chunks))
        while any(failed for *_, failed in shrunk):
            self._go_on_without({n: e for *_, failed in shrunk for n, e in failed.items()})
            lookups = self.tables.lookups(self.program)
            shrunk = list(self._pool.map(shrink, chunks))
        for partials, seconds, _ in shrunk:
            self.partial_seconds += seconds
            seen += partials.seen
            pieces += partials.pieces
            choices += partials.choices
            late += [] if partials.late is None else [partials.late]
        self.seen += seen + Seen(rows=chunk.bad, bad=chunk.bad)
        self.skipped += chunk.skipped
        self.choices = total(choices)
        self._registry.observe(self.choices, self.seen.max_time)
        self.steps += 1
        if self.late is not None:
            rejected = [] if chunk.rejected is None else [chunk.rejected]
            tables = {LATE_ROWS: late, REJECTED_ROWS: rejected}
            self.late.deliver({n: pa.concat_tables(t) for n, t in tables.items() if t}, self.steps)
        after = clock.watermark_after(seen.latest, chunk.unread, chunk.mark)
        self.heard = clock.heard_after(seen.latest)
        self.remark = UNREAD_REMARK if self.rules.lateness is None and chunk.mark is None else ""
        self.watermark = max((w for w in (after, watermark) if w is not None), default=None)
        return self._final(pieces, self.watermark)

    @property
    def state_rows(self) -> int:
        """Number of partials that are kept."""
        return sum(state.rows for state in self.states)

    @property
    def state_bytes(self) -> int:
        """Memory that they take, about."""
        return sum(state.bytes for state in self.states)

    def empty(self) -> pa.Table:
        """A batch without rows."""
        return self.program.schema.empty_table()

    def change(self, name: str) -> Change:
        """Return the change that a running query came with: from which window on it is exact."""
        return self._registry.change(name)

    def close(self) -> dict[str, pa.Table]:
        """Answer every window that is still open."""
        return _whole(self._close())

    def _close(self) -> dict[str, list[pa.Table]]:
        """Answer what is open at the end of the input; return each query's answers by bucket."""
        self._registry.close()
        self.watermark, self.partial_seconds = END_OF_TIME, 0.0
        return self._final([], END_OF_TIME)

    def set_lateness(self, lateness: str | datetime.timedelta) -> None:
        """Wait for so long for rows out of order, from the next batch on; the watermark never goes back."""
        self.rules = replace(self.rules, lateness=parse_duration(lateness, "lateness"))

    def flush(self) -> dict[str, pa.Table] | None:
        """Answer every window that holds a row so far, and go on; None where none is open."""
        if self.seen.max_time is None:
            return None
        until = closing_time(self.program, self.seen.max_time)
        if self.watermark is not None and self.watermark >= until:
            return None
        self.watermark, self.partial_seconds = until, 0.0
        return _whole(self._final([], until))

    def replace_table(self, name: str, table: TableSource) -> None:
        """Join another table under this name, from the next batch on."""
        self.tables.replace(name, table, self.program)

    def shutdown(self) -> None:
        """Let the threads go, and close the sink of late rows."""
        self._registry.close()
        if self.late is not None:
            self.late.close()
        self._pool.shutdown(wait=False)

    def _change(self) -> bool:
        """Carry the state over to the changed queries; return whether any changed."""
        program = self._registry.apply(self.seen, self.watermark)
        if program is None:
            return False
        self.states = list(self._pool.map(WindowCarryOver(self.program.layout, program).state, self.states))
        self._registry.confirm(program)
        return True

    def _go_on_without(self, failed: Failed) -> None:
        """Drop queries that cannot be answered any more; the others keep what they have."""
        self.errors |= failed
        self._registry.fail({name: str(error) for name, error in failed.items()})
        if not self._change():
            raise next(iter(failed.values()))

    def _final(self, pieces: Sequence[Piece], watermark: int | None) -> dict[str, list[pa.Table]]:
        """Run ``final`` over every bucket, on all threads; return each query's answers by bucket."""
        failed = Failed()

        def answer(state: State) -> tuple[dict[str, pa.Table], Counter[int]]:
            own = [p for p in pieces if p.bucket == state.bucket]
            spent: Counter[int] = Counter()
            blamed = None if self.program.strict else failed
            return final(state, own, watermark, self.program, spent, blamed)[1], spent

        results: dict[str, list[pa.Table]] = {}
        total_spent: Counter[int] = Counter()
        for answered, spent in self._pool.map(answer, self.states):
            total_spent += spent
            for name, table in answered.items():
                results.setdefault(name, []).append(table)
        if failed:
            results = {name: tables for name, tables in results.items() if name not in failed}
            self._go_on_without(failed)
        self.tree_seconds = tuple(total_spent[tree] / 1e9 for tree in range(len(self.program.trees)))
        if self.state_rows > MAX_CELLS_PER_BUCKET * len(self.states):
            self._halve()
        return results

    def _halve(self) -> None:
        """Go on in twice as many buckets; what each held is let go before the next is halved."""
        count, old = 2 * len(self.states), self.states
        self.states = []
        while old:
            popped = [old.pop() for _ in range(min(self.threads, len(old)))]
            self.states += chain.from_iterable(self._pool.map(methodcaller("halves", count), popped))

    def _check(self, schema: pa.Schema) -> None:
        for name in self.program.columns:
            first = self.program.schema.field(name).type
            given = schema.field(name).type if name in schema.names else None
            if given != first and (given is None or _value_type(given) != _value_type(first)):
                raise JobError(
                    f"column {name!r} is {given or 'missing'} in this batch but {first} in the first; "
                    "give every batch the same columns and types"
                )


def _value_type(dtype: pa.DataType) -> pa.DataType:
    return dtype.value_type if pa.types.is_dictionary(dtype) else dtype


def _arriving(
    plan: Plan, batches: Batch | Iterable[Batch], time: str
) -> tuple[pa.Schema, Callable[[Program], Iterable[Chunk]]]:
    """The schema of the stream, and its batches; of files, only the columns that a program reads."""
    if isinstance(batches, Files):
        files = batches
        keys = [k for q in plan.queries for k in q.group_by]
        return files.stream_schema(), lambda program: files.chunks(program.columns, keys, time)
    iterator = as_chunks(batches, time)
    first = next(iterator, None)
    if first is None:
        raise JobError("there is no batch to run over")
    return first.table.schema, lambda program: chain([first], iterator)


def _joined(schema: pa.Schema, tables: list[pa.Table]) -> pa.Table:
    """One table of many; copied only where they are small."""
    whole = pa.concat_tables([schema.empty_table(), *tables])
    return whole.combine_chunks() if whole.num_rows < SMALL_RESULT_ROWS * len(tables) else whole


def _collect(results: dict[str, list[pa.Table]], answered: dict[str, list[pa.Table]]) -> None:
    for name, tables in answered.items():
        results[name] += tables


def _whole(answered: dict[str, list[pa.Table]]) -> dict[str, pa.Table]:
    return {name: pa.concat_tables(tables) for name, tables in answered.items()}
