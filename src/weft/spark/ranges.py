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

from weft.io.sources.ranges import Range, Ranged, between, limited, share_out
from weft.operators.windows.program import Program
from weft.spark.failure import surfaced
from weft.spark.inputs import RangeRows, one_task
from weft.spark.sources import BatchPart, Rows
from weft.store.slice_store import SliceStore

FORMAT = "weft_ranges"
COLUMNS = "partition string, start bigint, end bigint"
POLL_SECONDS = 0.1
SOURCE = "source_secret"
"""The option that has the source; Spark hides options of such names, and the source may hold passwords."""


class RangedBatches:
    """The ranges of a source's rows, batch by batch: Spark gets them from a Python data source."""

    def __init__(self, source: Ranged, spark: SparkSession) -> None:
        self.source, self.spark = source, spark
        spark.dataSource.register(_Ranges)
        packed = base64.b64encode(cloudpickle.dumps(source)).decode()  # type: ignore[no-untyped-call]
        with surfaced():
            self.frame = spark.readStream.format(FORMAT).schema(COLUMNS).option(SOURCE, packed).load()

    def parts(self, batch: DataFrame, batch_id: int, store: SliceStore) -> Iterator[BatchPart[Program]]:
        """The batch's ranges, all at once."""
        ranges = [Range(*row) for row in batch.collect()]
        yield BatchPart(self._rows(batch, ranges))

    def _rows(self, batch: DataFrame, ranges: list[Range]) -> Rows[Program]:
        def rows(program: Program) -> tuple[DataFrame, RangeRows, tuple[str, ...]]:
            return *range_rows(self.source, ranges, batch.sparkSession), ()

        return rows


def range_rows(source: Ranged, ranges: list[Range], spark: SparkSession) -> tuple[DataFrame, RangeRows]:
    """Ranges, shared out to tasks."""
    shares = share_out(ranges, spark.sparkContext.defaultParallelism)
    return one_task(spark, len(shares)), RangeRows(source, shares)


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

    def initialOffset(self) -> dict[str, Any]:
        return self.source.first()

    def prepareForTriggerAvailableNow(self) -> None:
        self.ends = True

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        if not self.ends and self.last == start:
            # Nothing had come: Spark asks again after ten milliseconds, which is too soon for brokers.
            time.sleep(POLL_SECONDS)
        if not self.ends or not self.last:
            # What is there when the stream is first asked is what "available now" takes.
            self.last = self.source.latest(start)
        return limited(start, self.last, self.source.max_rows_per_batch)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        ranges = between(start, end)
        self.source.check(ranges)
        return [InputPartition([(r.partition, r.start, r.end) for r in ranges])]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, int, int]]:
        yield from partition.value
