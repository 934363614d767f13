"""The three tasks of a step's job: each around one of the bodies that both engines share."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from weft.runner.memory import keep_memory
from weft.runner.request import StepRequest
from weft.runner.tasks import prepare_rows, relay, run_bucket
from weft.spark.parcels import from_batches, to_batches
from weft.spark.shipping import ShippedProgram, ShippedTables
from weft.spark.stream_inputs import StreamInput

SLOW_COLLECTION_SECONDS = 0.003


@dataclass(frozen=True)
class MapTask:
    """Rows in, pieces out."""

    program: ShippedProgram
    request: StepRequest
    input: StreamInput
    tables: ShippedTables

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark with the rows of one partition."""
        program, task = self.program.unpack(), _partition()
        chunks = self.input.chunks(batches, task, program.reads)
        parcels = prepare_rows(program, self.request, chunks, self.tables.unpack(program), task)
        return tidy(to_batches(parcels, program))


@dataclass(frozen=True)
class RelayTask:
    """Pieces in, what they come to with one bucket's state out."""

    program: ShippedProgram
    request: StepRequest
    round_number: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark with the parcels of one bucket."""
        program = self.program.unpack()
        parcels = relay(
            program, self.request, self.round_number, _partition(), from_batches(batches, program)
        )
        return tidy(to_batches(parcels, program))


@dataclass(frozen=True)
class BucketTask:
    """Pieces in, a report out; state and answers are in the checkpoint's files, or go to the driver."""

    program: ShippedProgram
    request: StepRequest
    level: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark with the parcels of one bucket."""
        program = self.program.unpack()
        parcels = run_bucket(
            program,
            self.request,
            self.level,
            _partition(),
            from_batches(batches, program),
            str(_attempt()),
        )
        return tidy(to_batches(parcels, program))


def _partition() -> int:
    """Return the number of this task's partition."""
    context = TaskContext.get()
    return context.partitionId() if context else 0


def _attempt() -> int:
    """Return the number of this attempt at a task."""
    context = TaskContext.get()
    return context.taskAttemptId() if context else 0


def tidy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Keep memory for the next tasks, and Spark's ``gc.collect()`` after one from walking through all of it.

    What imports and compiled kernels brought lives as long as the worker. Once collecting takes long,
    what is left after it is set aside for good; only garbage in cycles would stay, and that is gone by then.
    """
    keep_memory()
    yield from batches
    began = time.perf_counter()
    gc.collect()
    if time.perf_counter() - began > SLOW_COLLECTION_SECONDS:
        gc.freeze()
