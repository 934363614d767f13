"""What Spark's stream drives: a DataFrame's own batches, or batches of names of files for tasks to read."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from pyspark.sql import DataFrame, SparkSession

from weft.engine.program import Program
from weft.errors import JobError
from weft.files import Files, Found
from weft.spark.failure import surfaced
from weft.spark.inputs import FileRows
from weft.spark.job import one_task, rows_of
from weft.spark.tasks import Input

P = TypeVar("P", contravariant=True)
NAMES_ONLY = "path string, modificationTime timestamp, length bigint, content binary"


class Batches(Protocol[P]):
    """A source of micro-batches."""

    frame: DataFrame

    def rows(self, batch: DataFrame, program: P) -> tuple[DataFrame, Any, tuple[str, ...]]:
        """The rows of one of Spark's batches: a frame, how tasks read it, and the files left out."""
        ...


class FrameBatches:
    """Rows of a streaming DataFrame, handed from the JVM to Python."""

    def __init__(self, frame: DataFrame) -> None:
        # With all its columns: a query that joins later may read any of them.
        self.frame = frame

    def rows(self, batch: DataFrame, program: Program) -> tuple[DataFrame, Input, tuple[str, ...]]:
        """The columns of the batch that are read."""
        return *rows_of(batch, program), ()


class FilesBatches:
    """Files as they arrive: Spark finds them and keeps offsets, weft's own tasks read them.

    Spark's ``binaryFile`` source, asked for names and lengths only, never opens a file.
    """

    def __init__(self, files: Files, spark: SparkSession) -> None:
        self.files, self.spark = files, spark
        self.frame = names_of(files, spark)

    def rows(self, batch: DataFrame, program: Program) -> tuple[DataFrame, Input, tuple[str, ...]]:
        """The batch's files, shared out to tasks."""
        found = sorted((row.path, row.length) for row in batch.collect())
        files = [Found(path, size) for path, size in found if size]
        tasks = self.spark.sparkContext.defaultParallelism
        shares, skipped = self.files.splits(files, tasks)
        return one_task(batch.sparkSession, len(shares)), FileRows(self.files, shares), tuple(skipped)


def names_of(files: Files, spark: SparkSession) -> DataFrame:
    """A stream of the names and lengths of files."""
    if len(files.places) != 1:
        raise JobError("a stream of files needs one path; give a folder or a glob, not a list")
    reader = spark.readStream.format("binaryFile").schema(NAMES_ONLY).option("recursiveFileLookup", "true")
    if files.max_files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", files.max_files_per_batch)
    with surfaced():
        return reader.load(files.places[0]).select("path", "length")
