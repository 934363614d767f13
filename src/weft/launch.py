"""Runs a `Job` on Spark or in this process: its source and sink made, its queries planned, progress told."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from weft.batches import as_chunks
from weft.define import load_aggregates
from weft.duration import format_duration, parse_trigger
from weft.engine.changes import Change, Failure
from weft.engine.compile import compile_plan
from weft.engine.program import Program
from weft.engine.watermark import TimeRules
from weft.errors import JobError, WeftError
from weft.expr import UTC
from weft.files import Chunk, Files
from weft.generated import Generated
from weft.job import (
    FromFiles,
    FromGenerator,
    FromKafka,
    FromSpark,
    FromTable,
    Job,
)
from weft.job_sinks import (
    ToConsole,
    ToFunction,
    ToJson,
    ToKafka,
    ToMemory,
    ToParquet,
    ToPostgres,
    ToSeveral,
    ToSink,
    ToSome,
    check_choices,
)
from weft.joins.explain import read_shape
from weft.joins.live import Streams, read_join
from weft.joins.plan import JoinPlan
from weft.joins.state import Joins
from weft.kafka import Kafka
from weft.local import LocalRun
from weft.local_joins import LocalJoins
from weft.local_stream import LocalStream
from weft.names import check_names
from weft.optimize import LivePlanner, plan
from weft.plan import Plan
from weft.progress import Progress
from weft.query import JoinQuery, Query
from weft.report import Report
from weft.sinks import (
    CheckingSink,
    ConsoleSink,
    FunctionSink,
    JsonSink,
    KafkaSink,
    MemorySink,
    Only,
    ParquetSink,
    PostgresSink,
    Sink,
    Sinks,
    WebhookSink,
)
from weft.sql import sql
from weft.tables import Tables, TableSource, format_of

PAUSE = 0.5
"""Seconds between two looks for new rows, where the job does not say."""


class RunFailed(WeftError):
    """A job that was right to start, and failed on the way: the whole of it, or some of its queries alone."""


class Running(Protocol):
    """A stream that runs, on Spark or in this process."""

    @property
    def program(self) -> Program | Joins: ...
    @property
    def plan(self) -> Plan | JoinPlan: ...
    @property
    def is_active(self) -> bool: ...
    @property
    def exception(self) -> WeftError | None: ...
    @property
    def failed(self) -> Mapping[str, Failure]: ...
    def queries(self) -> tuple[Query, ...] | tuple[JoinQuery, ...]: ...
    def joined(self, name: str) -> Change: ...
    def add(self, query: Any, name: str | None = None) -> Future[Change]: ...
    def drop(self, name: str) -> Future[Change]: ...
    def replace(self, query: Any, name: str | None = None) -> Future[Change]: ...
    def await_done(self, timeout: float | None = None) -> bool: ...
    def stop(self) -> None: ...


def run(job: Job, engine: str, report: Report, master: str | None = None, sink: Sink | None = None) -> Sink:
    """Run a job to its end; returns the sink, closed. RunFailed at the end names the queries that failed.

    >>> from rich.console import Console
    >>> from weft.job import parse
    >>> job = parse('''
    ... [source]
    ... kind = "generator"
    ... rows = 1000
    ... [stream]
    ... time = "ts"
    ... [queries]
    ... sql = "SELECT count(*) AS n FROM trades [RANGE '1 min']"
    ... [sink]
    ... kind = "memory"
    ... ''')
    >>> run(job, "local", Report(Console(quiet=True))).tables["q1"].column("n").to_pylist()
    [1000]
    """
    sink = make_sink(job, report) if sink is None else sink
    with start(job, engine, sink, report, master) as running:
        try:
            running.await_done()
        except WeftError as error:
            raise RunFailed(str(error)) from error
        failed = running.failed
    if failed:
        said = "; ".join(failure.message for failure in failed.values())
        raise RunFailed(f"{_count(len(failed))} failed, and all others have their results: {said}")
    return sink


def _count(queries: int) -> str:
    return "1 query" if queries == 1 else f"{queries} queries"


def make_sink(job: Job, report: Report) -> Sink:
    """The job's sink."""
    return _made(job.sink, report)


def _made(wanted: ToSink, report: Report) -> Sink:
    match wanted:
        case ToSeveral():
            return Sinks(*(_made(each, report) for each in wanted.sinks))
        case ToSome():
            return Only(_made(wanted.sink, report), wanted.queries)
        case ToParquet():
            return ParquetSink(wanted.path)
        case ToJson():
            return JsonSink(wanted.path)
        case ToConsole():
            return ConsoleSink(wanted.rows, report.console)
        case ToMemory():
            return MemorySink()
        case ToPostgres():
            return PostgresSink(wanted.address, schema=wanted.schema, prefix=wanted.prefix)
        case ToKafka():
            return KafkaSink(wanted.servers, wanted.topic, steps=wanted.steps, options=wanted.options)
        case ToFunction():
            return FunctionSink(wanted.load())
    return WebhookSink(
        wanted.url,
        headers=wanted.headers,
        timeout=wanted.timeout / 1e6,
        tries=wanted.tries,
        rows=wanted.rows,
    )


def make_late(job: Job) -> Sink | None:
    """Where the job's late rows go."""
    return None if job.late is None else ParquetSink(job.late.path)


@contextmanager
def start(
    job: Job,
    engine: str,
    sink: Sink,
    report: Report,
    master: str | None = None,
    *,
    on_progress: Callable[[Progress], Any] | None = None,
    serving: bool = False,
) -> Iterator[Running]:
    """The job's stream, running until the block ends; ``serving`` keeps it open when its input is at an end,
    unless the job says otherwise."""
    load_aggregates(job.aggregates)
    asked = sql(job.sql)
    check_names(asked, job.streams)
    queries = plan(asked) if "" in job.sources else tuple(map(read_join, asked))
    check_choices(job.sink, [q.name for q in asked])
    ends = _ends(job, serving)
    told = on_progress or report.step
    if engine == "local":
        if job.stream.checkpoint is not None:
            report.note(remark="the in-process engine keeps no checkpoint: every run starts afresh")
        if job.stream.target_batch is not None:
            report.note(remark="the in-process engine has batches of a fixed size: target_batch is for Spark")
        with _in_process(job, queries, sink, told, ends) as running:
            yield running
    else:
        with _on_spark(job, queries, sink, told, ends, master) as running:
            yield running


def _ends(job: Job, serving: bool) -> bool:
    """Whether the run is over once its input is."""
    paced = any(isinstance(source, FromGenerator) and source.pace for source in job.sources.values())
    if job.stream.trigger is None:
        return not serving and not paced
    ends = parse_trigger(job.stream.trigger) is None
    if ends and paced:
        raise JobError("[source] pace = true has no end: leave out trigger = 'available now'")
    return ends


def _in_process(
    job: Job,
    queries: Plan | tuple[JoinQuery, ...],
    sink: Sink,
    told: Callable[[Progress], Any],
    ends: bool,
) -> LocalStream:
    wanted = job.stream
    read = {
        name: _batches(source, ends, _section(name), job.times[name]) for name, source in job.sources.items()
    }
    rules = TimeRules.of(wanted.lateness, wanted.max_ahead, wanted.idle_timeout, ends=ends)
    accept = sink.check if isinstance(sink, CheckingSink) else None
    interval = None if wanted.trigger is None else parse_trigger(wanted.trigger)
    run: LocalRun | LocalJoins
    if isinstance(queries, Plan):
        schema, batches = read[""]
        threads = os.cpu_count() or 1
        tables = Tables(make_tables(job))
        static = tables.schemas(queries.queries)
        program = compile_plan(
            queries, schema, wanted.time, buckets=threads, tables=static, zone=job.zone or UTC
        )
        run = LocalRun(
            program, threads=threads, tables=tables, accept=accept, late=make_late(job), rules=rules
        )
    else:
        schemas, batches = {name: schema for name, (schema, _) in read.items()}, _beside(read)
        shape = read_shape(wanted.chain)
        streams = Streams(schemas, job.times, LivePlanner(), shape=shape, zone=job.zone or UTC)
        run = LocalJoins(streams, queries, rules, accept, wanted.idle_timeout)
    return LocalStream(
        run,
        batches,
        sink,
        pause=PAUSE if interval is None else interval / 1e6,
        idle=None if wanted.idle_timeout is None else wanted.idle_timeout / 1e6,
        close_at_end=wanted.close_at_end is not False,
        on_progress=told,
    )


def _section(name: str) -> str:
    return f"sources.{name}" if name else "source"


def _beside(read: Mapping[str, tuple[pa.Schema, Iterator[Any]]]) -> Iterator[dict[str, Chunk] | None]:
    """A batch of each stream that has one, until all are at their end; None where none has."""
    left = {name: batches for name, (_, batches) in read.items()}
    end = object()
    while left:
        found = {name: next(batches, end) for name, batches in left.items()}
        left = {name: batches for name, batches in left.items() if found[name] is not end}
        chunks = {name: chunk for name, chunk in found.items() if isinstance(chunk, Chunk)}
        if left or chunks:
            yield chunks or None


def _batches(source: Any, ends: bool, section: str, time: str) -> tuple[pa.Schema, Iterator[Any]]:
    """The source's columns and its batches, read in this process; None where one has yet to come."""
    if isinstance(source, FromSpark):
        raise JobError(
            f"[{section}] kind = 'spark' needs Spark: leave out --engine local, or use kind = 'files' or "
            "'kafka'"
        )
    made = make_direct(source)
    return made.stream_schema(), as_chunks(made, time) if ends else made.arrivals()


def make_direct(source: FromFiles | FromKafka | FromGenerator) -> Files | Kafka | Generated:
    """A job's source, read by weft itself."""
    if isinstance(source, FromFiles):
        return make_files(source)
    if isinstance(source, FromKafka):
        return Kafka(**{each.name: getattr(source, each.name) for each in fields(source)})
    return Generated(
        source.data,
        source.rows,
        source.rate,
        source.symbols,
        source.skew,
        source.seed,
        source.disorder / 1e6,
        source.pace,
        None if source.pace else -(-source.rows // max(source.batches, 1)),
    )


def make_files(source: FromFiles) -> Files:
    """The files of a job's source, read by weft itself."""
    return Files(
        source.path,
        format=source.format,
        schema=source.schema,
        max_files_per_batch=source.max_files_per_batch,
        on_bad_file=source.on_bad_file,
        delimiter=source.delimiter,
        header=source.header,
        quote=source.quote,
    )


def make_tables(job: Job) -> dict[str, TableSource]:
    """The static tables of a job, looked for before each batch."""
    return {name: partial(_table_files, table) for name, table in job.tables.items()}


def _table_files(table: FromTable) -> Files:
    return Files(
        table.path,
        format=table.format or format_of(table.path),
        schema=table.schema,
        delimiter=table.delimiter,
        header=table.header,
        quote=table.quote,
    )


@contextmanager
def _on_spark(
    job: Job,
    queries: Plan | tuple[JoinQuery, ...],
    sink: Sink,
    told: Callable[[Progress], Any],
    ends: bool,
    master: str | None,
) -> Iterator[Running]:
    from weft.spark import session, stream

    spark = session(master or job.spark.master, job.spark.conf, job.zone)
    wanted = job.stream
    made = {name: _spark_source(source, spark) for name, source in job.sources.items()}
    one = isinstance(queries, Plan)
    with stream(
        made[""] if one else made,
        queries,
        wanted.time if one else job.times,
        sink=sink,
        lateness=_text(wanted.lateness),
        max_ahead=_text(wanted.max_ahead),
        checkpoint=wanted.checkpoint,
        trigger="available now" if ends else wanted.trigger,
        buckets=job.spark.buckets,
        idle_timeout=_text(wanted.idle_timeout),
        close_at_end=wanted.close_at_end,
        on_progress=told,
        tables=make_tables(job),
        late=make_late(job),
        target_batch=_text(wanted.target_batch),
        spark=spark,
        chain=read_shape(wanted.chain),
    ) as running:
        yield running


def _text(duration: int | None) -> str | None:
    return None if duration is None else format_duration(duration)


def _spark_source(source: Any, spark: Any) -> Any:
    """The source as a stream on Spark."""
    from weft.spark.sources import ANY_AGE

    if isinstance(source, FromFiles) and not source.direct:
        files = make_files(source)
        columns = spark.createDataFrame(files.stream_schema().empty_table()).schema
        reader = spark.readStream.format(source.format).schema(columns).option("maxFileAge", ANY_AGE)
        if source.max_files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", source.max_files_per_batch)
        if source.format == "csv":
            reader = reader.options(header=source.header, sep=source.delimiter, quote=source.quote)
        return reader.load(str(source.path))
    if not isinstance(source, FromSpark):
        return make_direct(source)
    reader = spark.readStream.format(source.format).options(**source.options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    return reader.load()
