"""A job file (TOML) read into one frozen, fully checked `Job`: nothing runs before every key makes sense.

    [source]  kind and the keys of this kind (weft.io.registry finds the kinds)
    [sources.NAME] instead, one for each of several streams
    [stream]  time, lateness, max_ahead, trigger, idle_timeout, close_at_end,
              checkpoint, target_batch, zone
    [queries] file = "queries.sql"  or  sql = "...", aggregates = ["own.py"]
    [tables.NAME] path = "...", format = "csv"
    [sink]    kind and the keys of this kind, queries; or several [[sink]]
    [late]    path = "..."
    [spark]   master, buckets, nodes, conf

Paths are relative to the job file. docs/job_file.md lists every key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from weft.errors import JobError
from weft.expr.types import UTC, read_zone
from weft.io.files.kind import check_format
from weft.io.kinds import SinkKind, SourceKind
from weft.io.registry import SOURCES
from weft.io.settings import (
    NO_PATHS,
    Duration,
    Durations,
    Options,
    Paths,
    read_kind,
    read_section,
    refuse_unknown,
)
from weft.jobs.sinks import read_sinks


class Engine(StrEnum):
    """The engine that does the work."""

    spark = "spark"
    local = "local"


@dataclass(frozen=True, slots=True)
class Stream:
    """Rules of event time, and of when windows are answered.

    ``trigger`` is "available now" (take what is there, then end) or an interval between batches. Without
    it, a run ends with its input, unless that is paced, and a server's goes on. ``lateness`` is how far
    behind the latest of its stream a row may come, for all streams or by stream; without it no row is
    late where the input ends and no run goes on after it. A row more than ``max_ahead`` ahead of the
    clock moves no watermark. At the end the windows still open are answered, unless there is a
    ``checkpoint``, from which another run goes on; ``close_at_end`` says otherwise. ``target_batch`` is
    how long a step over files should take on Spark, ``chain`` how joins are sliced; ``time_columns`` are
    those of streams that call theirs otherwise. ``zone`` is the time zone of ``hour(ts)`` and the like.
    """

    time: str
    lateness: Duration | Durations | None = None
    trigger: str | None = None
    idle_timeout: Duration | None = None
    close_at_end: bool | None = None
    checkpoint: Path | None = None
    target_batch: Duration | None = None
    time_columns: Options | None = None
    chain: str = "mem-opt"
    max_ahead: Duration | None = None
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries' SQL, from a file or written in the job, and Python files that define aggregates."""

    file: Path | None = None
    sql: str | None = None
    aggregates: Paths = NO_PATHS


@dataclass(frozen=True, slots=True)
class FromTable:
    """A lookup table that queries join: a file, or a folder of files; their names give the format."""

    path: Path
    format: str | None = None
    schema: Options | None = None
    delimiter: str = ","
    header: bool = True
    quote: str = '"'


@dataclass(frozen=True, slots=True)
class LateRows:
    """The place of rows that missed a window: a Parquet table ``late`` under ``path``."""

    path: Path


@dataclass(frozen=True, slots=True)
class Spark:
    """The Spark session: master, buckets of final tasks, nodes of joins, and any ``spark.*`` setting."""

    master: str | None = None
    buckets: int | None = None
    nodes: int | None = None
    conf: Options = field(default_factory=lambda: Options({}))


@dataclass(frozen=True, slots=True)
class Job:
    """Everything a job file says, checked; ``sources`` by stream, "" where there is only one, [source]."""

    sources: Mapping[str, SourceKind]
    stream: Stream
    sql: str
    sink: SinkKind
    spark: Spark
    aggregates: tuple[Path, ...] = ()
    tables: Mapping[str, FromTable] = field(default_factory=dict)
    late: LateRows | None = None

    @property
    def source(self) -> SourceKind:
        """The only source."""
        return self.sources[""]

    @property
    def streams(self) -> tuple[str, ...] | None:
        """The names of its streams, [sources.NAME]; None for the one [source]."""
        return None if "" in self.sources else tuple(self.sources)

    @property
    def zone(self) -> str | None:
        """The zone of local times, where the job says it: [stream] zone, or the setting of Spark's."""
        return self.stream.zone or self.spark.conf.get("spark.sql.session.timeZone")

    @property
    def times(self) -> dict[str, str]:
        """The time column of each stream."""
        named: dict[str, str] = self.stream.time_columns or {}
        return {name: named.get(name, self.stream.time) for name in self.sources}

    @property
    def lateness(self) -> dict[str, int | None]:
        """The lateness of each stream, in microseconds; None where the job says none."""
        given = self.stream.lateness
        if isinstance(given, dict):
            return {name: given.get(name) for name in self.sources}
        return dict.fromkeys(self.sources, given)


def load(path: str | Path) -> Job:
    """Read a job file; paths in it are taken relative to it."""
    path = Path(path)
    try:
        text = path.read_text()
    except OSError as error:
        raise JobError(f"job file '{path}' cannot be read: {error.strerror}") from error
    try:
        return parse(text, path.parent)
    except JobError as error:
        raise JobError(f"{path}: {error}") from error


def parse(text: str, base: Path = Path()) -> Job:
    """Read a job from its text.

    >>> job = parse('''
    ... [source]
    ... kind = "generator"
    ... rows = 1000
    ... [stream]
    ... time = "ts"
    ... lateness = "10 s"
    ... [queries]
    ... sql = "SELECT count(*) AS n FROM trades GROUP BY window(ts, '1 minute')"
    ... [sink]
    ... kind = "memory"
    ... ''')
    >>> job.source.rows, job.stream.lateness
    (1000, 10000000)
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"not valid TOML: {error}") from error
    known = ("source", "sources", "stream", "queries", "tables", "sink", "late", "spark")
    refuse_unknown(tables, known, "section [{}]")
    for name, table in tables.items():
        if not isinstance(table, dict) and not (name == "sink" and isinstance(table, list)):
            raise JobError(f"'{name}' must be a section: write [{name}] on a line of its own")
    if ("source" in tables) == bool(tables.get("sources")):
        raise JobError(
            "the section [source] is missing, or [sources.NAME] for each of several streams"
            if "source" not in tables
            else "[source] is for one stream, [sources.NAME] for several; write one or the other"
        )
    if "queries" not in tables:
        raise JobError("the section [queries] is missing")
    sources = (
        {"": _source("source", tables["source"], base)}
        if "source" in tables
        else {name: _source(f"sources.{name}", given, base) for name, given in tables["sources"].items()}
    )
    queries = read_section(Queries, tables["queries"], "queries", base)
    stream = read_section(Stream, tables.get("stream", {}), "stream", base)
    refuse_unknown(stream.time_columns or {}, sources, "stream '{}' in [stream] time_columns")
    if isinstance(stream.lateness, dict):
        if "" in sources:
            raise JobError('[stream] lateness by stream needs [sources.NAME]; write lateness = "10 s"')
        refuse_unknown(stream.lateness, sources, "stream '{}' in [stream] lateness")
    job = Job(
        sources=sources,
        stream=stream,
        sql=_sql(queries),
        sink=read_sinks(tables.get("sink", {"kind": "console"}), base),
        spark=read_section(Spark, tables.get("spark", {}), "spark", base),
        aggregates=queries.aggregates,
        late=read_section(LateRows, tables["late"], "late", base) if "late" in tables else None,
        tables={name: _table(name, given, base) for name, given in tables.get("tables", {}).items()},
    )
    _check_zone(job)
    return job


def _check_zone(job: Job) -> None:
    setting = job.spark.conf.get("spark.sql.session.timeZone")
    for zone, where in ((job.stream.zone, "[stream] zone"), (setting, "spark.sql.session.timeZone")):
        try:
            read_zone(zone or UTC)
        except JobError as error:
            raise JobError(f"{where}: {error}") from None
    if setting and job.zone and read_zone(setting) != read_zone(job.zone):
        raise JobError(
            f"[stream] zone is {job.zone}, and spark.sql.session.timeZone in [spark] conf is {setting}; "
            "write one of them"
        )


def _source(section: str, given: Any, base: Path) -> SourceKind:
    if not isinstance(given, dict):
        raise JobError(f"'{section}' must be a section: write [{section}] on a line of its own")
    source: SourceKind = read_kind(given, SOURCES, section, base)
    source.check(section)
    return source


def _table(name: str, given: Any, base: Path) -> FromTable:
    section = f"tables.{name}"
    if not isinstance(given, dict):
        raise JobError(f"'{section}' must be a section: write [{section}] on a line of its own")
    table = read_section(FromTable, given, section, base)
    if table.format is not None:
        check_format(table.format, section)
    return table


def _sql(queries: Queries) -> str:
    if (queries.file is None) == (queries.sql is None):
        raise JobError("[queries] needs either file = \"...\" or sql = '''...''', and not both")
    if queries.file is None:
        return queries.sql or ""
    try:
        return queries.file.read_text()
    except OSError as error:
        raise JobError(f"[queries] file '{queries.file}' cannot be read: {error.strerror}") from error
