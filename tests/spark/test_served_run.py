"""A run on Spark behind HTTP: a query joins, answers and leaves while it runs."""

from __future__ import annotations

import time

import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient
from rich.console import Console

from support.served_job import JOB, Folder
from weft.io.sinks.latest import LatestSink
from weft.jobs.job import parse
from weft.jobs.launch import make_sink, start
from weft.jobs.report import Report
from weft.sinks import Sinks
from weft.web.api import make_api
from weft.web.guard import RequestGuard
from weft.web.record import Record
from weft.web.run_service import RunService

QUERIES = "/api/v1/queries"


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
            RequestGuard(make_api(RunService(running, latest, record, "spark"))), base_url="http://localhost"
        )
        folder.put(1, 2)
        _until(lambda: client.get("/health").json()["steps"] == 1)
        asked = client.post(
            QUERIES,
            json={"name": "sum5", "sql": "SELECT sum(n) AS n FROM s [RANGE '5 s']"},
            params={"wait": 0.1},
        )
        assert (asked.status_code, asked.json()["state"]) == (202, "adding")
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
            RequestGuard(make_api(RunService(running, latest, record, "spark"))), base_url="http://localhost"
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
