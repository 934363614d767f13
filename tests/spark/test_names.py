"""Names in FROM on Spark: the same rule for ``share``, ``stream`` and queries that are added."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import weft
from weft.errors import QueryError
from weft.sinks import MemorySink

FIVES = "-- name: fives\nSELECT sum(x) AS x FROM trades [RANGE '5 min']"
HOURLY = "-- name: hourly\nSELECT max(x) AS top FROM fives [RANGE '1 hour']"
OVER_A_QUERY = "query 'hourly': it reads 'fives', which is another query"


def test_from_names_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    times = pa.array([datetime.datetime(2024, 1, 1)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"ts": times, "x": [1]}), tmp_path / "in" / "1.parquet")
    files = weft.Files(tmp_path / "in")
    both = weft.sql(f"{FIVES};\n{HOURLY}")
    with pytest.raises(QueryError, match=OVER_A_QUERY):
        weft.share(files, both, time="ts", spark=spark)
    with pytest.raises(QueryError, match=OVER_A_QUERY):
        weft.stream(files, both, "ts", sink=MemorySink(), spark=spark)
    with pytest.raises(QueryError, match="there is no stream 'trades'; given are quotes"):
        weft.stream({"quotes": files}, weft.sql(FIVES), "ts", sink=MemorySink(), spark=spark)
    with weft.stream({"trades": files}, weft.sql(FIVES), "ts", sink=MemorySink(), spark=spark) as run:
        with pytest.raises(QueryError, match=OVER_A_QUERY):
            run.add(HOURLY)
        with pytest.raises(
            QueryError, match="query 'fives': there is no stream 'trade'; did you mean 'trades'"
        ):
            run.replace(FIVES.replace("trades", "trade"))
