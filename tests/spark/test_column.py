"""The same tree in both worlds: Spark's own evaluation of seeded expressions equals ours."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from support.expr_cases import MAX, MIN, POOLS, SCHEMA, batch_of, call, expression, rows
from support.seeds import seeded_random
from support.spark_column import SPARK, to_column
from weft.errors import QueryError
from weft.expr.evaluate import Evaluator
from weft.expr.functions import FUNCTIONS
from weft.model.expression import Column, Expr

N, X, S, T, Q = (Column(name) for name in "ixstq")


def close(ours: Any, spark: Any) -> bool:
    """Equal, up to the last bits of functions such as exp, of which no two libraries agree."""
    if isinstance(ours, float) and isinstance(spark, float):
        same = ours == spark or (math.isnan(ours) and math.isnan(spark))
        return same or math.isclose(ours, spark, rel_tol=1e-14)
    if isinstance(ours, dt.datetime) and isinstance(spark, dt.datetime):
        zones = (v if v.tzinfo else v.replace(tzinfo=dt.UTC) for v in (ours, spark))
        return next(zones) == next(zones)
    return ours == spark


def assert_same(
    spark: SparkSession, expressions: list[Expr], batch: pa.RecordBatch, zone: str = "UTC"
) -> None:
    """One job: every expression is a column of one select."""
    frame = frame_of(spark, batch)
    columns = [to_column(e, batch.schema, zone).alias(f"c{n}") for n, e in enumerate(expressions)]
    # Interpreted: compiling some hundred trees to Java takes far longer than running them on few rows.
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    try:
        answers = frame.select(*columns).toArrow()
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")
        spark.conf.unset("spark.sql.codegen.factoryMode")
    evaluator = Evaluator(batch, zone=zone)
    for expr, theirs in zip(expressions, answers.columns, strict=True):
        ours = evaluator.evaluate(expr)
        for row, mine, truth in zip(batch.to_pylist(), ours.to_pylist(), theirs.to_pylist(), strict=True):
            assert close(mine, truth), f"{expr}\n{row}\ngives {mine!r}, in Spark {truth!r}"


def frame_of(spark: SparkSession, batch: pa.RecordBatch) -> DataFrame:
    plain = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in batch.schema]
    return spark.createDataFrame(pa.table(batch).cast(pa.schema(plain))).coalesce(1)


def test_every_function_is_mapped() -> None:
    rewritten = {"if", "nullif"}  # CASE by the time they are checked
    assert set(SPARK) - {"column"} == set(FUNCTIONS) - rewritten


@pytest.mark.slow
def test_seeded_expressions_equal_spark(spark: SparkSession) -> None:
    rng = seeded_random(20240229)
    expressions = [expression(rng, kind, 1 + n % 4) for n in range(50) for kind in sorted(POOLS)]
    assert_same(spark, expressions, batch_of(rows(rng, 60)))


def test_each_function_equals_spark(spark: SparkSession) -> None:
    doubles = ("sqrt", "exp", "ln", "log10", "log2", "sign", "floor", "ceil", "isnan", "abs", "negate")
    expressions = [call(name, argument) for name in doubles for argument in (X, N)]
    expressions += [call("power", a, b) for a in (X, 2, -1.0) for b in (X, 0.5, 3, math.inf)]
    expressions += [call("round", a, digits) for a in (X, N) for digits in (-19, -18, -3, -1, 0, 1, 2, 5, 15)]
    expressions += [call("cast", X, kind) for kind in ("bigint", "boolean", "timestamp")]
    expressions += [call("cast", N, kind) for kind in ("double", "string", "boolean", "timestamp")]
    expressions += [call("cast", S, kind) for kind in ("bigint", "double", "boolean", "timestamp", "date")]
    expressions += [call("cast", T, kind) for kind in ("bigint", "double", "string", "date")]
    expressions += [call("cast", Q, kind) for kind in ("timestamp", "string")]
    expressions += [
        call(op, a, b) for op in ("+", "-", "*", "/", "%") for a in (N, X) for b in (N, X, 0, -1, 2.5)
    ]
    expressions += [call("div", N, b) for b in (N, 0, -1, 7)]
    expressions += [
        call("substring", S, start, size) for start in (-5, -2, 0, 1, 3) for size in (-1, 0, 2, MAX)
    ]
    expressions += [call("like", S, p, "!") for p in ("%!%%", "a!_b", "!!", "_%")]
    expressions += [call("in", X, math.nan, 0.0), call("in", S, "a", "", None), call("in", N, MIN, MAX, 2.5)]
    assert_same(spark, expressions, batch_of(rows(seeded_random(5), 300)))


def test_doubles_are_written_as_java_does(spark: SparkSession) -> None:
    values = [
        1e7,
        9999999.0,
        1e-3,
        9.99e-4,
        1e-5,
        123456789.5,
        1e21,
        1.5e-7,
        0.1,
        -0.0,
        0.0,
        100.0,
        -12345678.0,
    ]
    values += [math.nan, math.inf, -math.inf, 1.7976931348623157e308, 3.141592653589793, 2.5e-300]
    batch = pa.record_batch({"x": values})
    assert_same(spark, [call("cast", Column("x"), "string")], batch)


def test_timestamps_without_a_zone(spark: SparkSession) -> None:
    times = [dt.datetime(2024, 2, 29, 12, 30, 15, 250_000), dt.datetime(1969, 12, 31, 23, 59), None]
    batch = pa.record_batch({"n": pa.array(times, pa.timestamp("us"))})
    n = Column("n")
    expressions = [call("hour", n), call(">", n, times[1]), call("=", n, "2024-02-29 12:30:15.25")]
    expressions += [call("cast", n, "string"), call("cast", n, "date"), call("in", n, times[0])]
    assert_same(spark, expressions, batch)


def test_names_are_quoted(spark: SparkSession) -> None:
    batch = pa.record_batch({"a.b": [1, 2], "odd `name`": [3, 4]})
    assert_same(spark, [call("+", Column("a.b"), Column("odd `name`"))], batch)


def test_text_of_a_query_is_never_parsed(spark: SparkSession) -> None:
    with pytest.raises(QueryError, match="unknown function 'java_method'"):
        to_column(call("java_method", "java.lang.System", "exit"), SCHEMA)
    with pytest.raises(QueryError, match="unknown column"):
        to_column(Column("i) or (1=1"), SCHEMA)


def test_local_times_are_those_of_the_session(spark: SparkSession) -> None:
    times = [
        dt.datetime(2024, 3, 31, 0, 59, 59),
        dt.datetime(2024, 3, 31, 1),
        dt.datetime(2024, 10, 27, 0, 30),
    ]
    times += [dt.datetime(2060, 7, 1, 23, 30), dt.datetime(1930, 1, 1), None]
    text = ["2024-03-31 02:30:00", "2024-10-27 02:30:00", "2024-07-01 12:00:00Z", "2060-07-01", "1950", "x"]
    zoned = pa.array([t and t.replace(tzinfo=dt.UTC) for t in times], pa.timestamp("us", "UTC"))
    days = pa.array([t and t.date() for t in times])
    batch = pa.record_batch({"t": zoned, "s": text, "q": days})
    parts = ("year", "month", "day", "dayofyear", "hour", "minute")
    expressions: list[Expr] = [call(name, T) for name in parts]
    expressions += [call("cast", T, kind) for kind in ("string", "date", "bigint", "double")]
    expressions += [call("cast", call("cast", S, "timestamp"), "bigint"), call("<", T, "2024-03-31 03:00:00")]
    expressions += [call("<", Q, T), call("cast", call("cast", Q, "timestamp"), "bigint")]
    expressions += [call("in", T, dt.datetime(2024, 3, 31, 3)), call("=", T, dt.datetime(2024, 3, 31, 3))]
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Paris")
    try:
        assert_same(spark, expressions, batch, "Europe/Paris")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
