"""The in-process runner: any mix of queries, on threads of this process."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import methodcaller
from typing import Any, TypeVar, Unpack

import pyarrow as pa

from weft.errors import JobError, UnknownQuery
from weft.expr.types import UTC
from weft.io.arrow import Batch, as_chunk
from weft.io.files import Chunk
from weft.io.files.source import Columns
from weft.io.lookups import TableSource
from weft.io.sinks import Sink
from weft.model.duration import parse_duration, parse_optional
from weft.model.names import time_of
from weft.operators.contract import Failed, Kept, Marks, Piece, Stage, State
from weft.operators.joins.stage import JOINED, JOINS
from weft.operators.lookups.tables import LookupTables
from weft.operators.times import Seen
from weft.operators.watermark import UNREAD_REMARK, TimeRules
from weft.operators.windows.sharing import SharingChoice, total
from weft.planning.plan import Plan
from weft.runner.clock import StepTime, StreamTime, Unread, ending, least_mark, wall_clock
from weft.runner.late import late_names, late_tables
from weft.runner.lateness import Lateness, check_stream, read_lateness
from weft.runner.memory import keep_memory
from weft.runner.options import LocalOptions, filled, with_options
from weft.runner.prepare import PreparedRows, StepLookups, prepare_chunk
from weft.runner.program import UNNAMED, AnyQuery, Position, Program, ProgramCompiler
from weft.runner.running_queries import Accept, ChangingQueries, RunningQueries
from weft.runner.version_keeper import VersionKeeper
from weft.sql.read import QueryInput, read_queries

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_ROWS_PER_TASK = 1 << 20
MIN_JOINED_ROWS_PER_TASK = 1 << 14
"""Rows of a joined stream below which a task of its own is not worth it."""

MAX_CELLS_PER_BUCKET = 1 << 20
"""Cells of a bucket above which there are to be more buckets: work on one takes a few times its memory."""


@dataclass
class StepOutcome:
    """The outcome of one step: answers by query and bucket, rows for the sink of late ones, and, by stage and
    bucket, what is new in the states, as the queries of ``version`` keep it."""

    answers: dict[str, list[pa.Table]] = field(default_factory=dict)
    late: dict[str, pa.Table] = field(default_factory=dict)
    fresh: dict[str, list[Sequence[Kept]]] = field(default_factory=dict)
    version: int = 0

    @property
    def tables(self) -> dict[str, pa.Table]:
        """The answers of each query as one table."""
        return {name: pa.concat_tables(tables) for name, tables in self.answers.items()}


class LocalRun(ChangingQueries):
    """A stream in this process: feed it batches with ``step``, end it with ``close``.

    ``choices`` says what the last batch shared, ``partial_seconds`` and ``tree_seconds`` the work it took,
    ``remark`` what a person should know of it. ``late`` is a sink for the rows that missed a window. ``seen``
    counts rows, ``seen.bad`` among them, and ``skipped`` has the files that could not be read and were left
    out. A query that cannot be answered leaves alone, and is in ``failed`` from then on; in a strict run its
    error is raised.

    >>> import datetime, weft
    >>> queries = weft.sql("-- name: n\\nSELECT count(*) AS n FROM s [RANGE '1 min']")
    >>> batch = pa.table({"ts": [datetime.datetime(2024, 1, 1, 0, minute, 5) for minute in (0, 1)]})
    >>> run = LocalRun(queries, batch.schema, "ts")
    >>> run.step(batch)["n"].column("n").to_pylist(), run.close()["n"].column("n").to_pylist()
    ([1], [1])

    Over several streams, schemas and batches are given by name:

    >>> pairs = weft.sql('''-- name: pairs
    ...     SELECT a.x FROM a [RANGE '1 min'], b [RANGE '1 min'] WHERE a.x = b.x''')
    >>> a = pa.table({"ts": [datetime.datetime(2024, 1, 1, 0, minute) for minute in (0, 1)], "x": [1, 2]})
    >>> run = LocalRun(pairs, {"a": a.schema, "b": a.schema}, "ts")
    >>> run.step({"a": a, "b": a})["pairs"].column("x").to_pylist()
    [1]

    Queries may be added and dropped between batches, asked for from any thread.
    """

    late: Sink | None = None

    @with_options(LocalOptions)
    def __init__(
        self,
        queries: Iterable[QueryInput] | Plan | str,
        schemas: pa.Schema | Mapping[str, pa.Schema],
        time: str | Mapping[str, str],
        lateness: Lateness = "0 s",
        *,
        late: Sink | None = None,
        accept: Accept | None = None,
        **options: Unpack[LocalOptions],
    ) -> None:
        """``accept`` refuses results that a sink cannot take, by raising JobError."""
        options = filled(LocalOptions, options, "LocalRun")
        setup = LocalSetup.of(queries, schemas, time, options)
        program = setup.compiler.compile(setup.queries)
        ahead = parse_optional(options["max_ahead"], "max_ahead")
        waits = read_lateness(lateness, setup.compiler.schemas)
        rules = {name: TimeRules(wait, ahead) for name, wait in waits.items()}
        self._begin(RunningQueries(setup.compiler, program, accept), setup, rules)
        if late is not None:
            self.late, self.keep_missed = late, True
            late.open(late_tables(program.schemas), "run")

    @classmethod
    def of(
        cls,
        running: RunningQueries,
        setup: LocalSetup,
        rules: Mapping[str, TimeRules],
        idle: int | None = None,
    ) -> LocalRun:
        """Return a run of queries that are compiled already."""
        run = cls.__new__(cls)
        run._begin(running, setup, rules, idle)
        return run

    def _begin(
        self,
        running: RunningQueries,
        setup: LocalSetup,
        rules: Mapping[str, TimeRules],
        idle: int | None = None,
    ) -> None:
        keep_memory()
        self.running, self.tables, self.threads = running, setup.tables, setup.threads
        self.rules, self.idle = dict(rules), idle
        self.clock: Callable[[], float] = wall_clock
        self.keep_missed = self.keep_fresh = False
        self.may_split = True
        self.versions: VersionKeeper | None = None
        self.seq: Callable[[], int] = lambda: self.steps + 1
        self.steps, self.remark = 0, ""
        self.streams: dict[str, StreamTime] = {}
        self.marks: dict[str, Marks] = {}
        self.states: dict[str, list[State]] = {s.name: self._empty(s) for s in self.program.stages}
        self.skipped: tuple[str, ...] = ()
        self.choices: list[SharingChoice] = []
        self.partial_seconds = 0.0
        self.tree_seconds: tuple[float, ...] = ()
        self.errors = Failed()
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="weft")

    @property
    def seen(self) -> Seen:
        """Counts of all rows so far."""
        return sum((stream.seen for stream in self.streams.values()), Seen())

    @property
    def position(self) -> Position:
        """The position of the streams, and of the stages that read them."""
        return Position(self.streams, self.marks)

    @property
    def watermark(self) -> int | None:
        """The time before which everything is answered; None while a stream has none."""
        marks = [mark for stage in self.program.stages for mark in self._time().marks_of(stage).values()]
        return least_mark(marks or [stream.mark for stream in self.streams.values()])

    @property
    def state_rows(self) -> int:
        """Number of partials, rows and waiting results that are kept."""
        return sum(state.rows for states in self.states.values() for state in states)

    @property
    def state_bytes(self) -> int:
        """Memory that they take, about."""
        return sum(state.bytes for states in self.states.values() for state in states)

    def columns(self, stream: str) -> Columns:
        """Return what says, at any time, which columns are read of a stream."""

        def read() -> tuple[Sequence[str], Sequence[str]]:
            reads = self.program.reads.get(stream)
            if reads is None:
                return (self.program.times[stream],), ()
            return self.running.columns_ahead(stream), reads.keys

        return read

    def set_lateness(self, lateness: str | datetime.timedelta, stream: str | None = None) -> None:
        """Wait for so long for rows out of order, of one stream or of all, from the next batch on; the
        watermark never goes back."""
        wait = parse_duration(lateness, "lateness")
        if stream is not None:
            check_stream(stream, self.rules)
        for name in self.rules if stream is None else [stream]:
            if self.versions is not None:
                self.versions.lateness[name] = wait
            else:
                self.rules[name] = replace(self.rules[name], lateness=wait)

    def replace_table(self, name: str, table: TableSource) -> None:
        """Look up another table under this name, from the next batch on."""
        self.tables.replace(name, table, self.program.lookups)

    def value(self, query: str) -> pa.Table:
        """Return what a query would answer if the stream ended now; nothing changes."""
        stage = self.program.stage_of(query)
        if stage is None:
            listed = ", ".join(sorted(q.name for q in self.program.queries)) or "none"
            raise UnknownQuery(f"there is no such query; there are {listed}", query=query)
        return pa.concat_tables([state.read(query) for state in self.states[stage.name]])

    def step(self, batches: Batch | Chunk | Mapping[str, Batch | Chunk]) -> dict[str, pa.Table]:
        """Take in a batch, or a chunk of a source, of some of the streams; return the results that are then
        certain."""
        given = batches if isinstance(batches, Mapping) else {self._only_stream(): batches}
        return self.deliver_late(self.take({name: as_chunk(batch) for name, batch in given.items()})).tables

    def flush(self) -> dict[str, pa.Table] | None:
        """Answer all that the rows so far can be answered with, and go on; None where nothing waits."""
        outcome = self.take_flush()
        return None if outcome is None else outcome.tables

    def close(self) -> dict[str, pa.Table]:
        """Answer everything that still waits."""
        return self.take_end().tables

    def shutdown(self) -> None:
        """Take no more changes, let the threads go, and close the sink of late rows."""
        self.running.close()
        if self.late is not None:
            self.late.close()
        self._pool.shutdown(wait=False)

    def take(self, chunks: Mapping[str, Chunk]) -> StepOutcome:
        """Take one step: changes applied, rows prepared on all threads, marks moved, answers given."""
        if self._has_columns(chunks):
            self._change()
        for name, chunk in chunks.items():
            self._check(name, chunk.table.schema)
        time = self._time()
        prepared = self._prepare(chunks, time)
        for chunk in chunks.values():
            self.skipped += chunk.skipped
        seen, unread = {}, {}
        for name, chunk in chunks.items():
            counts = (rows.seen for rows in prepared if rows.stream == name)
            seen[name] = sum(counts, Seen(rows=chunk.bad, bad=chunk.bad))
            unread[name] = Unread(chunk.unread, chunk.mark)
        self.streams = time.streams_after(seen, unread)
        waits = [n for n, c in chunks.items() if self.rules[n].lateness is None and c.mark is None]
        self.remark = UNREAD_REMARK if waits else ""
        self.partial_seconds = sum(rows.seconds for rows in prepared)
        pieces: dict[str, list[Piece]] = {}
        for rows in prepared:
            for stage_name, stage_pieces in rows.pieces.items():
                pieces.setdefault(stage_name, []).extend(stage_pieces)
        outcome = self._advance(pieces, time.marks_after(self.program.stages, self.streams), prepared)
        outcome.late = rows_to_keep(self.program, chunks, prepared) if self.keep_missed else {}
        self.steps += 1
        return outcome

    def _has_columns(self, chunks: Mapping[str, Chunk]) -> bool:
        """Return whether rows that were read before a query was asked for have what it reads; if not, it is
        added with the rows that come next."""
        return all(
            set(self.running.columns_ahead(name)) <= set(chunk.table.column_names)
            or not set(self.program.reads[name].schema.names) <= set(chunk.table.column_names)
            for name, chunk in chunks.items()
            if name in self.program.reads
        )

    def take_flush(self, with_ahead: bool = False) -> StepOutcome | None:
        """Take a step without rows that answers what waits; None where nothing does."""
        until = self._time().closing(self.program.stages, with_ahead)
        return None if until is None else self._close_at(until)

    def take_end(self) -> StepOutcome:
        """Take the last step of all: everything is answered."""
        self.running.close()
        return self._close_at(ending(self.program.stages))

    def deliver_late(self, outcome: StepOutcome) -> StepOutcome:
        """Hand the rows of a step that missed a window to their sink, where the run has one."""
        if self.late is not None:
            self.late.deliver(outcome.late, self.steps)
        return outcome

    def _close_at(self, until: Mapping[str, Marks]) -> StepOutcome:
        self.partial_seconds, self.choices, self.remark = 0.0, [], ""
        self.steps += 1
        return self._advance({}, until, ())

    def _time(self) -> StepTime:
        now = round(self.clock() * 1e6)
        return StepTime(self.rules, now, self.streams, self.marks, idle=self.idle)

    def _prepare(self, chunks: Mapping[str, Chunk], time: StepTime) -> list[PreparedRows]:
        """Prepare rows on all threads, without the queries that cannot be answered over them."""
        while True:
            program, lookups = self.program, StepLookups.of(self.tables, self.program)

            def prepare(cut: tuple[str, Chunk], lookups: StepLookups = lookups) -> PreparedRows:
                name, chunk = cut
                return prepare_chunk(
                    self.program, time, name, chunk, self._buckets, lookups, keep_missed=self.keep_missed
                )

            cuts = [(name, cut) for name, chunk in chunks.items() for cut in self._cuts(program, name, chunk)]
            prepared = self._on_threads(prepare, cuts)
            failed = {name: error for rows in prepared for name, error in rows.failed.items()}
            if not failed:
                return prepared
            self._go_on_without(failed)

    def _on_threads(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return the result of each piece of work; one alone is done here, as handing it over costs more than
        a small step."""
        return [work(item) for item in items] if len(items) < 2 else list(self._pool.map(work, items))

    def _cuts(self, program: Program, name: str, chunk: Chunk) -> Iterable[Chunk]:
        """Cut the rows of a stream into the shares of tasks."""
        rows = -(-chunk.table.num_rows // self.threads)
        if any(stage.name == JOINS for stage in program.by_stream[name]):
            rows = max(rows, MIN_JOINED_ROWS_PER_TASK)
        rows = min(MAX_ROWS_PER_TASK, rows) or 1
        return (Chunk(table, origins=origins) for table, origins in chunk.cut(rows))

    def _buckets(self, stage: Stage) -> int:
        states = self.states.get(stage.name)
        return len(states) if states else self._bucket_count(stage)

    def _bucket_count(self, stage: Stage) -> int:
        # Rows of a join that is no equality would have to go to every bucket.
        return 1 if stage.name == JOINS else self.threads

    def _empty(self, stage: Stage) -> list[State]:
        count = self._bucket_count(stage)
        return [stage.state(bucket, count) for bucket in range(count)]

    def _advance(
        self,
        pieces: Mapping[str, Sequence[Piece]],
        marks: Mapping[str, Marks],
        prepared: Sequence[PreparedRows],
    ) -> StepOutcome:
        """Let every bucket of every stage step, on all threads; rows that one gives go to those behind it."""
        outcome, failed, time = StepOutcome(version=self.program.version), Failed(), self._time()
        blamed = None if self.program.strict else failed
        notes: dict[str, list[Any]] = {}
        given: dict[str, list[Piece]] = {}
        choices = [choice for rows in prepared for choice in rows.choices]
        seconds: list[float] = []
        for stage in self.program.stages:
            own_marks = marks[stage.name]
            arrived = [*pieces.get(stage.name, ()), *given.get(stage.name, ())]

            def step(state: State, arrived: Sequence[Piece] = arrived, now: Marks = own_marks) -> Any:
                own = [piece for piece in arrived if piece.bucket == state.bucket]
                return state.step(own, now, blamed, keep=self.keep_fresh)

            stepped = self._on_threads(step, self.states.get(stage.name, ()))
            if bad := sum(result.note.get("bad", 0) for result in stepped):
                self._count(JOINED, Seen(bad=bad))
            came = [rows.notes[stage.name] for rows in prepared if stage.name in rows.notes]
            notes[stage.name] = [*came, *(result.note for result in stepped)]
            if trees := [result.note["trees"] for result in stepped if "trees" in result.note]:
                seconds += map(sum, zip(*trees))
            if self.keep_fresh:
                outcome.fresh[stage.name] = [result.fresh for result in stepped]
            for result in stepped:
                for name, table in result.answers.items():
                    outcome.answers.setdefault(name, []).append(table)
            for name in stage.outputs:
                tables = [result.outputs[name] for result in stepped if name in result.outputs]
                if tables:
                    behind = self._prepare_outputs(name, pa.concat_tables(tables), time)
                    choices += behind.choices
                    for stage_name, stage_pieces in behind.pieces.items():
                        given.setdefault(stage_name, []).extend(stage_pieces)
        self.marks, self.choices, self.tree_seconds = dict(marks), total(choices), tuple(seconds)
        self.running.learn(notes, self.choices, self.position)
        if failed:
            outcome.answers = {name: t for name, t in outcome.answers.items() if name not in failed}
            self._go_on_without(failed)
        elif (tuned := self.running.tuned()) is not None:
            self._move_to(tuned)
            self.running.program = tuned
        if self.may_split:
            self._split()
        return outcome

    def _prepare_outputs(self, name: str, table: pa.Table, time: StepTime) -> PreparedRows:
        """Prepare rows that a stage gives for those behind it."""
        while True:
            rows = prepare_chunk(
                self.program, time, name, Chunk(table), self._buckets, StepLookups(), keep_missed=False
            )
            if not rows.failed:
                # The rows have been counted as those that they are made of.
                self._count(name, Seen(late=rows.seen.late, bad=rows.seen.bad))
                return rows
            self._go_on_without(rows.failed)

    def _count(self, stream: str, seen: Seen) -> None:
        """Add what stages have counted themselves to the counts of a stream."""
        before = self.streams.get(stream, StreamTime())
        self.streams[stream] = replace(before, seen=before.seen + seen)

    def _change(self) -> bool:
        """Carry the state over to the changed queries; return whether any changed."""
        if self.versions is None:
            program = self.running.apply(self.position, self.program.version + 1)
        else:
            program = self.versions.settle(self.running, self.position, self.seq())
            for name, wait in self.versions.lateness_now.items():
                self.rules[name] = replace(self.rules[name], lateness=wait)
        if program is None:
            return False
        self._move_to(program)
        self.running.confirm(program)
        return True

    def _move_to(self, program: Program) -> None:
        """Carry states over to a program; marks of stages that are gone are forgotten."""
        moved = {}
        for stage in program.stages:
            states = self.states.get(stage.name)
            if states is None:
                moved[stage.name] = self._empty(stage)
            else:
                moved[stage.name] = self._on_threads(methodcaller("moved", stage), states)
        self.states = moved
        self.marks = {name: marks for name, marks in self.marks.items() if name in moved}

    def _go_on_without(self, failed: Failed) -> None:
        """Drop queries that cannot be answered any more; the others keep what they have."""
        if self.program.strict:
            raise next(iter(failed.values()))
        self.errors |= failed
        self.running.fail({name: str(error) for name, error in failed.items()})
        if not self._change():
            raise next(iter(failed.values()))

    def _split(self) -> None:
        """Go on in twice as many buckets where states have grown; what each held is let go before the next
        is split."""
        for name, states in self.states.items():
            if name == JOINS or sum(s.rows for s in states) <= MAX_CELLS_PER_BUCKET * len(states):
                continue
            count, old, split = 2 * len(states), states, list[State]()
            self.states[name] = []
            while old:
                popped = [old.pop() for _ in range(min(self.threads, len(old)))]
                split += chain.from_iterable(self._pool.map(methodcaller("split", count), popped))
            self.states[name] = split

    def _only_stream(self) -> str:
        if len(self.program.schemas) != 1:
            raise JobError(
                f"there are several streams; give a batch by name: {', '.join(self.program.schemas)}"
            )
        return next(iter(self.program.schemas))

    def _check(self, stream: str, schema: pa.Schema) -> None:
        """Refuse a batch that lacks a column, or has it in another type."""
        if stream not in self.program.schemas:
            raise JobError(f"there is no stream {stream!r}; there are {', '.join(self.program.schemas)}")
        reads = self.program.reads.get(stream)
        for column in () if reads is None else reads.schema:
            given = schema.field(column.name).type if column.name in schema.names else None
            if given != column.type and (given is None or _value_type(given) != _value_type(column.type)):
                where = f" of {stream!r}" if stream else ""
                raise JobError(
                    f"column {column.name!r}{where} is {given or 'missing'} in this batch but {column.type} "
                    "in the first; give every batch the same columns and types"
                )


@dataclass(frozen=True)
class LocalSetup:
    """Queries as they were given, what compiles them, their lookup tables, and the threads to work on."""

    queries: tuple[AnyQuery, ...]
    compiler: ProgramCompiler
    tables: LookupTables
    threads: int

    @classmethod
    def of(
        cls,
        queries: Iterable[QueryInput] | Plan | str,
        schemas: pa.Schema | Mapping[str, pa.Schema],
        time: str | Mapping[str, str],
        options: Mapping[str, Any],
    ) -> LocalSetup:
        """Read queries and options of a run over streams of these schemas."""
        threads = options.get("threads") or os.cpu_count() or 1
        tables = LookupTables(options.get("tables"))
        named = isinstance(schemas, Mapping)
        by_name: dict[str, pa.Schema] = dict(schemas) if named else {UNNAMED: schemas}
        times = {name: time if isinstance(time, str) else time_of(time, name) for name in by_name}
        compiler = ProgramCompiler(
            by_name,
            times,
            tuple(by_name) if named else None,
            options.get("strategy", "share-all"),
            options.get("technique", "auto"),
            options.get("strict", False),
            threads,
            options.get("chain", "mem-opt"),
            options.get("zone", UTC),
            tables.schemas,
            queries if isinstance(queries, Plan) else None,
        )
        read = queries.all_queries if isinstance(queries, Plan) else read_queries(queries)
        return cls(read, compiler, tables, threads)


def rows_to_keep(
    program: Program, chunks: Mapping[str, Chunk], prepared: Iterable[PreparedRows]
) -> dict[str, pa.Table]:
    """Return the rows of a step that missed something, or cannot be read, by the tables of their sink."""
    tables: dict[str, list[pa.Table]] = {}
    names = late_names(list(program.schemas))
    for rows in prepared:
        if rows.missed is not None:
            tables.setdefault(names[rows.stream].late, []).append(rows.missed)
    for stream, chunk in chunks.items():
        if chunk.rejected is not None:
            tables.setdefault(names[stream].rejected, []).append(chunk.rejected)
    return {name: pa.concat_tables(lots) for name, lots in tables.items()}


def _value_type(dtype: pa.DataType) -> pa.DataType:
    return dtype.value_type if pa.types.is_dictionary(dtype) else dtype
