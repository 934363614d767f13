"""A user's function as a sink, called with DataFrames; the other sinks are in ``weft.sinks``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from weft.errors import JobError
from weft.io.sinks import Sink
from weft.spark.frames import Frames, frame_of


class FrameSink:
    """Calls ``function(frames, seq)`` with each step's results as DataFrames, and the step's number."""

    def __init__(self, function: Callable[[Mapping[str, DataFrame], int], Any], spark: SparkSession) -> None:
        self.function, self.spark = function, spark

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Nothing to do."""

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Call the function."""
        names = tuple(results)
        made = Frames(lambda name: frame_of(results[name], self.spark), names, lambda: dict(results))
        self.function(made, seq)

    def close(self) -> None:
        """Nothing to do."""


def as_sink(sink: Any, spark: SparkSession) -> Sink:
    """A sink, or a function as one."""
    if isinstance(sink, Sink):
        return sink
    if callable(sink):
        return FrameSink(sink, spark)
    raise JobError(
        f"{sink!r} is not a sink; give a function f(frames, seq), or an object with open, deliver and close "
        "such as weft.io.sinks.ParquetSink(path)"
    )
