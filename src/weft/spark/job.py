"""One Spark job: rows to partials in map tasks, a shuffle by bucket, partials to results in bucket tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from weft.engine.late import NAME as LATE_ROWS
from weft.engine.late import REJECTED_ROWS
from weft.engine.partial import Seen
from weft.engine.program import Program
from weft.query import JoinQuery, Query
from weft.spark.failure import surfaced
from weft.spark.inputs import NoRows, SparkRows
from weft.spark.payload import LATE, NOTE, REJECTED, ROWS, Parcel, from_batches
from weft.spark.session import shipping
from weft.spark.step import Carried, Step
from weft.spark.tables import CarriedTables
from weft.spark.tasks import BucketTask, Input, MapTask


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a job gave: results of the queries that have any, what was seen, each bucket's report, and, where
    asked for, late rows and those that could not be read, by the names of their tables. ``heard`` says when
    each partition, or stream, was last heard of. Where queries ``failed`` it has given nothing else, and is
    to be run without them."""

    results: dict[str, pa.Table]
    seen: Seen
    watermark: int | None
    reports: tuple[dict[str, Any], ...]
    late: Mapping[str, pa.Table] = field(default_factory=dict)
    watermarks: Mapping[str, int | None] = field(default_factory=dict)
    heard: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)


Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def plan_job(
    frame: DataFrame, input: Input, program: Carried[Program], step: Step, tables: CarriedTables
) -> DataFrame:
    """The job as a DataFrame of parcels: notes and results."""
    return plan_tasks(frame, MapTask(program, step, input, tables), BucketTask(program, step), step.buckets)


def plan_tasks(frame: DataFrame, map: Task, bucket: Task, buckets: int) -> DataFrame:
    """Map tasks over a frame's partitions, and a task for each bucket behind them."""
    return frame.mapInArrow(map, ROWS).repartitionById(buckets, "bucket").mapInArrow(bucket, ROWS)


def run_job(
    frame: DataFrame,
    input: Input,
    program: Program,
    carried: Carried[Program],
    step: Step,
    tables: CarriedTables,
) -> Outcome:
    """Run a job and gather what its buckets say."""
    with surfaced(), shipping(frame.sparkSession):
        job = plan_job(frame, input, carried, step, tables)
        parcels = list(from_batches([job.toArrow()]))
    if not parcels:
        # Spark plans nothing at all for a frame without partitions; the buckets must run all the same.
        return run_job(one_task(frame.sparkSession), NoRows(), program, carried, step, tables)
    return outcome_of(parcels, program.queries)


def rows_of(frame: DataFrame, program: Program) -> tuple[DataFrame, Input]:
    """A DataFrame's rows as a job's input: the columns that are read, under names that need no quotes."""
    quoted = ["`" + name.replace("`", "``") + "`" for name in program.columns]
    return frame.select(*(col(name).alias(f"c{i}") for i, name in enumerate(quoted))), SparkRows()


def one_task(spark: SparkSession, tasks: int = 1) -> DataFrame:
    """A frame that stands for so many tasks that need no rows of Spark's."""
    return spark.range(0, tasks, 1, tasks)


def outcome_of(parcels: Sequence[Parcel], queries: Sequence[Query | JoinQuery]) -> Outcome:
    """What the parcels of bucket tasks say."""
    reports = [p.note for p in sorted(parcels, key=lambda p: p.bucket) if p.tag == NOTE]
    failed = {name: message for report in reports for name, message in report.get("failed", {}).items()}
    if failed:
        return Outcome({}, Seen(), None, tuple(reports), failed=failed)
    tables: dict[int, list[pa.Table]] = {}
    for parcel in sorted(parcels, key=lambda p: (p.tag, p.bucket)):
        if parcel.tag != NOTE:
            tables.setdefault(parcel.tag, []).append(parcel.table)
    kept = {LATE_ROWS: LATE, REJECTED_ROWS: REJECTED}
    late = {name: pa.concat_tables(tables.pop(tag)) for name, tag in kept.items() if tag in tables}
    results = {queries[tag].name: pa.concat_tables(found) for tag, found in tables.items()}
    one = reports[0]  # all buckets have heard the same of the rows
    seen, marks = Seen(**one["seen"]), one.get("watermarks", {})
    return Outcome(results, seen, one["watermark"], tuple(reports), late, marks, one["heard"])
