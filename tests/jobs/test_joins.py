"""Job files with several sources: read, planned, run in this process, and behind HTTP."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient
from rich.console import Console
from typer.testing import CliRunner

import weft
from support.join_oracle import as_tuples, oracle, ordered
from support.places import EXAMPLES
from weft.cli.main import app
from weft.errors import JobError
from weft.io.sinks.latest import LatestSink
from weft.jobs import launch
from weft.jobs.job import parse
from weft.jobs.report import Report
from weft.sinks import MemorySink
from weft.web.api import make_api
from weft.web.record import Record
from weft.web.run_service import RunService

START = datetime.datetime(2024, 7, 1, 12)

JOB = """
[sources.a]
kind = "files"
path = "a"
[sources.b]
kind = "files"
path = "b"
max_files_per_batch = 1
[stream]
time = "ts"
time_columns = { b = "at" }
[queries]
sql = '''
-- name: pairs
SELECT a.n, b.m FROM a [RANGE '5 min'], b [RANGE '2 min'] WHERE a.k = b.k;
-- name: counted
SELECT a.k, count(*) AS c FROM a [RANGE '5 min'], b [RANGE '2 min'] WHERE a.k = b.k
GROUP BY a.k, window('4 min', '2 min')
'''
[sink]
kind = "memory"
"""


@pytest.fixture
def streams(tmp_path: Path) -> dict[str, pa.Table]:
    """Two folders of files, and their rows."""
    times = [START + datetime.timedelta(minutes=n) for n in range(20)]
    rows = {
        "a": pa.table({"ts": times, "k": ["p", "q"] * 10, "n": list(range(20))}),
        "b": pa.table({"at": times, "k": ["p", "p", "q", "r"] * 5, "m": list(range(20))}),
    }
    for name, table in rows.items():
        (tmp_path / name).mkdir()
        for part in range(2):
            file = tmp_path / name / f"{part}.parquet"
            pq.write_table(table.slice(part * 10, 10), file)
            os.utime(file, (1_700_000_000 + part,) * 2)  # Spark takes the oldest file first
    return rows


def naive(table: pa.Table) -> list[dict[str, Any]]:
    """A table's rows; what Spark reads has a time zone."""
    return [
        {k: v.replace(tzinfo=None) if isinstance(v, datetime.datetime) else v for k, v in row.items()}
        for row in table.to_pylist()
    ]


def quiet() -> Report:
    return Report(Console(quiet=True))


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.slow)])
def test_a_job_of_joins_gives_what_weft_run_gives(
    engine: str, streams: dict[str, pa.Table], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if engine == "spark":
        request.getfixturevalue("spark")
    sink = launch.run(parse(JOB, tmp_path), engine, quiet())
    assert isinstance(sink, MemorySink)
    queries = weft.sql(parse(JOB, tmp_path).sql)
    whole = weft.run(queries, streams, time={"a": "ts", "b": "at"})
    for name in ("pairs", "counted"):
        assert whole[name].num_rows > 5
        assert ordered(naive(sink.tables[name])) == ordered(naive(whole[name]))
    named = {"a": streams["a"], "b": streams["b"].rename_columns(["ts", "k", "m"])}
    assert ordered(as_tuples(sink.tables["pairs"])) == ordered(oracle(queries[0], named))


def test_joins_behind_http(streams: dict[str, pa.Table], tmp_path: Path) -> None:
    job, latest, record = parse(JOB, tmp_path), LatestSink(), Record()
    with launch.start(job, "local", latest, quiet(), on_progress=record.step, serving=True) as running:
        web = TestClient(make_api(RunService(running, latest, record, "local")))

        def add(sql: str, **more: Any) -> Any:
            return web.post("/api/v1/queries?wait=20", json={"sql": sql, **more})

        shorter = "SELECT a.n, b.m FROM a [RANGE '1 min'], b [RANGE '1 min'] WHERE a.k = b.k"
        added = add(shorter, name="shorter")
        assert added.status_code == 201, added.text
        assert {q["name"]: q["window"] for q in web.get("/api/v1/queries").json()} == {
            "pairs": "a 5 min, b 2 min",
            "counted": "4 min every 2 min of a 5 min, b 2 min",
            "shorter": "a 1 min, b 1 min",
        }
        refused = add(shorter.replace("a.n", "a.z"), name="wrong")
        assert (refused.status_code, refused.json()["query"]) == (422, "wrong")
        assert "unknown column 'z'" in refused.json()["message"]
        windowed = add("SELECT count(*) AS c FROM a [RANGE '1 min']", name="windowed")
        assert windowed.status_code == 201, "a window query may stand beside joins"
        assert web.delete("/api/v1/queries/windowed?wait=20").status_code == 200
        assert add(shorter.replace("b [", "c [").replace("b.", "c.")).json()["hint"] == "given are a, b"
        assert web.delete("/api/v1/queries/shorter?wait=20").status_code == 200
        found = web.get("/api/v1/queries/counted/results", params={"where": "k=p", "limit": 3}).json()
        assert found["columns"] == ["k", "window_start", "window_end", "c"]
        assert {row["k"] for row in found["rows"]} <= {"p"}
        pairs = web.get("/api/v1/queries/pairs/series").json()
        assert pairs["window_end"] and pairs["window_start"] == pairs["window_end"]
        assert list(pairs["values"]) == ["n", "m"]
        lines = web.get("/api/v1/summary?order=window").json()["queries"]
        assert {line["name"]: line["groups"] is None for line in lines} == {"pairs": True, "counted": False}
        costs = web.get("/api/v1/costs").json()
        assert [(tree["stream"], tree["names"]) for tree in costs["trees"]] == [("joined", ["counted"])]
        assert (costs["joins"]["joins"], costs["joins"]["unit"]) == (2, "comparisons/s")
        assert costs["joins"]["alone"] > costs["joins"]["cost"] > 0
        assert [grouping["queries"] for grouping in costs["groupings"]] == [1]
        plan = web.get("/api/v1/plan").json()
        assert [q["name"] for tree in plan["trees"] for q in tree["queries"]] == ["counted"]
        assert plan["trees"][0]["queries"][0]["where"] is None
        assert [join["name"] for join in plan["chains"][0]["joins"]] == ["pairs", "counted"]
        assert "in one chain" in web.get("/api/v1/plan.txt").text
        picture, chains = (web.get("/api/v1/plan.svg", params=p).text for p in ({}, {"chains": True}))
        assert ("tree 0 of joined" in picture, "chain 0" in picture) == (True, True)
        assert ("tree 0 of joined" in chains, "chain 0" in chains) == (False, True)
        for unit in ("operations/s", "comparisons/s"):
            assert f'weft_plan_cost{{unit="{unit}"}}' in web.get("/metrics").text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (JOB.replace("[sources.a]", "[source]"), r"write one or the other"),
        (JOB.partition("[stream]")[2].join(["[stream]", ""]), r"\[source\] is missing, or \[sources.NAME\]"),
        (JOB.replace('kind = "files"\npath = "a"', 'kind = "file"'), r"\[sources.a\] kind must be one of"),
        (
            JOB.replace('path = "a"', 'paht = "a"'),
            r"unknown key 'paht' in \[sources.a\].*did you mean 'path'",
        ),
        (JOB.replace("{ b =", "{ c ="), r"unknown stream 'c' in \[stream\] time_columns; known: a, b"),
        ("sources = 3\n[queries]\nsql = 'x'", r"'sources' must be a section"),
    ],
)
def test_what_is_wrong_with_a_job_is_said(text: str, message: str) -> None:
    with pytest.raises(JobError, match=message):
        parse(text)


def test_window_queries_beside_joins(streams: dict[str, pa.Table], tmp_path: Path) -> None:
    windowed = "-- name: minutes\nSELECT count(*) AS c FROM a [RANGE '1 min']"
    job = parse(JOB.replace("sql = '''", f"sql = '''{windowed};"), tmp_path)
    sink = MemorySink()
    with launch.start(job, "local", sink, quiet()) as running:
        assert running.await_done()
    alone = weft.run(windowed, streams["a"], time="ts")["minutes"]
    by_start = [("window_start", "ascending")]
    assert sink.tables["minutes"].sort_by(by_start).equals(alone.sort_by(by_start))
    assert sink.tables["pairs"].num_rows


def test_the_chains_of_a_job_file() -> None:
    shown = CliRunner().invoke(app, ["plan", str(EXAMPLES / "joins.toml")])
    assert shown.exit_code == 0, shown.output
    assert "in one chain by mem-opt" in shown.output
