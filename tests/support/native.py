"""Queries as Spark itself answers them: one ``groupBy(window(...))`` each."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from support.spark_column import to_column
from weft.model.query import Aggregate, Query

TIME = "ts"


def _timed(extreme: Callable[..., SparkColumn]) -> Callable[[SparkColumn], SparkColumn]:
    return lambda x: extreme(x, F.when(x.isNotNull(), F.struct(F.col(TIME), x)))


def _by(extreme: Callable[..., SparkColumn]) -> Callable[[SparkColumn, SparkColumn], SparkColumn]:
    return lambda x, y: extreme(x, F.when(y.isNotNull(), F.struct(y, F.col(TIME), x)))


NATIVE: dict[str, Callable[..., SparkColumn]] = {
    "count_star": lambda: F.count(F.lit(1)),
    "count": F.count,
    "count_if": F.count_if,
    "sum": F.sum,
    "avg": F.avg,
    "min": F.min,
    "max": F.max,
    "range": lambda x: F.max(x) - F.min(x),
    "var_pop": F.var_pop,
    "var_samp": F.var_samp,
    "stddev_pop": F.stddev_pop,
    "stddev_samp": F.stddev_samp,
    "sum_of_squares": lambda x: F.sum(x * x),
    "product": F.product,
    "geometric_mean": lambda x: F.exp(F.avg(F.ln(x))),
    "first": _timed(F.min_by),
    "last": _timed(F.max_by),
    "min_by": _by(F.min_by),
    "max_by": _by(F.max_by),
    "bool_and": F.bool_and,
    "bool_or": F.bool_or,
}
"""How Spark says each aggregate; ties among equals are broken as weft breaks them."""


def natively(frame: DataFrame, query: Query, schema: pa.Schema) -> DataFrame:
    """The query in plain Spark, over a frame with this (Arrow) schema."""
    window = query.window
    if query.predicate is not None:
        frame = frame.where(to_column(query.predicate, schema))
    lengths = (f"{length} microseconds" for length in (window.range, window.slide, window.offset))
    grouped = frame.groupBy(F.window(TIME, *lengths).alias("window"), *query.group_by)
    answers = grouped.agg(*(_aggregate(a, schema) for a in query.aggregates))
    bounds = [F.col(f"window.{side}").alias(f"window_{side}") for side in ("start", "end")]
    return answers.select(*query.group_by, *bounds, *(a.alias for a in query.aggregates))


def _aggregate(aggregate: Aggregate, schema: pa.Schema) -> SparkColumn:
    return NATIVE[aggregate.function](*(to_column(a, schema) for a in aggregate.args)).alias(aggregate.alias)


def collect(frames: dict[str, DataFrame]) -> dict[str, pa.Table]:
    """The rows of many small frames, two at a time; their union would take Spark far longer to plan."""
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(frames, pool.map(DataFrame.toArrow, frames.values())))
