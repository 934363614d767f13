"""A job on Spark that is served over HTTP, and the folder of files that it watches."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

JOB = """
[source]
kind = "files"
path = "in"
schema = { ts = "timestamp", n = "bigint" }
[stream]
time = "ts"
checkpoint = "state"
[queries]
sql = '''
-- name: total
SELECT sum(n) AS total FROM s [RANGE '10 s' SLIDE '5 s']
'''
[sink]
kind = "parquet"
path = "answers"
[spark]
buckets = 2
"""
START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


class Folder:
    """Files that a stream watches."""

    def __init__(self, path: Path) -> None:
        self.path, self.count = path / "in", 0
        self.path.mkdir()

    def put(self, *seconds: int) -> None:
        times = pa.array([START + datetime.timedelta(seconds=s) for s in seconds], pa.timestamp("us", "UTC"))
        self.count += 1
        hidden = self.path / f".{self.count}.parquet"
        pq.write_table(pa.table({"ts": times, "n": pa.array(seconds, pa.int64())}), hidden)
        hidden.rename(self.path / f"{self.count}.parquet")
