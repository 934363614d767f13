"""Streams that Spark reads itself, made as a job file declares them."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from weft.io.kinds import SparkInput


def read_stream(source: SparkInput, spark: SparkSession) -> DataFrame:
    """Make the streaming DataFrame of a source that Spark reads."""
    reader = spark.readStream.format(source.format).options(**source.options)
    if isinstance(source.schema, str):
        reader = reader.schema(source.schema)
    elif source.schema is not None:
        reader = reader.schema(spark.createDataFrame(source.schema.empty_table()).schema)
    return reader.load(source.path)
