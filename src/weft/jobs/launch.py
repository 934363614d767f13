"""Jobs on Spark or in this process: source and sink made, queries planned, progress reported."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from typing import Any

import pyarrow as pa

from weft.errors import JobError, WeftError
from weft.expr.types import UTC
from weft.io.files import Chunk, Files
from weft.io.kafka import Kafka
from weft.io.lookups import TableSource, format_of
from weft.io.sinks import (
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
from weft.io.sources.generated import Generated
from weft.jobs.job import FromFiles, FromGenerator, FromKafka, FromSpark, FromTable, Job
from weft.jobs.report import Report
from weft.jobs.sinks import (
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
from weft.local.batches import as_chunks
from weft.local.joins import LocalJoins
from weft.local.run import LocalRun
from weft.local.stream import LocalStream
from weft.model.duration import format_duration, parse_trigger
from weft.model.join import JoinQuery
from weft.model.names import check_names
from weft.operators.joins.compile import JoinCompiler
from weft.operators.lookups.tables import LookupTables
from weft.operators.watermark import TimeRules
from weft.operators.windows.compile import compile_plan
from weft.planning.joins.chain_plan import read_shape
from weft.planning.live import LivePlanner
from weft.planning.plan import Plan
from weft.planning.planner import plan
from weft.runner.contract import RunningStream
from weft.runner.progress import Progress
from weft.sql import sql
from weft.sql.define import load_aggregates
from weft.sql.read import read_join

POLL_SECONDS = 0.5
"""Seconds between two looks for new rows, where the job does not say."""


class RunFailed(WeftError):
    """A job that was right to start, and failed on the way: the whole of it, or some of its queries alone."""


def run(job: Job, engine: str, report: Report, master: str | None = None, sink: Sink | None = None) -> Sink:
    """Run a job to its end; returns the sink, closed. RunFailed at the end names the queries that failed.

    >>> from rich.console import Console
    >>> from weft.jobs.job import parse
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
        messages = "; ".join(failure.message for failure in failed.values())
        raise RunFailed(f"{_count(len(failed))} failed, and all others have their results: {messages}")
    return sink


def _count(queries: int) -> str:
    return "1 query" if queries == 1 else f"{queries} queries"


def make_sink(job: Job, report: Report) -> Sink:
    """Make the job's sink."""
    return _make_sink(job.sink, report)


def _make_sink(target: ToSink, report: Report) -> Sink:
    match target:
        case ToSeveral():
            return Sinks(*(_make_sink(sink, report) for sink in target.sinks))
        case ToSome():
            return Only(_make_sink(target.sink, report), target.queries)
        case ToParquet():
            return ParquetSink(target.path)
        case ToJson():
            return JsonSink(target.path)
        case ToConsole():
            return ConsoleSink(target.rows, report.console)
        case ToMemory():
            return MemorySink()
        case ToPostgres():
            return PostgresSink(target.address, schema=target.schema, prefix=target.prefix)
        case ToKafka():
            return KafkaSink(target.servers, target.topic, steps=target.steps, options=target.options)
        case ToFunction():
            return FunctionSink(target.load())
    return WebhookSink(
        target.url,
        headers=target.headers,
        timeout=target.timeout / 1e6,
        tries=target.tries,
        rows=target.rows,
    )


def make_late(job: Job) -> Sink | None:
    """Make the sink of the job's late rows."""
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
) -> Iterator[RunningStream]:
    """The job's stream, running until the block ends; ``serving`` keeps it open when its input is at an end,
    unless the job says otherwise."""
    load_aggregates(job.aggregates)
    parsed = sql(job.sql)
    check_names(parsed, job.streams)
    queries = plan(parsed) if "" in job.sources else tuple(map(read_join, parsed))
    check_choices(job.sink, [q.name for q in parsed])
    ends = _ends(job, serving)
    on_progress = on_progress or report.step
    if engine == "local":
        if job.stream.checkpoint is not None:
            report.note(remark="the in-process engine keeps no checkpoint: every run starts afresh")
        if job.stream.target_batch is not None:
            report.note(remark="the in-process engine has batches of a fixed size: target_batch is for Spark")
        with _in_process(job, queries, sink, on_progress, ends) as running:
            yield running
    else:
        with _on_spark(job, queries, sink, on_progress, ends, master) as running:
            yield running


def _ends(job: Job, serving: bool) -> bool:
    """Return whether the run is over once its input is."""
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
    on_progress: Callable[[Progress], Any],
    ends: bool,
) -> LocalStream:
    settings = job.stream
    read = {
        name: _batches(source, ends, _section(name), job.times[name]) for name, source in job.sources.items()
    }
    rules = TimeRules.of(settings.lateness, settings.max_ahead, settings.idle_timeout, ends=ends)
    accept = sink.check if isinstance(sink, CheckingSink) else None
    interval = None if settings.trigger is None else parse_trigger(settings.trigger)
    run: LocalRun | LocalJoins
    if isinstance(queries, Plan):
        schema, batches = read[""]
        threads = os.cpu_count() or 1
        tables = LookupTables(make_tables(job))
        lookup_schemas = tables.schemas(queries.queries)
        program = compile_plan(
            queries, schema, settings.time, buckets=threads, tables=lookup_schemas, zone=job.zone or UTC
        )
        run = LocalRun(
            program, threads=threads, tables=tables, accept=accept, late=make_late(job), rules=rules
        )
    else:
        schemas, batches = {name: schema for name, (schema, _) in read.items()}, _beside(read)
        shape = read_shape(settings.chain)
        streams = JoinCompiler(schemas, job.times, LivePlanner(), shape=shape, zone=job.zone or UTC)
        run = LocalJoins(streams, queries, rules, accept, settings.idle_timeout)
    return LocalStream(
        run,
        batches,
        sink,
        pause=POLL_SECONDS if interval is None else interval / 1e6,
        idle=None if settings.idle_timeout is None else settings.idle_timeout / 1e6,
        close_at_end=settings.close_at_end is not False,
        on_progress=on_progress,
    )


def _section(name: str) -> str:
    return f"sources.{name}" if name else "source"


def _beside(read: Mapping[str, tuple[pa.Schema, Iterator[Any]]]) -> Iterator[dict[str, Chunk] | None]:
    """A batch of each stream that has one, until all are at their end; None where none has."""
    left = {name: batches for name, (_, batches) in read.items()}
    end = object()
    while left:
        batches_read = {name: next(batches, end) for name, batches in left.items()}
        left = {name: batches for name, batches in left.items() if batches_read[name] is not end}
        chunks = {name: chunk for name, chunk in batches_read.items() if isinstance(chunk, Chunk)}
        if left or chunks:
            yield chunks or None


def _batches(source: Any, ends: bool, section: str, time: str) -> tuple[pa.Schema, Iterator[Any]]:
    """The source's columns and its batches, read in this process; None where one has yet to come."""
    if isinstance(source, FromSpark):
        raise JobError(
            f"[{section}] kind = 'spark' needs Spark: leave out --engine local, or use kind = 'files' or "
            "'kafka'"
        )
    direct = make_direct(source)
    return direct.stream_schema(), as_chunks(direct, time) if ends else direct.arrivals()


def make_direct(source: FromFiles | FromKafka | FromGenerator) -> Files | Kafka | Generated:
    """A job's source, read by weft itself."""
    if isinstance(source, FromFiles):
        return make_files(source)
    if isinstance(source, FromKafka):
        return Kafka(**{option.name: getattr(source, option.name) for option in fields(source)})
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
    """Make the lookup tables of a job, looked for before each batch."""
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
    on_progress: Callable[[Progress], Any],
    ends: bool,
    master: str | None,
) -> Iterator[RunningStream]:
    from weft.spark import session, stream

    spark = session(master or job.spark.master, job.spark.conf, job.zone)
    settings = job.stream
    sources = {name: _spark_source(source, spark) for name, source in job.sources.items()}
    single = isinstance(queries, Plan)
    with stream(
        sources[""] if single else sources,
        queries,
        settings.time if single else job.times,
        sink=sink,
        lateness=_text(settings.lateness),
        max_ahead=_text(settings.max_ahead),
        checkpoint=settings.checkpoint,
        trigger="available now" if ends else settings.trigger,
        buckets=job.spark.buckets,
        idle_timeout=_text(settings.idle_timeout),
        close_at_end=settings.close_at_end,
        on_progress=on_progress,
        tables=make_tables(job),
        late=make_late(job),
        target_batch=_text(settings.target_batch),
        spark=spark,
        chain=read_shape(settings.chain),
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
