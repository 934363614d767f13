"""Ranges as a stream of Spark's: Spark plans them and keeps the offsets, weft's own tasks read the rows."""

from __future__ import annotations

import base64
import pickle
import time
from collections.abc import Iterator
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from weft.io.sources.ranges import Ranged, between, limited
from weft.spark.failure import surfaced

FORMAT = "weft_ranges"
COLUMNS = "partition string, start bigint, end bigint"
RANGE_COLUMNS = ("partition", "start", "end")
POLL_SECONDS = 0.1
SOURCE = "source_secret"
"""The option that has the source; Spark hides options of such names, and the source may hold passwords."""


def ranges_of(source: Ranged, spark: SparkSession) -> DataFrame:
    """Return a stream of the ranges of a source's rows, from a Python data source."""
    spark.dataSource.register(_Ranges)
    packed = base64.b64encode(cloudpickle.dumps(source)).decode()  # type: ignore[no-untyped-call]
    with surfaced():
        return spark.readStream.format(FORMAT).schema(COLUMNS).option(SOURCE, packed).load()


class _Ranges(DataSource):
    """The data source that Spark calls."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _Reader(pickle.loads(base64.b64decode(self.options[SOURCE])))


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches, in a process of its own beside the driver."""

    def __init__(self, source: Ranged) -> None:
        self.source = source
        self.ends, self.last = False, dict[str, int]()
        self.last_poll = time.monotonic() - POLL_SECONDS

    def initialOffset(self) -> dict[str, Any]:
        return self.source.first()

    def prepareForTriggerAvailableNow(self) -> None:
        self.ends = True

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        if not self.ends and self.last == start:
            # Nothing had come: Spark asks again after ten milliseconds, which is too soon for brokers. Where
            # other sources had a batch in the meantime, it is not.
            time.sleep(max(0.0, self.last_poll + POLL_SECONDS - time.monotonic()))
        if not self.ends or not self.last:
            # What is there when the stream is first asked is what "available now" takes.
            self.last = self.source.latest(start)
            self.last_poll = time.monotonic()
        return limited(start, self.last, self.source.max_rows_per_batch)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        ranges = between(start, end)
        self.source.check(ranges)
        return [InputPartition([(r.partition, r.start, r.end) for r in ranges])]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, int, int]]:
        yield from partition.value
