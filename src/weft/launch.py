"""Runs a `Job` on Spark or in this process: its source and sink made, its queries planned, progress told."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import pyarrow as pa

from weft.define import load_aggregates
from weft.duration import format_duration
from weft.engine.program import compile_plan
from weft.errors import JobError, WeftError
from weft.files import Files
from weft.generate import TRADES, trades, write_parquet
from weft.job import FromFiles, FromGenerator, FromSpark, FromTable, Job, ToConsole, ToMemory, ToParquet
from weft.local import LocalRun
from weft.optimize import plan
from weft.plan import Plan
from weft.report import Report
from weft.sinks import ConsoleSink, FunctionSink, MemorySink, ParquetSink, Sink
from weft.sql import sql
from weft.tables import Tables, TableSource, format_of


class RunFailed(WeftError):
    """A job that was right to start, and failed on the way."""


def run(job: Job, engine: str, report: Report, master: str | None = None) -> Sink:
    """Run a job to its end; returns the sink, closed.

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
    load_aggregates(job.aggregates)
    planned = plan(sql(job.sql))
    sink = make_sink(job, report)
    if engine == "local":
        _in_process(job, planned, sink, report)
    else:
        _on_spark(job, planned, sink, report, master)
    return sink


def make_sink(job: Job, report: Report) -> Sink:
    """The job's sink."""
    wanted = job.sink
    if isinstance(wanted, ToParquet):
        return ParquetSink(wanted.path)
    if isinstance(wanted, ToConsole):
        return ConsoleSink(wanted.rows, report.console)
    return MemorySink() if isinstance(wanted, ToMemory) else FunctionSink(wanted.load())


def _in_process(job: Job, planned: Plan, sink: Sink, report: Report) -> None:
    if job.stream.checkpoint is not None:
        report.note(remark="the in-process engine keeps no checkpoint: every run starts afresh")
    schema, batches = _batches(job)
    threads = os.cpu_count() or 1
    tables = Tables(make_tables(job))
    program = compile_plan(
        planned, schema, job.stream.time, buckets=threads, tables=tables.schemas(planned.queries)
    )
    sink.open({q.name: program.result_schema(q.name) for q in program.queries}, "run")
    running = LocalRun(program, job.stream.lateness, threads, tables)
    close = job.stream.close_at_end is not False
    try:
        seq = 0
        for seq, batch in enumerate(batches, 1):
            _step(running, sink, report, seq, batch)
        if close:
            _step(running, sink, report, seq + 1, None)
    except OSError as error:
        raise RunFailed(str(error)) from error
    finally:
        running.shutdown()
        sink.close()


def _step(running: LocalRun, sink: Sink, report: Report, seq: int, batch: pa.Table | None) -> None:
    """One batch taken in, or the windows still open answered; reported as Spark's steps are."""
    began, before = time.perf_counter(), running.seen
    results = running.close() if batch is None else running.step(batch)
    sink.deliver(results, seq)
    seconds = time.perf_counter() - began
    rows = running.seen.rows - before.rows
    report.step(
        {
            "seq": seq,
            "kind": "batch" if batch is not None else "flush",
            "rows": rows,
            "rows_per_second": rows / seconds,
            "late": running.seen.late - before.late,
            "untimed": running.seen.untimed - before.untimed,
            "bad": running.seen.bad - before.bad,
            "watermark": running.watermark,
            "results": sum(table.num_rows for table in results.values()),
            "state_rows": sum(state.rows for state in running.states),
            "state_bytes": sum(state.bytes for state in running.states),
            "seconds": seconds,
            "sharing": [asdict(choice) for choice in running.choices],
        }
    )


def _batches(job: Job) -> tuple[pa.Schema, Iterator[Any]]:
    """The source's columns and its batches, read in this process."""
    source = job.source
    if isinstance(source, FromSpark):
        raise JobError("[source] kind = 'spark' needs Spark: leave out --engine local, or use kind = 'files'")
    if isinstance(source, FromGenerator):
        return TRADES, trades(source.rows, **source.options)
    files = make_files(source)
    return files.stream_schema(), iter(files)


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


def _on_spark(job: Job, planned: Plan, sink: Sink, report: Report, master: str | None) -> None:
    from weft.spark import session, stream

    spark = session(master or job.spark.master, job.spark.conf)
    wanted = job.stream
    ends = wanted.trigger is not None and wanted.trigger.replace("-", " ") == "available now"
    with tempfile.TemporaryDirectory(prefix="weft-run-") as folder:
        running = stream(
            _spark_source(job, spark, folder),
            planned,
            wanted.time,
            sink=sink,
            lateness=format_duration(wanted.lateness),
            checkpoint=wanted.checkpoint,
            trigger=wanted.trigger,
            buckets=job.spark.buckets,
            idle_timeout=None if wanted.idle_timeout is None else format_duration(wanted.idle_timeout),
            close_at_end=ends if wanted.close_at_end is None else wanted.close_at_end,
            on_progress=report.step,
            tables=make_tables(job),
            spark=spark,
        )
        with running:
            try:
                running.await_done()
            except WeftError as error:
                raise RunFailed(str(error)) from error


def _spark_source(job: Job, spark: Any, folder: str) -> Any:
    """The source as a stream on Spark; generated trades become files in ``folder`` first."""
    source = job.source
    if isinstance(source, FromGenerator):
        write_parquet(folder, source.rows, files=source.files, **source.options)
        return Files(folder, max_files_per_batch=1)
    if isinstance(source, FromFiles):
        files = make_files(source)
        if source.direct:
            return files
        columns = spark.createDataFrame(files.stream_schema().empty_table()).schema
        reader = spark.readStream.format(source.format).schema(columns)
        if source.max_files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", source.max_files_per_batch)
        if source.format == "csv":
            reader = reader.options(header=source.header, sep=source.delimiter, quote=source.quote)
        return reader.load(str(source.path))
    reader = spark.readStream.format(source.format).options(**source.options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    return reader.load()
