"""From queries and a source to a program: what ``share`` and ``stream`` do first."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_type

from weft.errors import JobError
from weft.io.files import Files
from weft.io.sources.ranges import Ranged
from weft.model.join import JoinQuery
from weft.model.query import Query
from weft.operators.lookups.tables import LookupTables
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.program import Program
from weft.planning.plan import Plan
from weft.planning.planner import plan as make_plan
from weft.spark.options import ShareOptions
from weft.spark.session import ZONE, session, zone_of
from weft.sql.builder import QueryBuilder


def prepare(
    source: DataFrame | Files | Ranged,
    queries: Iterable[Query | QueryBuilder | JoinQuery] | Plan,
    time: str,
    lookups: LookupTables,
    zone: str,
    options: ShareOptions,
) -> Program:
    """Compile the program that answers the queries over the source; the options have ``buckets``."""
    nodes = options["buckets"] or 1
    if not isinstance(queries, Plan):
        strategy, technique = options["strategy"], options["technique"]
        queries = make_plan(queries, strategy=strategy, technique=technique, nodes=nodes)
    tables = lookups.schemas(queries.queries)
    return compile_plan(queries, columns_of(source), time, options["strict"], nodes, tables=tables, zone=zone)


def session_of(source: DataFrame | Files | Ranged, spark: SparkSession | None) -> SparkSession:
    """The session to run in: the DataFrame's own, the one given, or the running one."""
    if isinstance(source, DataFrame):
        return source.sparkSession
    if not isinstance(source, Files | Ranged):
        raise JobError(
            f"{type(source).__name__} is not a source; give a DataFrame, weft.Files(path), "
            "weft.Kafka(servers, topic) or weft.Generated()"
        )
    return spark or session()


def check_buckets(buckets: int | None, spark: SparkSession) -> int:
    """Return the number of bucket tasks: as many as run at a time, where not given."""
    if buckets is None:
        return max(1, spark.sparkContext.defaultParallelism)
    if not 1 <= buckets <= 10_000:
        raise JobError(f"buckets must be between 1 and 10000, not {buckets}")
    return buckets


def columns_of(source: DataFrame | Files | Ranged) -> pa.Schema:
    """The columns of a source, in the types in which they arrive in Python."""
    return schema_of(source) if isinstance(source, DataFrame) else source.stream_schema()


def schema_of(frame: DataFrame) -> pa.Schema:
    """The Arrow types in which a DataFrame's columns arrive in Python."""
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
