"""Stories told to the driver and the tasks of Spark, in this process, with state in files of a checkpoint."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark import TaskContext

from stories.engine import Told, ask, micros, refresh, table_sources
from stories.story import TIME, Step, Story
from support.one_process_spark import Conf, Task
from support.ways import forced
from weft.errors import JobError
from weft.expr import hashing
from weft.io import filesystem
from weft.io.files import Chunk
from weft.operators.lookups.tables import LookupTables
from weft.operators.watermark import TimeRules
from weft.operators.windows import prepare as partial
from weft.planning.live import LivePlanner
from weft.runner.registry import Registry
from weft.sinks import MemorySink
from weft.spark import broadcast as spark_tables
from weft.spark import cache, tasks
from weft.spark import step as spark_step
from weft.spark.committing import Delivery
from weft.spark.sources import BatchPart
from weft.spark.steps import Steps
from weft.spark.stream import InputColumns, _program
from weft.store.resplit import split_again
from weft.store.slice_store import SliceStore

SHARED_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


class Worker:
    """A Python process of Spark's: what it remembers from task to task."""

    def __init__(self) -> None:
        self.memory = [
            (cache, "_states", OrderedDict()),
            (partial, "_thread", SimpleNamespace()),
            (spark_step.ShippedProgram, "_unpacked", {}),
            (spark_tables.ShippedTables, "_unpacked", {}),
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
def checkpoint() -> Iterator[str]:
    """A place for a checkpoint; in the block nothing waits for disks, or collects garbage after a task."""
    place = tempfile.mkdtemp(prefix="weft-story-", dir=SHARED_MEMORY)
    unsynced = patch.object(filesystem.os, "fsync", lambda _: None)
    try:
        with unsynced, patch.object(tasks, "tidy", lambda batches: batches):
            yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


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

    def _start(self, buckets: int | None = None) -> None:
        """A run begins, or goes on, with so many buckets from now on: as ``weft.stream`` does it."""
        story = self.story
        store, tables = SliceStore(self.place), LookupTables(table_sources(story, self.now))
        buckets = buckets or (store.last.buckets if store.last else story.buckets)
        planner = LivePlanner(story.strategy, story.technique, buckets)
        columns = InputColumns(story.schema, TIME, "UTC", buckets)
        program = _program(store, None, story.queries, planner, columns, tables, strict=False)
        registry = Registry(program, planner, None, tables.schemas)
        if store.last is not None and (store.last.buckets, store.last.hash) != (buckets, hashing.NAME):
            store.last = split_again(store, store.last, program)
        before = store.version()
        if before is not None:
            registry.rebase(before.base, before.as_given(story.queries))
        session: Any = self.session
        self.steps = Steps(
            session,
            registry,
            store,
            Delivery(self.sink, store.stream, self.late),
            TimeRules(story.lateness),
            story.queries,
            tables,
        )

    def step(self, step: Step) -> Told:
        """Take a step; where the run dies on the way, another makes the step again."""
        story, self.session.chance = self.story, random.Random(step.chance)
        if step.restart:
            if step.fresh:
                self.session = Session([Worker(), Worker()], self.session.chance)
            self._start(step.buckets)
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
        joined = self.steps.registry.change
        since = {name: micros(joined(name).exact_from) for name, query in step.changes if query}
        seen: dict[str, Any] = dict(last.seen) if last else {"rows": 0, "late": 0, "untimed": 0}
        kept = sum(t.num_rows for found in self.late.steps.values() for t in found.values())
        return Told(found, seen["rows"], seen["late"], seen["untimed"], since, kept)

    def _batch(self, step: Step) -> None:
        table, tasks = self.story.table(step), self.session.chance.choice((1, 1, 1, 2, 3))
        rows: Any = BatchPart(lambda _: (self.session.range(0, tasks, 1, tasks), Rows(table, tasks), ()))
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
