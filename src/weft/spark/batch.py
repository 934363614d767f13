"""``share``: any mix of queries over rows that are there, in one pass."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Unpack

import pyarrow as pa
from pyspark.sql import DataFrame

from weft.errors import JobError
from weft.io.files import Files
from weft.io.sources.ranges import Ranged
from weft.operators.lookups.tables import LookupTables
from weft.operators.watermark import TimeRules
from weft.planning.plan import Plan
from weft.runner.clock import StepTime, ending
from weft.runner.options import filled, with_options
from weft.runner.parcels import ParcelKind
from weft.runner.program import Program
from weft.runner.request import StepRequest
from weft.spark.failure import surfaced
from weft.spark.frames import Frames, frame_of, struct_of
from weft.spark.options import ShareOptions
from weft.spark.parcels import from_batches
from weft.spark.session import shipping, zone_of
from weft.spark.setup import check_buckets, compiler_of, queries_of, sources_by_name
from weft.spark.shipping import ShippedProgram, TableShipper
from weft.spark.step_job import StepJob
from weft.spark.stream_sources import JobRows, rows_now
from weft.sql.read import QueryInput

log = logging.getLogger(__name__)

SMALL_RESULT_BYTES = 64 << 20
"""Bytes of results up to which they come to the driver; larger ones stay where they are."""

COLLECT_BYTES_PER_JOB = 256 << 20
"""Bytes of results, about, that one job brings to the driver where all are asked for."""


@with_options(ShareOptions)
@surfaced()
def share(
    source: DataFrame | Files | Ranged | Mapping[str, DataFrame | Files | Ranged],
    queries: Iterable[QueryInput] | Plan | str,
    time: str | Mapping[str, str],
    **options: Unpack[ShareOptions],
) -> Frames:
    """Answer all queries over a DataFrame, or over files or ranges, now and in one pass; one DataFrame each.

    Joins, and queries over several streams, are given a mapping from each stream to its source. Every window
    that holds a row is answered, and every pair of rows that joins. Local times are those of the session's
    time zone, whatever the source.
    """
    options = filled(ShareOptions, options, "share")
    streams = sources_by_name(source, time, options["spark"])
    for frame in streams.sources.values():
        if isinstance(frame, DataFrame) and frame.isStreaming:
            raise JobError("this DataFrame is a stream; use weft.stream for it")
    session, lookups = streams.session, LookupTables(options["tables"])
    buckets = check_buckets(options["buckets"], session)
    asked, plan = queries_of(queries), queries if isinstance(queries, Plan) else None
    program = compiler_of(streams, asked, plan, lookups, buckets, zone_of(session), options).compile(asked)
    rows = rows_now(streams.sources, session, program.reads)
    _warn(rows.skipped)
    rules = dict.fromkeys(program.schemas, TimeRules(None))
    request = StepRequest(
        StepTime(rules, until=ending(program.stages)), buckets, largest=SMALL_RESULT_BYTES // buckets
    )
    tables = TableShipper(session, lookups).ship(program.lookups)
    job = StepJob(program, ShippedProgram(program), request, tables)
    outcome = job.run(rows.frame, rows.input)
    _warn(outcome.first["skipped"])
    names = tuple(q.name for q in program.queries)
    sizes = [report["result_bytes"] for report in outcome.reports]
    if max(sizes) > SMALL_RESULT_BYTES // buckets:
        far = _FarResults(replace(job, request=replace(request, largest=None)), rows, sum(sizes))
        return Frames(far, names, far.collect)
    held = {
        name: outcome.results[name].cast(schema) if name in outcome.results else schema.empty_table()
        for name, schema in program.results.items()
    }
    return Frames(lambda name: frame_of(held[name], session), names, lambda: dict(held))


def _warn(skipped: Iterable[str]) -> None:
    for path in skipped:
        log.warning("file '%s' cannot be read, and is left out", path)


class _FarResults:
    """Results that the workers hold as parcels, each query's made into a DataFrame when asked for."""

    def __init__(self, job: StepJob, rows: JobRows, size: int) -> None:
        self.program, self.size = job.program, size
        self.numbers = {query.name: number for number, query in enumerate(self.program.queries)}
        with surfaced(), shipping(rows.frame.sparkSession):
            parcels = job.plan(rows.frame, rows.input).where(f"kind = {ParcelKind.RESULT.value}")
            self.parcels = parcels.localCheckpoint()

    def __call__(self, name: str) -> DataFrame:
        schema, parcels = self.program.result_schema(name), self.parcels
        rows = parcels.where(parcels["part"] == name)
        return rows.mapInArrow(Opened(schema, ShippedProgram(self.program)), struct_of(schema))

    def collect(self) -> dict[str, pa.Table]:
        """Collect all results, in as few jobs as Spark's limit of what one brings to the driver allows."""
        results = {name: [schema.empty_table()] for name, schema in self.program.results.items()}
        jobs = -(-self.size // COLLECT_BYTES_PER_JOB) or 1
        for job in range(jobs):
            names = [name for name, number in self.numbers.items() if number % jobs == job]
            with surfaced():
                rows = self.parcels.where(self.parcels["part"].isin(names)).toArrow()
            for parcel in from_batches([rows], self.program):
                tables = results[parcel.part]
                tables.append(parcel.content.cast(tables[0].schema))
        return {name: pa.concat_tables(tables) for name, tables in results.items()}


@dataclass(frozen=True)
class Opened:
    """Parcels of results in, results out."""

    schema: pa.Schema
    program: ShippedProgram

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark with the parcels of one partition."""
        program: Program = self.program.unpack()
        for parcel in from_batches(batches, program):
            yield from parcel.content.cast(self.schema).to_batches()
