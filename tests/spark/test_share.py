"""``weft.share``: one pass over a DataFrame or files, as Spark and the in-process runner answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import weft
from support import trades
from weft.errors import AnswerOverflow, JobError, QueryError
from weft.io.files import Files
from weft.spark import batch


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return trades.table()


@pytest.fixture(scope="module")
def frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    return spark.createDataFrame(rows).repartition(3).cache()


def collected(frames: Mapping[str, DataFrame]) -> dict[str, list[tuple[object, ...]]]:
    return trades.rows_of({name: frame.toArrow() for name, frame in frames.items()})


def test_as_spark_answers(frame: DataFrame) -> None:
    native = (
        frame.where("volume > 300")
        .groupBy("symbol", F.window("ts", "90 seconds", "60 seconds", "30 seconds").alias("w"))
        .agg(F.sum(F.col("price") * F.col("volume")), F.max("price"), F.count(F.lit(1)))
        .select("symbol", "w.start", "w.end", "sum((price * volume))", "max(price)", "count(1)")
    )
    found = collected(weft.share(frame, trades.queries(), time="ts"))
    assert trades.close({"busy": found["busy"]}, trades.rows_of({"busy": native.toArrow()}))


@pytest.mark.fast
def test_as_the_in_process_runner_answers(frame: DataFrame, rows: pa.Table) -> None:
    frames = weft.share(frame, trades.queries(), time="ts", buckets=5)
    assert list(frames) == ["busy", "calm", "everything"]
    assert trades.close(trades.rows_of(frames.to_arrow()), trades.expected(rows))
    assert trades.close(collected(frames), trades.expected(rows))


def test_files_are_read_directly(spark: SparkSession, rows: pa.Table, tmp_path: Path) -> None:
    trades.write(rows, tmp_path, files=3)
    frames = weft.share(Files(tmp_path), trades.queries(), time="ts", spark=spark)
    assert trades.close(collected(frames), trades.expected(rows))


def test_frames_are_typed(frame: DataFrame) -> None:
    frames = weft.share(frame, trades.queries(), time="ts")
    assert frames["calm"].schema == T.StructType(
        [
            T.StructField("symbol", T.StringType()),
            T.StructField("window_start", T.TimestampType()),
            T.StructField("window_end", T.TimestampType()),
            T.StructField("mean", T.DoubleType()),
            T.StructField("least", T.LongType()),
        ]
    )


def test_times_without_zone_stay_so(frame: DataFrame) -> None:
    plain = frame.withColumn("ts", F.to_timestamp_ntz(F.col("ts").cast("string")))
    frames = weft.share(plain, weft.sql("SELECT max(ts) AS last FROM t [RANGE '1 min']"), time="ts")
    types = [f.dataType for f in frames["q1"].schema]
    assert types == [T.TimestampNTZType()] * 3
    assert frames["q1"].count() == 34


def test_session_time_zone_does_not_move_windows(
    spark: SparkSession, frame: DataFrame, rows: pa.Table
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        found = collected(weft.share(frame, trades.queries(), time="ts"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert trades.close(found, trades.expected(rows))


def test_nothing_in_nothing_out(spark: SparkSession, frame: DataFrame) -> None:
    for empty in (frame.where("volume < 0"), spark.createDataFrame([], frame.schema), frame.limit(0)):
        frames = weft.share(empty, trades.queries(), time="ts")
        assert frames["busy"].columns == ["symbol", "window_start", "window_end", "value", "top", "n"]
        assert collected(frames) == {}


def test_a_frame_without_partitions(spark: SparkSession) -> None:
    none = spark.range(0).selectExpr("timestamp_seconds(id) AS ts", "id AS volume")
    frames = weft.share(none, weft.sql("SELECT sum(volume) AS v FROM t [RANGE '1 min']"), time="ts")
    assert frames["q1"].count() == 0


def test_large_results_stay_with_the_workers(
    frame: DataFrame, rows: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "SMALL_RESULT_BYTES", 10)
    monkeypatch.setattr(batch, "COLLECT_BYTES_PER_JOB", 1000)
    frames = weft.share(frame, trades.queries(), time="ts")
    assert trades.close(collected(frames), trades.expected(rows))
    assert trades.close(trades.rows_of(frames.to_arrow()), trades.expected(rows))
    assert frames["busy"].schema["window_start"].dataType == T.TimestampType()


def test_settings_are_left_as_they_were(spark: SparkSession, frame: DataFrame) -> None:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(name, "77")
    try:
        weft.share(frame.limit(10), trades.queries(), time="ts")
        assert spark.conf.get(name) == "77"
    finally:
        spark.conf.unset(name)


def test_odd_column_names_and_types(spark: SparkSession) -> None:
    odd = spark.createDataFrame(
        trades.table(10).rename_columns(["event time", "a.b", "pri`ce", "volume", "unread"])
    ).withColumn("map", F.create_map(F.lit("k"), F.lit(1)))
    query = weft.query("q").source("t").window("1 min").group_by("a.b").aggregate(n="count(*)")
    frames = weft.share(odd, [query], time="event time")
    assert frames["q"].columns[0] == "a.b"
    assert sum(row.n for row in frames["q"].collect()) == 10


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SELECT sum(prise) AS s FROM t [RANGE '1 min']", QueryError, "prise"),
        ("SELECT sum(symbol) AS s FROM t [RANGE '1 min']", QueryError, "sum"),
        (
            "-- name: huge\nSELECT sum(volume + 9223372036854770000) AS s FROM t [RANGE '1 min']",
            AnswerOverflow,
            "query 'huge'",
        ),
    ],
)
def test_errors_come_as_they_are(frame: DataFrame, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        weft.share(frame, weft.sql(text), time="ts")
    assert "Traceback" not in str(raised.value)
    assert "org.apache" not in str(raised.value)


def test_a_file_that_cannot_be_read_is_named(spark: SparkSession, tmp_path: Path) -> None:
    trades.write(trades.table(100), tmp_path, files=1)
    (tmp_path / "z.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    with pytest.raises(JobError, match=r"z\.parquet"):
        weft.share(Files(tmp_path), trades.queries(), time="ts", spark=spark)
    frames = weft.share(Files(tmp_path, on_bad_file="skip"), trades.queries(), time="ts", spark=spark)
    assert frames["everything"].count() > 0


def test_a_stream_is_refused(spark: SparkSession) -> None:
    with pytest.raises(JobError, match=r"weft\.stream"):
        weft.share(spark.readStream.format("rate").load(), trades.queries(), time="timestamp")
    with pytest.raises(JobError, match="not a source"):
        weft.share([1, 2], trades.queries(), time="ts")  # type: ignore[arg-type]
