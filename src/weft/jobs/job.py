"""A job file (TOML) read into one frozen, fully checked `Job`: nothing runs before every key makes sense.

    [source]  kind = "files" | "kafka" | "generator" | "spark"
    [sources.NAME] instead, one for each stream, where streams are joined
    [stream]  time, lateness, max_ahead, trigger, idle_timeout, close_at_end,
              checkpoint, target_batch, zone
    [queries] file = "queries.sql"  or  sql = "...", aggregates = ["own.py"]
    [tables.NAME] path = "...", format = "csv"
    [sink]    kind = "console" | "memory" | "parquet" | "json" | "postgres" |
              "kafka" | "webhook" | "python", queries; or several [[sink]]
    [late]    path = "..."
    [spark]   master, buckets, conf

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
from weft.io.settings import (
    NO_PATHS,
    NO_TIME,
    Duration,
    Options,
    Paths,
    read_kind,
    read_section,
    refuse_unknown,
)
from weft.jobs.sinks import ToSink, read_sinks


class Engine(StrEnum):
    """The engine that does the work."""

    spark = "spark"
    local = "local"


@dataclass(frozen=True, slots=True)
class FromFiles:
    """A folder of Parquet, CSV or JSON files; ``direct`` reads them inside weft's own tasks."""

    path: Path
    format: str = "parquet"
    schema: Options | None = None
    max_files_per_batch: int | None = None
    direct: bool = True
    on_bad_file: str = "fail"
    delimiter: str = ","
    header: bool = True
    quote: str = '"'


@dataclass(frozen=True, slots=True)
class FromKafka:
    """A Kafka topic, read inside weft's own tasks."""

    servers: str
    topic: str
    format: str = "json"
    schema: Options | None = None
    columns: Options = field(default_factory=lambda: Options({}))
    start: str = "earliest"
    max_rows_per_batch: int | None = None
    on_bad: str = "skip"
    on_lost: str = "fail"
    options: Options = field(default_factory=lambda: Options({}))


@dataclass(frozen=True, slots=True)
class FromGenerator:
    """Generated rows, the same for the same seed; ``pace`` lets them come as time passes, from now on."""

    data: str = "trades"
    rows: int = 1_000_000
    rate: float = 1000.0
    symbols: int = 500
    skew: float = 1.0
    seed: int = 0
    disorder: Duration = NO_TIME
    batches: int = 8
    pace: bool = False


@dataclass(frozen=True, slots=True)
class FromSpark:
    """Any format that Spark's ``readStream`` knows, with its options."""

    format: str
    options: Options = field(default_factory=lambda: Options({}))
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """Rules of event time, and of when windows are answered.

    ``trigger`` is "available now" (take what is there, then end) or an interval between batches. Without
    it, a run ends with its input, unless that is paced, and a server's goes on. ``lateness`` is how far
    behind the latest a row may come; without it no row is late where the input ends and no run goes on
    after it. A row more than ``max_ahead`` ahead of the clock moves no watermark. At the end the windows
    still open are answered, unless there is a ``checkpoint``, from which another run goes on;
    ``close_at_end`` says otherwise. ``target_batch`` is how long a step over files should take on Spark,
    ``chain`` how joins are sliced; ``time_columns`` are those of streams that call theirs otherwise.
    ``zone`` is the time zone of ``hour(ts)`` and the like.
    """

    time: str
    lateness: Duration | None = None
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
    """The Spark session: master, buckets of final tasks, and any ``spark.*`` setting."""

    master: str | None = None
    buckets: int | None = None
    conf: Options = field(default_factory=lambda: Options({}))


SOURCES: Mapping[str, type] = {
    "files": FromFiles,
    "kafka": FromKafka,
    "generator": FromGenerator,
    "spark": FromSpark,
}
FORMATS = ("parquet", "csv", "json")


@dataclass(frozen=True, slots=True)
class Job:
    """Everything a job file says, checked; ``sources`` by stream, "" where there is only one, [source]."""

    sources: Mapping[str, FromFiles | FromKafka | FromGenerator | FromSpark]
    stream: Stream
    sql: str
    sink: ToSink
    spark: Spark
    aggregates: tuple[Path, ...] = ()
    tables: Mapping[str, FromTable] = field(default_factory=dict)
    late: LateRows | None = None

    @property
    def source(self) -> FromFiles | FromKafka | FromGenerator | FromSpark:
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
            "the section [source] is missing, or [sources.NAME] for each stream of joins"
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
    if "" not in sources:
        for section, there in (("tables", job.tables), ("late", job.late)):
            if there:
                raise JobError(f"[{section}] is for one [source]; joins of streams have none: leave it out")
        if stream.target_batch is not None:
            raise JobError("[stream] target_batch is for one [source]; leave it out")
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


def _source(section: str, given: Any, base: Path) -> FromFiles | FromGenerator | FromSpark:
    if not isinstance(given, dict):
        raise JobError(f"'{section}' must be a section: write [{section}] on a line of its own")
    source: FromFiles | FromGenerator | FromSpark = read_kind(given, SOURCES, section, base)
    if isinstance(source, FromFiles) and source.format not in FORMATS:
        raise JobError(f"[{section}] format must be one of {', '.join(FORMATS)}, not '{source.format}'")
    return source


def _table(name: str, given: Any, base: Path) -> FromTable:
    section = f"tables.{name}"
    if not isinstance(given, dict):
        raise JobError(f"'{section}' must be a section: write [{section}] on a line of its own")
    table = read_section(FromTable, given, section, base)
    if table.format not in (None, *FORMATS):
        raise JobError(f"[{section}] format must be one of {', '.join(FORMATS)}, not '{table.format}'")
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
