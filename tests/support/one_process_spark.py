"""As much of Spark as a step needs, in this process: for many small runs of driver and tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

_attempts = count()


@dataclass
class Session:
    """Stands for a SparkSession."""

    conf: Any = field(default_factory=lambda: Conf())

    def newSession(self) -> Session:
        return self

    def range(self, start: int, end: int, step: int, partitions: int) -> Frame:
        return Frame(self, [[] for _ in range(partitions)])


class Conf(dict[str, str]):
    """The settings of the session."""

    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        self.pop(name, None)


@dataclass
class Task:
    """The facts that a task has about itself."""

    partition: int
    attempt: int

    def partitionId(self) -> int:
        return self.partition

    def taskAttemptId(self) -> int:
        return self.attempt


@dataclass
class Frame:
    """A DataFrame of parcels, made at once, partition by partition."""

    sparkSession: Session
    partitions: list[list[pa.RecordBatch]]

    def mapInArrow(self, task: Callable[[Iterator[pa.RecordBatch]], Any], schema: str) -> Frame:
        partitions = []
        for number, batches in enumerate(self.partitions):
            TaskContext._taskContext = Task(number, next(_attempts))  # type: ignore[assignment]
            try:
                partitions.append(list(task(iter(batches))))
            finally:
                TaskContext._taskContext = None
        return Frame(self.sparkSession, partitions)

    def repartitionById(self, buckets: int, column: str) -> Frame:
        partitions: list[list[pa.RecordBatch]] = [[] for _ in range(buckets)]
        for batch in (b for batches in self.partitions for b in batches):
            for at, bucket in enumerate(batch.column(column).to_pylist()):
                partitions[bucket].append(batch.slice(at, 1))
        return Frame(self.sparkSession, partitions)

    def toArrow(self) -> pa.Table:
        return pa.Table.from_batches([b for batches in self.partitions for b in batches])
