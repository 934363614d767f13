"""``share``: many window queries over one DataFrame, in one pass."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from weft.builder import QueryBuilder
from weft.engine.program import Program
from weft.errors import JobError
from weft.files import Files
from weft.files.chunk import END
from weft.plan import Plan
from weft.query import JoinQuery, Query
from weft.ranges import Ranged, between
from weft.spark.failure import surfaced
from weft.spark.frames import Frames, frame_of, struct_of
from weft.spark.inputs import FileRows
from weft.spark.job import one_task, plan_job, rows_of, run_job
from weft.spark.payload import from_batches
from weft.spark.prepare import check_buckets, prepare, session_of
from weft.spark.ranges import range_rows
from weft.spark.session import shipping, zone_of
from weft.spark.step import Carried, Step
from weft.spark.tables import CarriedTables, Sender
from weft.spark.tasks import Input
from weft.tables import Tables, TableSource

log = logging.getLogger(__name__)

SMALL = 64 << 20
"""Bytes of results up to which they come to the driver; larger ones stay where they are."""

AT_ONCE = 256 << 20
"""Bytes of results, about, that one job brings to the driver where all are asked for."""


@surfaced()
def share(
    source: DataFrame | Files | Ranged,
    queries: Iterable[Query | QueryBuilder | JoinQuery] | Plan,
    time: str,
    *,
    spark: SparkSession | None = None,
    strategy: str = "share-all",
    technique: str = "auto",
    buckets: int | None = None,
    strict: bool = False,
    tables: Mapping[str, TableSource] | None = None,
) -> Frames:
    """Answer all queries over a DataFrame, or over files or ranges, now and in one pass; one DataFrame each.

    Every window that holds a row is answered. ``strict`` lets a value that cannot be computed stop the
    job instead of being null. ``spark`` is the session for files, where none is running.
    ``tables`` are the static tables that queries join, by name. Local times are those of the session's time
    zone, whatever the source.
    """
    session = session_of(source, spark)
    if isinstance(source, DataFrame) and source.isStreaming:
        raise JobError("this DataFrame is a stream; use weft.stream for it")
    buckets = check_buckets(buckets, session)
    beside = Tables(tables)
    program = prepare(
        source,
        queries,
        time,
        strategy=strategy,
        technique=technique,
        nodes=buckets,
        strict=strict,
        tables=beside,
        zone=zone_of(session),
    )
    frame, input = (
        rows_of(source, program) if isinstance(source, DataFrame) else _read_by_tasks(source, session)
    )
    carried = Carried(program)
    sent = Sender(session, beside).carried(program)
    step = Step(buckets, until=END, largest=SMALL // buckets)
    outcome = run_job(frame, input, program, carried, step, sent)
    _warn(outcome.reports[0]["skipped"])
    names = tuple(q.name for q in program.queries)
    sizes = [report["results"] for report in outcome.reports]
    if max(sizes) > SMALL // buckets:
        far = _Far(frame, input, program, carried, Step(buckets, until=END), sent, sum(sizes))
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


class _Far:
    """Makes a query's results, held by the workers as parcels, into a DataFrame."""

    def __init__(
        self,
        frame: DataFrame,
        input: Input,
        program: Program,
        carried: Carried[Program],
        step: Step,
        tables: CarriedTables,
        size: int,
    ) -> None:
        self.program, self.size = program, size
        with surfaced(), shipping(frame.sparkSession):
            job = plan_job(frame, input, carried, step, tables)
            self.parcels = job.where("tag >= 0").localCheckpoint()

    def __call__(self, name: str) -> DataFrame:
        number = [q.name for q in self.program.queries].index(name)
        schema = self.program.result_schema(name)
        return self.parcels.where(f"tag = {number}").mapInArrow(Opened(schema), struct_of(schema))

    def collect(self) -> dict[str, pa.Table]:
        """All results, in as few jobs as Spark's limit for what a job may bring to the driver allows."""
        results = {q.name: [self.program.result_schema(q.name).empty_table()] for q in self.program.queries}
        jobs = -(-self.size // AT_ONCE) or 1
        for job in range(jobs):
            with surfaced():
                parcels = from_batches([self.parcels.where(f"tag % {jobs} = {job}").toArrow()])
            for parcel in parcels:
                found = results[self.program.queries[parcel.tag].name]
                found.append(parcel.table.cast(found[0].schema))
        return {name: pa.concat_tables(found) for name, found in results.items()}


@dataclass(frozen=True)
class Opened:
    """Parcels of results in, results out."""

    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark with the parcels of one partition."""
        for parcel in from_batches(batches):
            yield from parcel.table.cast(self.schema).to_batches()
