"""A run on Spark behind HTTP: a query joins, answers and leaves while it runs."""

from __future__ import annotations

import datetime
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient
from rich.console import Console

from weft.job import parse
from weft.latest import LatestSink
from weft.launch import make_sink, start
from weft.report import Report
from weft.sinks import Sinks
from weft.web.api import make_api
from weft.web.doors import Doors
from weft.web.record import Record
from weft.web.served import Served

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
QUERIES = "/api/v1/queries"
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


@pytest.mark.slow
def test_a_query_is_added_over_http_to_a_run_on_spark_and_is_there_after_a_restart(tmp_path, spark):
    folder = Folder(tmp_path)
    job = parse(JOB, tmp_path)
    report = Report(Console(quiet=True))

    def serve():
        record, latest = Record(), LatestSink()
        sink = Sinks(make_sink(job, report), latest)
        return record, latest, start(job, "spark", sink, report, on_progress=record.step, serving=True)

    record, latest, starting = serve()
    with starting as running:
        client = TestClient(
            Doors(make_api(Served(running, latest, record, "spark"))), base_url="http://localhost"
        )
        folder.put(1, 2)
        _until(lambda: client.get("/health").json()["steps"] == 1)
        asked = client.post(
            QUERIES,
            json={"name": "sum5", "sql": "SELECT sum(n) AS n FROM s [RANGE '5 s']"},
            params={"wait": 0.1},
        )
        assert (asked.status_code, asked.json()["state"]) == (202, "joining")
        folder.put(3, 4)
        _until(lambda: client.get(f"{QUERIES}/sum5").json()["state"] == "running")
        folder.put(21)
        _until(lambda: client.get(f"{QUERIES}/sum5/results").json()["rows"])
        assert [r["n"] for r in client.get(f"{QUERIES}/sum5/results").json()["rows"]] == [10]
        assert client.get(f"{QUERIES}/sum5").json()["exact_from"] == "2024-01-01T00:00:00Z"
        assert [s["version"] for s in client.get("/api/v1/progress").json()] == [1, 2, 2]
        assert "weft_rows_total 5.0" in client.get("/metrics").text
        assert client.get("/api/v1/plan").json()["version"] == 2
    assert pq.read_table(tmp_path / "answers" / "sum5").column("n").to_pylist() == [10]
    record, latest, starting = serve()
    with starting as running:
        client = TestClient(
            Doors(make_api(Served(running, latest, record, "spark"))), base_url="http://localhost"
        )
        assert [q["name"] for q in client.get(QUERIES).json()] == ["sum5", "total"]
        assert client.get(f"{QUERIES}/sum5").json()["exact_from"] == "2024-01-01T00:00:00Z"
        left = client.delete(f"{QUERIES}/sum5")
        folder.put(40)
        _until(lambda: client.get(f"{QUERIES}/sum5").status_code == 404)
        assert left.status_code == 202
    assert client.get("/health").json()["state"] == "ended"


def _until(done) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)
