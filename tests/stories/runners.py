"""The engines that stories are told to: each gives, step by step, what was answered and counted."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any, Protocol
from unittest.mock import patch

import pyarrow as pa
from one_process_spark import Conf, Task
from pyspark import TaskContext
from ways import forced

import weft
from stories.story import TIME, Row, Step, Story
from weft import filesystem, local
from weft.engine import layers, partial
from weft.engine.changes import EPOCH
from weft.engine.compile import compile_plan
from weft.engine.registry import Registry
from weft.engine.store import SliceStore
from weft.engine.watermark import TimeRules
from weft.errors import JobError
from weft.files import Chunk
from weft.local import LocalRun
from weft.optimize import LivePlanner
from weft.query import Query
from weft.sinks import MemorySink
from weft.spark import cache
from weft.spark import step as spark_step
from weft.spark import tables as spark_tables
from weft.spark.sources import Part
from weft.spark.steps import Steps
from weft.spark.stream import _program
from weft.tables import Tables

SHARED_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


@dataclass
class Told:
    """What a step gave: results, rows seen in all, and from when on each query that joined is exact."""

    results: dict[str, pa.Table]
    rows: int
    late: int
    untimed: int
    since: dict[str, int | None] = field(default_factory=dict)
    kept_late: int | None = None
    """How many rows the sink of late rows has got in all, where there is one."""


class Engine(Protocol):
    """Something that takes the steps of a story."""

    def step(self, step: Step) -> Told: ...

    def close(self) -> dict[str, pa.Table]: ...


@contextmanager
def engine_of(story: Story) -> Iterator[Engine]:
    """The engine that a story is for, ready for its first step."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(layers, "MOST_LAYERS", story.most_layers))
        stack.enter_context(patch.object(local, "MOST_CELLS", story.most_cells))
        # What is known of keys in this thread must not depend on the stories before.
        stack.enter_context(patch.object(partial, "_known", SimpleNamespace()))
        yield stack.enter_context(ENGINES[story.engine](story))


@contextmanager
def _local(story: Story) -> Iterator[Engine]:
    engine = Local(story)
    try:
        yield engine
    finally:
        engine.run.shutdown()


@contextmanager
def _stored(story: Story) -> Iterator[Engine]:
    place = tempfile.mkdtemp(prefix="weft-story-", dir=SHARED_MEMORY)
    try:
        with patch.object(filesystem.os, "fsync", lambda _: None), without_tracks():
            yield Stored(story, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


ENGINES: dict[str, Callable[[Story], Any]] = {"local": _local, "stored": _stored}


def table_sources(story: Story, now: dict[str, pa.Table]) -> dict[str, Any]:
    """The static tables of a story: given as functions, so that what is in ``now`` is read before each step,
    or as they are, to be replaced by hand."""
    asked = random.Random(story.seed).random() < 0.5
    return {name: (lambda name=name: now[name]) if asked else table for name, table in now.items()}


def refresh(story: Story, step: Step, now: dict[str, pa.Table], run: Any) -> None:
    """Give the tables of a step: a function gives them itself, others are replaced."""
    for name, rows in step.tables.items():
        now[name] = story.static(name, rows)
        if not callable(table_sources(story, now)[name]):
            run(name, now[name])


def ask(registry: Any, changes: Iterable[tuple[str, Query | None]], running: set[str]) -> None:
    """Let queries come and go."""
    for name, query in changes:
        if query is None:
            registry.drop(name)
        elif name in running:
            registry.replace(query)
        else:
            registry.add(query)


def micros(moment: Any) -> int | None:
    """A moment in microseconds."""
    if moment is None:
        return None
    return int((moment.replace(tzinfo=None) - EPOCH) / (EPOCH.resolution))


class Inline:
    """A pool that works in this thread, so that a story is told the same way every time."""

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return iter([work(item) for item in items])

    def submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(work(*args))
        return future

    def shutdown(self, wait: bool = True) -> None: ...


class Local:
    """The in-process runner."""

    def __init__(self, story: Story) -> None:
        self.story, self.late = story, MemorySink()
        self.now = {name: story.static(name, table.rows) for name, table in story.tables.items()}
        tables = Tables(table_sources(story, self.now))
        plan = weft.plan(
            story.queries, strategy=story.strategy, technique=story.technique, nodes=story.buckets
        )
        program = compile_plan(
            plan, story.schema, TIME, buckets=story.buckets, tables=tables.schemas(story.queries)
        )
        keep = random.Random(story.seed).random() < 0.5
        late = self.late if keep else None
        with (
            nullcontext()
            if story.threads
            else patch.object(local, "ThreadPoolExecutor", lambda *_, **__: Inline())
        ):
            self.run = LocalRun(program, story.lateness, story.buckets, tables, late=late)

    def step(self, step: Step) -> Told:
        """Take a step."""
        run = self.run
        refresh(self.story, step, self.now, run.replace_table)
        ask(run, step.changes, {q.name for q in run.queries()})
        if step.flush:
            results = run.flush() or {}
        else:
            with forced(step.way) if step.way else nullcontext():
                results = run.step(self.story.table(step))
        since = {name: micros(run.joined(name).exact_from) for name, query in step.changes if query}
        seen, kept = run.seen, None
        if run.late is not None:
            kept = sum(t.num_rows for found in self.late.steps.values() for t in found.values())
        return Told(results, seen.rows, seen.late, seen.untimed, since, kept)

    def close(self) -> dict[str, pa.Table]:
        """Answer all windows that are open."""
        found = self.run.close()
        if not self.run.program.counts_rows and self.run.state_rows:
            raise AssertionError(f"a closed stream keeps {self.run.state_rows} cells")
        return found


class Worker:
    """A Python process of Spark's: what it remembers from task to task."""

    def __init__(self) -> None:
        self.memory = [
            (cache, "_held", OrderedDict()),
            (partial, "_known", SimpleNamespace()),
            (spark_step.Carried, "_unpacked", {}),
            (spark_tables.CarriedTables, "_unpacked", {}),
        ]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """In the block, this process is that worker."""
        before = [(where, name, getattr(where, name)) for where, name, _ in self.memory]
        try:
            for where, name, value in self.memory:
                setattr(where, name, value)
            yield
        finally:
            for where, name, value in before:
                setattr(where, name, value)


_attempts = count()


@dataclass
class Session:
    """Stands for a SparkSession of a few workers; ``chance`` says which of them has a task."""

    workers: list[Worker]
    chance: random.Random = field(default_factory=random.Random)
    conf: Conf = field(default_factory=Conf)

    @property
    def sparkContext(self) -> Any:
        return SimpleNamespace(
            broadcast=lambda value: SimpleNamespace(value=value, destroy=lambda: None), defaultParallelism=2
        )

    def newSession(self) -> Session:
        return self

    def range(self, start: int, end: int, step: int, partitions: int) -> Frame:
        return Frame(self, [[] for _ in range(partitions)])


@dataclass
class Frame:
    """A DataFrame of parcels, made at once, partition by partition, each by any worker."""

    sparkSession: Session
    partitions: list[list[pa.RecordBatch]]

    def mapInArrow(self, task: Callable[[Iterator[pa.RecordBatch]], Any], schema: object) -> Frame:
        made, session = [], self.sparkSession
        for number, batches in enumerate(self.partitions):
            with session.chance.choice(session.workers).at_work():
                TaskContext._taskContext = Task(number, next(_attempts))  # type: ignore[assignment]
                try:
                    made.append(list(task(iter(batches))))
                finally:
                    TaskContext._taskContext = None
        return Frame(session, made)

    def repartitionById(self, buckets: int, column: str) -> Frame:
        made: list[list[pa.RecordBatch]] = [[] for _ in range(buckets)]
        for batch in (b for batches in self.partitions for b in batches):
            for at, bucket in enumerate(batch.column(column).to_pylist()):
                made[bucket].append(batch.slice(at, 1))
        return Frame(self.sparkSession, made)

    def toArrow(self) -> pa.Table:
        return pa.Table.from_batches([b for batches in self.partitions for b in batches])


@dataclass(frozen=True)
class Rows:
    """A batch as the input of map tasks: each has some rows one after the other."""

    table: pa.Table
    tasks: int

    def chunks(self, batches: Iterator[Any], task: int, program: Any) -> Iterator[Chunk]:
        size = -(-self.table.num_rows // self.tasks)
        mine = self.table.slice(task * size, size)
        if mine.num_rows:
            yield Chunk(mine)


@contextmanager
def without_tracks() -> Iterator[None]:
    """In the block, tasks do not collect garbage after their work: stories have thousands of them."""
    from weft.spark import tasks

    with patch.object(tasks, "tidy", lambda batches: batches):
        yield


class Delivered(MemorySink):
    """Keeps the results of each step, whatever the columns that a query of that name had before."""

    def check(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Anything goes."""


class Killed(Exception):
    """The end of a run."""


def die_at(point: str, store: SliceStore, sink: Delivered, make: Callable[[], object]) -> bool:
    """Make a step up to a point, if it gets there: versions are not always written. Whether it did."""
    owner: Any = sink if point == "deliver" else store
    name = point.split()[-1]
    work = getattr(owner, name)

    def dying(*args: Any) -> None:
        if not point.startswith("before"):
            work(*args)
        raise Killed

    setattr(owner, name, dying)
    try:
        make()
    except (Killed, JobError):
        return True
    finally:
        delattr(owner, name)
    return False


class Stored:
    """Steps as Spark makes them, driver and tasks in this process, state in files under a checkpoint."""

    def __init__(self, story: Story, place: str) -> None:
        self.story, self.place = story, place
        self.sink, self.late, self.batch_id = Delivered(), MemorySink(), -1
        self.now = {name: story.static(name, table.rows) for name, table in story.tables.items()}
        self.session = Session([Worker(), Worker()])
        self._start()

    def _start(self) -> None:
        """A run begins, or goes on: as ``weft.stream`` does it."""
        story = self.story
        store, tables = SliceStore(self.place), Tables(table_sources(story, self.now))
        buckets = store.last.buckets if store.last else story.buckets
        planner = LivePlanner(story.strategy, story.technique, buckets)
        program = _program(
            store, None, story.queries, planner, story.schema, TIME, False, buckets, tables, "UTC"
        )
        registry = Registry(program, planner, None, tables.schemas)
        before = store.version()
        if before is not None:
            registry.rebase(before.base, story.queries)
        session: Any = self.session
        self.steps = Steps(
            session,
            registry,
            store,
            self.sink,
            TimeRules(story.lateness),
            store.stream,
            story.queries,
            tables,
            self.late,
        )

    def step(self, step: Step) -> Told:
        """Take a step; where the run dies on the way, another makes the step again."""
        story, self.session.chance = self.story, random.Random(step.chance)
        if step.restart:
            if step.fresh:
                self.session = Session([Worker(), Worker()], self.session.chance)
            self._start()
        refresh(story, step, self.now, lambda *given: self.steps.tables.replace(*given, self.steps.program))
        ask(self.steps.registry, step.changes, {q.name for q in self.steps.program.queries})
        before = self.steps.store.last.seq if self.steps.store.last else 0
        if step.flush:
            self.steps.flush()
        else:
            self.batch_id += 1
            self._batch(step)
        last = self.steps.store.last
        found = self.sink.steps.get(last.seq, {}) if last and last.seq > before else {}
        joined = self.steps.registry.joined
        since = {name: micros(joined(name).exact_from) for name, query in step.changes if query}
        seen: dict[str, Any] = dict(last.seen) if last else {"rows": 0, "late": 0, "untimed": 0}
        kept = sum(t.num_rows for found in self.late.steps.values() for t in found.values())
        return Told(found, seen["rows"], seen["late"], seen["untimed"], since, kept)

    def _batch(self, step: Step) -> None:
        table, tasks = self.story.table(step), self.session.chance.choice((1, 1, 1, 2, 3))
        rows: Any = Part(lambda _: (self.session.range(0, tasks, 1, tasks), Rows(table, tasks), ()))
        with forced(step.way) if step.way else nullcontext():
            if step.dies is None:
                self.steps.batch(self.batch_id, rows)
                return
            make = lambda: self.steps.batch(self.batch_id, rows)  # noqa: E731
            if die_at(step.dies, self.steps.store, self.sink, make):
                self._start()
            self.steps.batch(self.batch_id, rows)

    def close(self) -> dict[str, pa.Table]:
        """Answer all windows that hold a row."""
        before = self.steps.store.last.seq if self.steps.store.last else 0
        self.steps.flush()
        last = self.steps.store.last
        return self.sink.steps.get(last.seq, {}) if last and last.seq > before else {}


__all__ = ["ENGINES", "Engine", "Row", "Told", "engine_of"]
