"""Results as DataFrames, in types that keep what the stream had."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType


class Frames(Mapping[str, DataFrame]):
    """Results by query, each made into a DataFrame when it is asked for.

    ``collect`` brings all of them into this process as tables.
    """

    def __init__(
        self,
        make: Callable[[str], DataFrame],
        names: tuple[str, ...],
        collect: Callable[[], dict[str, pa.Table]],
    ) -> None:
        self._make, self._names, self._collect = make, names, collect
        self._frames: dict[str, DataFrame] = {}

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._frames:
            self._frames[name] = self._make(name)
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def to_arrow(self) -> dict[str, pa.Table]:
        """All results as Arrow tables; without another job where they are in this process already."""
        return self._collect()

    def __repr__(self) -> str:
        return f"Frames({', '.join(self._names)})"


def frame_of(table: pa.Table, spark: SparkSession) -> DataFrame:
    """A table as a DataFrame; times without a zone stay so."""
    return spark.createDataFrame(table, struct_of(table.schema))


def struct_of(schema: pa.Schema) -> StructType:
    """The Spark types of a table."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)
