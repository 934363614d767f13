"""From queries and a source to a program: what ``share`` and ``stream`` do first."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_type

from weft.builder import QueryBuilder
from weft.engine.compile import compile_plan
from weft.engine.program import Program
from weft.errors import JobError
from weft.files import Files
from weft.optimize import plan as make_plan
from weft.plan import Plan
from weft.query import JoinQuery, Query
from weft.ranges import Ranged
from weft.spark.session import ZONE, session, zone_of
from weft.tables import Tables


def prepare(
    source: DataFrame | Files | Ranged,
    queries: Iterable[Query | QueryBuilder | JoinQuery] | Plan,
    time: str,
    *,
    strategy: str,
    technique: str,
    nodes: int,
    strict: bool,
    tables: Tables,
    zone: str,
) -> Program:
    """The program that answers the queries over the source."""
    if not isinstance(queries, Plan):
        queries = make_plan(queries, strategy=strategy, technique=technique, nodes=nodes)
    schema = columns_of(source)
    static = tables.schemas(queries.queries)
    return compile_plan(queries, schema, time, strict, nodes, tables=static, zone=zone)


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
    """How many bucket tasks: as many as run at a time, unless told otherwise."""
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
            type = to_arrow_type(field.dataType, timezone=zone)
        except Exception:
            # A type that Arrow does not know: no query can use it, but the column may be there.
            type = pa.binary()
        fields.append((field.name, type))
    return pa.schema(fields)
