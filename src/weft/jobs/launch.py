"""Jobs on Spark or in this process: source and sink made, queries planned, progress reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from weft.errors import JobError, WeftError
from weft.expr.types import UTC
from weft.io.files import Files
from weft.io.kinds import SourceKind
from weft.io.lookups import TableSource, format_of
from weft.io.sinks import CheckingSink, ParquetSink, Sink
from weft.jobs.job import FromTable, Job
from weft.jobs.report import Report
from weft.jobs.sinks import check_choices
from weft.local.committing import LocalCommits
from weft.local.feed import Feed
from weft.local.readers import reader_of
from weft.local.running import LocalRun, LocalSetup
from weft.local.streaming import LocalStream
from weft.model.duration import format_duration, parse_trigger
from weft.model.names import check_names
from weft.planning.joins.chain_plan import read_shape
from weft.runner.contract import RunningStream
from weft.runner.delivery import Delivery
from weft.runner.lateness import time_rules
from weft.runner.program import UNNAMED, AnyQuery
from weft.runner.progress import Progress
from weft.runner.running_queries import RunningQueries
from weft.sql import sql
from weft.sql.define import load_aggregates

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
    return job.sink.make(report.console)


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
    queries = tuple(parsed)
    check_choices(job.sink, [q.name for q in parsed])
    ends = _ends(job, serving)
    on_progress = on_progress or report.step
    if engine == "local":
        if job.stream.target_batch is not None:
            report.note(remark="the in-process engine has batches of a fixed size: target_batch is for Spark")
        with _in_process(job, queries, sink, on_progress, ends) as running:
            yield running
    else:
        with _on_spark(job, queries, sink, on_progress, ends, master) as running:
            yield running


def _ends(job: Job, serving: bool) -> bool:
    """Return whether the run is over once its input is."""
    paced = any(source.is_endless for source in job.sources.values())
    if job.stream.trigger is None:
        return not serving and not paced
    ends = parse_trigger(job.stream.trigger) is None
    if ends and paced:
        raise JobError("[source] pace = true has no end: leave out trigger = 'available now'")
    return ends


def _in_process(
    job: Job,
    queries: tuple[AnyQuery, ...],
    sink: Sink,
    on_progress: Callable[[Progress], Any],
    ends: bool,
) -> LocalStream:
    settings, place = job.stream, job.stream.checkpoint
    commits = None if place is None else LocalCommits(place)
    log = None if commits is None else commits.positions
    readers = {
        name: reader_of(_source_of(name, source), job.times[name], live=not ends, log=log)
        for name, source in job.sources.items()
    }
    schemas = {name: reader.schema for name, reader in readers.items()}
    setup = LocalSetup.of(
        queries,
        schemas if job.streams is not None else schemas[UNNAMED],
        job.times if job.streams is not None else settings.time,
        {"tables": make_tables(job), "zone": job.zone or UTC, "chain": read_shape(settings.chain)},
    )
    bounded = tuple(readers) if ends else ()
    rules = time_rules(
        job.lateness, settings.max_ahead, settings.idle_timeout, bounded, goes_on=commits is not None
    )
    accept = sink.check if isinstance(sink, CheckingSink) else None
    if commits is None:
        program = setup.compiler.compile(setup.queries)
        running = RunningQueries(setup.compiler, program, accept)
        run = LocalRun.of(running, setup, rules, settings.idle_timeout)
    else:
        run = commits.open(setup, rules, accept, settings.idle_timeout)
    interval = None if settings.trigger is None else parse_trigger(settings.trigger)
    closes = commits is None if settings.close_at_end is None else settings.close_at_end
    return LocalStream(
        run,
        Feed(readers, run.columns, {} if commits is None else commits.offsets()),
        Delivery(sink, "run" if commits is None else commits.checkpoint.stream, make_late(job)),
        commits=commits,
        pause=POLL_SECONDS if interval is None else interval / 1e6,
        idle=None if settings.idle_timeout is None else settings.idle_timeout / 1e6,
        close_at_end=closes,
        on_progress=on_progress,
    )


def _source_of(name: str, source: SourceKind) -> Any:
    """Make a source that is read in this process."""
    try:
        return source.make()
    except JobError as error:
        raise JobError(f"[{f'sources.{name}' if name else 'source'}] {error}") from error


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
    queries: tuple[AnyQuery, ...],
    sink: Sink,
    on_progress: Callable[[Progress], Any],
    ends: bool,
    master: str | None,
) -> Iterator[RunningStream]:
    from weft.spark import session, stream

    spark = session(master or job.spark.master, job.spark.conf, job.zone)
    settings = job.stream
    sources = {name: _spark_source(source, spark) for name, source in job.sources.items()}
    named = job.streams is not None
    with stream(
        sources if named else sources[UNNAMED],
        queries,
        job.times if named else settings.time,
        sink=sink,
        lateness={name: _text(wait) for name, wait in job.lateness.items()},
        max_ahead=_text(settings.max_ahead),
        checkpoint=settings.checkpoint,
        trigger="available now" if ends else settings.trigger,
        buckets=job.spark.buckets,
        nodes=job.spark.nodes,
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


def _spark_source(source: SourceKind, spark: Any) -> Any:
    """Make the source as a stream on Spark."""
    from weft.spark.readers import read_stream

    read_by_spark = source.spark_input()
    return source.make() if read_by_spark is None else read_stream(read_by_spark, spark)
