"""Sources that Spark's stream drives: a DataFrame's own batches, or names of files for tasks to read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pyspark.sql import DataFrame, Row, SparkSession

from weft.errors import JobError
from weft.io.files import Files, ListedFile
from weft.io.files.listing import each_once
from weft.operators.windows.program import Program
from weft.spark.batch_files import settle
from weft.spark.failure import surfaced
from weft.spark.inputs import FileRows, one_task, rows_of
from weft.spark.pace import Pace
from weft.spark.tasks import Input
from weft.store.slice_store import SliceStore

P = TypeVar("P", contravariant=True)
UNLIMITED_FILES = 1 << 62
"""Files of a step where it may have any number."""
NAMES = ("path", "length", "modificationTime")
ANY_AGE = "1000000d"
"""Spark passes over files that are older than this, beside the newest."""
NAMES_ONLY = "path string, modificationTime timestamp, length bigint, content binary"


Rows = Callable[[P], tuple[DataFrame, Any, tuple[str, ...]]]
"""Gives a step's rows for a program: a frame, how its tasks read them, and the files left out."""


@dataclass(frozen=True, slots=True)
class BatchPart(Generic[P]):
    """The part of a batch that one step takes; ``taken`` is how far it is taken then, None: to its end."""

    rows: Rows[P]
    taken: int | None = None


class Batches(Protocol[P]):
    """A source of micro-batches."""

    frame: DataFrame

    def parts(self, batch: DataFrame, batch_id: int, store: SliceStore) -> Iterator[BatchPart[P]]:
        """One of Spark's batches as one or more steps, without those that a checkpoint has.

        The next is asked for when the step is done.
        """
        ...


class FrameBatches:
    """Rows of a streaming DataFrame, handed from the JVM to Python."""

    def __init__(self, frame: DataFrame) -> None:
        # With all its columns: a query that is added later may read any of them.
        self.frame = frame

    def parts(self, batch: DataFrame, batch_id: int, store: SliceStore) -> Iterator[BatchPart[Program]]:
        """The columns of the batch that are read, in one step."""
        yield BatchPart(lambda program: (*rows_of(batch, program), ()))


class FilesBatches:
    """Files as they arrive: Spark finds them and keeps offsets, weft's own tasks read them.

    Spark's ``binaryFile`` source, asked for names and lengths only, never opens a file. A batch has all files
    that are new; steps take as many of them, oldest first, as they may have and a ``pace`` allows.
    """

    def __init__(self, files: Files, spark: SparkSession, pace: Pace | None = None) -> None:
        self.files, self.spark, self.pace = files, spark, pace
        self.frame = names_of(files, spark)

    def parts(self, batch: DataFrame, batch_id: int, store: SliceStore) -> Iterator[BatchPart[Program]]:
        """The batch's files, all at once, or as many as there may be and take as long as was asked for."""
        files = in_order(self.files, batch.collect())
        most, taken = self.files.max_files_per_batch or UNLIMITED_FILES, store.taken(batch_id)
        if taken or len(files) > (1 if self.pace else most):
            files = settle(store, batch_id, {"": files})[""]
        while taken < len(files) or not files:
            sizes = [f.size for f in files[taken : taken + most]]
            now = files[taken : taken + (self.pace.take(sizes) if self.pace else most)]
            taken += len(now)
            began = time.perf_counter()
            yield BatchPart(self._rows(batch, now), None if taken == len(files) else taken)
            if not files:
                return
            if self.pace is not None:
                seconds = time.perf_counter() - began
                self.pace.learn(sum(f.size for f in now), seconds, full=taken < len(files))

    def _rows(self, batch: DataFrame, files: Sequence[ListedFile]) -> Rows[Program]:
        """The files, shared out to tasks."""

        def rows(program: Program) -> tuple[DataFrame, Input, tuple[str, ...]]:
            tasks = self.spark.sparkContext.defaultParallelism
            shares, skipped = self.files.splits([f for f in files if f.size], tasks)
            return one_task(batch.sparkSession, len(shares)), FileRows(self.files, shares), tuple(skipped)

        return rows


def in_order(files: Files, rows: Iterable[Row]) -> Sequence[ListedFile]:
    """Files that Spark has listed, each once, by time and name: Spark orders them by time alone."""
    listed = sorted((row.modificationTime, row.path, row.length) for row in rows)
    return each_once([ListedFile(path, size) for _, path, size in listed], files.places[0])


def names_of(files: Files, spark: SparkSession) -> DataFrame:
    """A stream of the names, lengths and times of files."""
    if len(files.places) != 1:
        raise JobError("a stream of files needs one path; give a folder or a glob, not a list")
    reader = spark.readStream.format("binaryFile").schema(NAMES_ONLY).option("recursiveFileLookup", "true")
    with surfaced():
        return reader.option("maxFileAge", ANY_AGE).load(files.places[0]).select(*NAMES)
