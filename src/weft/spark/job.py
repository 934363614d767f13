"""One Spark job: rows to partials in map tasks, a shuffle by bucket, partials to results in bucket tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from weft.operators.windows.program import Program
from weft.spark.broadcast import ShippedTables
from weft.spark.failure import surfaced
from weft.spark.inputs import NoRows, one_task
from weft.spark.outcome import Outcome, outcome_of
from weft.spark.payload import ROWS, from_batches
from weft.spark.session import shipping
from weft.spark.step import ShippedProgram, Step
from weft.spark.tasks import BucketTask, Input, MapTask

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def plan_job(
    frame: DataFrame, rows: Input, program: ShippedProgram[Program], step: Step, tables: ShippedTables
) -> DataFrame:
    """Plan the job as a DataFrame of parcels: notes and results."""
    return plan_tasks(frame, MapTask(program, step, rows, tables), BucketTask(program, step), step.buckets)


def plan_tasks(frame: DataFrame, map_task: Task, bucket_task: Task, buckets: int) -> DataFrame:
    """Plan map tasks over a frame's partitions, and a task for each bucket behind them."""
    return frame.mapInArrow(map_task, ROWS).repartitionById(buckets, "bucket").mapInArrow(bucket_task, ROWS)


def run_job(
    frame: DataFrame,
    rows: Input,
    program: Program,
    shipped: ShippedProgram[Program],
    step: Step,
    tables: ShippedTables,
) -> Outcome:
    """Run a job and gather the reports and results of its buckets."""
    with surfaced(), shipping(frame.sparkSession):
        job = plan_job(frame, rows, shipped, step, tables)
        parcels = list(from_batches([job.toArrow()]))
    if not parcels:
        # Spark plans nothing at all for a frame without partitions; the buckets must run all the same.
        return run_job(one_task(frame.sparkSession), NoRows(), program, shipped, step, tables)
    return outcome_of(parcels, program.queries)
