"""As much of Spark as a story needs, in this process: workers that remember, and a place for a checkpoint."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark import TaskContext

from support.one_process_spark import Conf, Task
from weft.io import filesystem
from weft.operators.windows import prepare as partial
from weft.runner import state_cache
from weft.spark import shipping, step_tasks

SHARED_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


class Worker:
    """A Python process of Spark's: what it remembers from task to task."""

    def __init__(self) -> None:
        self.memory = [
            (state_cache, "_states", OrderedDict()),
            (partial, "_thread", SimpleNamespace()),
            (shipping.ShippedProgram, "_unpacked", {}),
            (shipping.ShippedTables, "_unpacked", {}),
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


@contextmanager
def checkpoint() -> Iterator[str]:
    """A place for a checkpoint; in the block nothing waits for disks, or collects garbage after a task."""
    place = tempfile.mkdtemp(prefix="weft-story-", dir=SHARED_MEMORY)
    unsynced = patch.object(filesystem.os, "fsync", lambda _: None)
    try:
        with unsynced, patch.object(step_tasks, "tidy", lambda batches: batches):
            yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
