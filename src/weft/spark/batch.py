"""``share``: many window queries over one DataFrame, in one pass."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Unpack

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from weft.errors import JobError
from weft.io.files import Files
from weft.io.sources.ranges import Ranged, between
from weft.model.instants import END_OF_TIME
from weft.model.join import JoinQuery
from weft.model.query import Query
from weft.operators.lookups.tables import LookupTables
from weft.operators.windows.program import Program
from weft.planning.plan import Plan
from weft.runner.options import filled, with_options
from weft.spark.broadcast import ShippedTables, TableBroadcaster
from weft.spark.compiling import check_buckets, prepare, session_of
from weft.spark.failure import surfaced
from weft.spark.frames import Frames, frame_of, struct_of
from weft.spark.inputs import FileRows, one_task, rows_of
from weft.spark.job import plan_job, run_job
from weft.spark.options import ShareOptions
from weft.spark.payload import from_batches
from weft.spark.ranges import range_rows
from weft.spark.session import shipping, zone_of
from weft.spark.step import ShippedProgram, Step
from weft.spark.tasks import Input
from weft.sql.builder import QueryBuilder

log = logging.getLogger(__name__)

SMALL_RESULT_BYTES = 64 << 20
"""Bytes of results up to which they come to the driver; larger ones stay where they are."""

COLLECT_BYTES_PER_JOB = 256 << 20
"""Bytes of results, about, that one job brings to the driver where all are asked for."""


@with_options(ShareOptions)
@surfaced()
def share(
    source: DataFrame | Files | Ranged,
    queries: Iterable[Query | QueryBuilder | JoinQuery] | Plan,
    time: str,
    **options: Unpack[ShareOptions],
) -> Frames:
    """Answer all queries over a DataFrame, or over files or ranges, now and in one pass; one DataFrame each.

    Every window that holds a row is answered. Local times are those of the session's time zone, whatever the
    source.
    """
    options = filled(ShareOptions, options, "share")
    session = session_of(source, options["spark"])
    if isinstance(source, DataFrame) and source.isStreaming:
        raise JobError("this DataFrame is a stream; use weft.stream for it")
    options["buckets"] = buckets = check_buckets(options["buckets"], session)
    lookups = LookupTables(options["tables"])
    program = prepare(source, queries, time, lookups, zone_of(session), options)
    frame, read = (
        rows_of(source, program) if isinstance(source, DataFrame) else _read_by_tasks(source, session)
    )
    shipped = ShippedProgram(program)
    tables = TableBroadcaster(session, lookups).ship(program)
    step = Step(buckets, until=END_OF_TIME, largest=SMALL_RESULT_BYTES // buckets)
    outcome = run_job(frame, read, program, shipped, step, tables)
    _warn(outcome.reports[0]["skipped"])
    names = tuple(q.name for q in program.queries)
    sizes = [report["results"] for report in outcome.reports]
    if max(sizes) > SMALL_RESULT_BYTES // buckets:
        far = _FarResults(frame, read, program, shipped, Step(buckets, until=END_OF_TIME), tables, sum(sizes))
        return Frames(far, names, far.collect)
    schemas = {name: program.result_schema(name) for name in names}
    held = {
        name: outcome.results[name].cast(schema) if name in outcome.results else schema.empty_table()
        for name, schema in schemas.items()
    }
    return Frames(lambda name: frame_of(held[name], session), names, lambda: dict(held))


def _read_by_tasks(source: Files | Ranged, spark: SparkSession) -> tuple[DataFrame, Input]:
    if isinstance(source, Ranged):
        start = source.first()
        ranges = between(start, source.latest(start))
        source.check(ranges)
        return range_rows(source, ranges, spark)
    shares, skipped = source.splits(source.find(), spark.sparkContext.defaultParallelism)
    _warn(skipped)
    return one_task(spark, len(shares)), FileRows(source, shares)


def _warn(skipped: Iterable[str]) -> None:
    for path in skipped:
        log.warning("file '%s' cannot be read, and is left out", path)


class _FarResults:
    """Results that the workers hold as parcels, each query's made into a DataFrame when asked for."""

    def __init__(
        self,
        frame: DataFrame,
        read: Input,
        program: Program,
        shipped: ShippedProgram[Program],
        step: Step,
        tables: ShippedTables,
        size: int,
    ) -> None:
        self.program, self.size = program, size
        with surfaced(), shipping(frame.sparkSession):
            job = plan_job(frame, read, shipped, step, tables)
            self.parcels = job.where("tag >= 0").localCheckpoint()

    def __call__(self, name: str) -> DataFrame:
        number = [q.name for q in self.program.queries].index(name)
        schema = self.program.result_schema(name)
        return self.parcels.where(f"tag = {number}").mapInArrow(Opened(schema), struct_of(schema))

    def collect(self) -> dict[str, pa.Table]:
        """All results, in as few jobs as Spark's limit for what a job may bring to the driver allows."""
        results = {q.name: [self.program.result_schema(q.name).empty_table()] for q in self.program.queries}
        jobs = -(-self.size // COLLECT_BYTES_PER_JOB) or 1
        for job in range(jobs):
            with surfaced():
                parcels = from_batches([self.parcels.where(f"tag % {jobs} = {job}").toArrow()])
            for parcel in parcels:
                tables = results[self.program.queries[parcel.tag].name]
                tables.append(parcel.table.cast(tables[0].schema))
        return {name: pa.concat_tables(tables) for name, tables in results.items()}


@dataclass(frozen=True)
class Opened:
    """Parcels of results in, results out."""

    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark with the parcels of one partition."""
        for parcel in from_batches(batches):
            yield from parcel.table.cast(self.schema).to_batches()
