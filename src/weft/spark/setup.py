"""From sources and queries to what compiles them: what ``share`` and ``stream`` do first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_type

from weft.errors import JobError
from weft.io.files import Files
from weft.io.sources.ranges import Ranged
from weft.model.join import JoinQuery
from weft.model.names import time_of
from weft.operators.lookups.tables import LookupTables
from weft.planning.plan import Plan
from weft.runner.program import UNNAMED, AnyQuery, ProgramCompiler
from weft.spark.session import ZONE, session, zone_of
from weft.spark.stream_sources import Source
from weft.sql.read import QueryInput, read_queries


@dataclass(frozen=True)
class StreamSetup:
    """The sources of a run by stream, their time columns, and the session that they run in.

    ``named`` says that streams were given by name; else there is one, whose name is "".
    """

    sources: Mapping[str, Source]
    times: Mapping[str, str]
    session: SparkSession
    named: bool

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """The columns of each stream, in the types in which they arrive in Python."""
        return {name: columns_of(source) for name, source in self.sources.items()}


def sources_by_name(source: Any, time: str | Mapping[str, str], spark: SparkSession | None) -> StreamSetup:
    """Return the sources of a run, checked."""
    named = isinstance(source, Mapping)
    sources: dict[str, Any] = dict(source) if named else {UNNAMED: source}
    if not sources:
        raise JobError("there is no source; give {'trades': source}")
    if not named and not isinstance(time, str):
        raise JobError("one stream has one time column; give time='ts'")
    for name, given in sources.items():
        if not isinstance(given, DataFrame | Files | Ranged):
            where = f"the source of {name!r}, a {type(given).__name__}," if name else type(given).__name__
            raise JobError(
                f"{where} is not a source; give a DataFrame, weft.Files(path), weft.Kafka(servers, topic) or "
                "weft.Generated()"
            )
    frames = [given for given in sources.values() if isinstance(given, DataFrame)]
    own = frames[0].sparkSession if frames else spark or session()
    times = {name: time if isinstance(time, str) else time_of(time, name) for name in sources}
    return StreamSetup(sources, times, own, named)


def queries_of(queries: Iterable[QueryInput] | Plan | str) -> tuple[AnyQuery, ...]:
    """Return the queries that are given, as they are or in a plan; to be called once, as an iterator can."""
    return queries.all_queries if isinstance(queries, Plan) else read_queries(queries)


def compiler_of(
    setup: StreamSetup,
    queries: tuple[AnyQuery, ...],
    given: Plan | None,
    lookups: LookupTables,
    buckets: int,
    zone: str,
    options: Mapping[str, Any],
) -> ProgramCompiler:
    """Return what compiles the queries of a run on Spark, which may be ``given`` in a plan."""
    if not setup.named and any(isinstance(query, JoinQuery) for query in queries):
        raise JobError("a join needs its streams by name; give {'temperature': source, 'humidity': source}")
    return ProgramCompiler(
        setup.schemas,
        setup.times,
        tuple(setup.sources) if setup.named else None,
        options["strategy"],
        options["technique"],
        options["strict"],
        buckets,
        options.get("chain", "mem-opt"),
        zone,
        lookups.schemas,
        given,
    )


def check_buckets(buckets: int | None, spark: SparkSession) -> int:
    """Return the number of bucket tasks: as many as run at a time, where not given."""
    if buckets is None:
        return max(1, spark.sparkContext.defaultParallelism)
    if not 1 <= buckets <= 10_000:
        raise JobError(f"buckets must be between 1 and 10000, not {buckets}")
    return buckets


def columns_of(source: Source) -> pa.Schema:
    """Return the columns of a source, in the types in which they arrive in Python."""
    return schema_of(source) if isinstance(source, DataFrame) else source.stream_schema()


def schema_of(frame: DataFrame) -> pa.Schema:
    """Return the Arrow types in which a DataFrame's columns arrive in Python."""
    zone = zone_of(frame.sparkSession)
    if zone[0] not in "+-":
        zone = str(frame.sparkSession.conf.get(ZONE))  # as it is called there, so that checkpoints know it
    fields = []
    for field in frame.schema:
        try:
            dtype = to_arrow_type(field.dataType, timezone=zone)
        except Exception:
            # A type that Arrow does not know: no query can use it, but the column may be there.
            dtype = pa.binary()
        fields.append((field.name, dtype))
    return pa.schema(fields)
