"""Names in FROM: a stream, never another query; where streams are given by name, one of them."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient
from rich.console import Console
from typer.testing import CliRunner

import weft
from weft.cli.main import app
from weft.errors import QueryError
from weft.io.sinks.latest import LatestSink
from weft.jobs import launch
from weft.jobs.job import parse
from weft.jobs.report import Report
from weft.local.running import LocalRun
from weft.sinks import MemorySink
from weft.web.api import make_api
from weft.web.record import Record
from weft.web.run_service import RunService

FIVES = "-- name: fives\nSELECT sum(x) AS x FROM trades [RANGE '5 min']"
HOURLY = "-- name: hourly\nSELECT max(x) AS top FROM fives [RANGE '1 hour']"
PAIRS = "-- name: pairs\nSELECT a.x FROM a [RANGE '1 min'], {} b [RANGE '1 min'] WHERE a.x = b.x"
START = datetime.datetime(2024, 1, 1)
ROWS = pa.table({"ts": [START + datetime.timedelta(minutes=m) for m in range(8)], "x": list(range(8))})
OVER_A_QUERY = r"query 'hourly': it reads 'fives', which is another query.*not there yet; read the stream"


def both() -> list[Any]:
    return weft.sql(f"{FIVES};\n{HOURLY}")


@pytest.mark.parametrize(
    "work",
    [
        lambda: weft.run(both(), ROWS, time="ts"),
        lambda: weft.run(both()[::-1], [ROWS], time="ts"),
        lambda: weft.run(both(), {"trades": ROWS}, time="ts"),
        lambda: weft.run(both(), {"trades": ROWS, "quotes": ROWS}, time="ts"),
        lambda: weft.plan(both()),
        lambda: LocalRun(both(), {"trades": ROWS.schema}, "ts"),
        lambda: LocalRun(weft.plan(both(), streams=["trades", "fives"]), ROWS.schema, "ts"),
    ],
)
def test_a_query_over_another_query_is_refused(work):
    with pytest.raises(QueryError, match=OVER_A_QUERY):
        work()


def test_a_join_with_another_query_is_refused_where_it_says_so():
    fives = FIVES.replace("trades", "a")
    with pytest.raises(QueryError, match="query 'pairs', line 4, column 44: it reads 'fives', which is"):
        weft.run(weft.sql(f"{fives};\n{PAIRS.format('fives')}"), {"a": ROWS}, time="ts")


def test_a_window_query_over_a_join_is_refused():
    counted = "-- name: counted\nSELECT count(*) AS n FROM pairs [RANGE '1 min']"
    with pytest.raises(QueryError, match="query 'counted': it reads 'pairs', which is another query"):
        weft.run(weft.sql(f"{PAIRS.format('a')};\n{counted}"), {"a": ROWS}, time="ts")


def test_the_name_of_a_stream_may_be_that_of_a_query():
    queries = weft.sql(
        "-- name: trades\nSELECT count(*) AS n FROM trades [RANGE '1 day'];"
        "-- name: top\nSELECT max(x) AS x FROM trades [RANGE '1 day']"
    )
    for given in ({"trades": ROWS}, {"trades": ROWS, "quotes": ROWS}):
        answers = weft.run(queries, given, time="ts")
        assert (answers["trades"]["n"].to_pylist(), answers["top"]["x"].to_pylist()) == ([8], [7])


def test_a_query_may_be_called_as_the_stream_that_it_alone_reads():
    query = weft.sql("-- name: trades\nSELECT count(*) AS n FROM trades [RANGE '1 day']")
    assert weft.run(query, ROWS, time="ts")["trades"]["n"].to_pylist() == [8]


def test_any_name_stands_for_the_only_stream():
    queries = weft.sql(
        "SELECT count(*) AS n FROM a [RANGE '1 day']; SELECT count(*) AS n FROM b [RANGE '1 day']"
    )
    assert [t["n"].to_pylist() for t in weft.run(queries, ROWS, time="ts").values()] == [[8], [8]]


@pytest.mark.parametrize(
    ("streams", "hint"),
    [
        (["trades"], "given are trades"),
        (["trades", "quote"], r"did you mean 'quote'\? given are trades, quote"),
        (["trades", "Quotes"], r"did you mean 'Quotes'\?"),
    ],
)
def test_a_stream_that_is_not_given_is_refused(streams, hint):
    query = weft.sql("-- name: n\nSELECT count(*) AS n FROM quotes [RANGE '1 min']")
    with pytest.raises(QueryError, match=f"query 'n': there is no stream 'quotes'; {hint}"):
        weft.run(query, dict.fromkeys(streams, ROWS), time="ts")


def test_queries_that_are_added_are_checked_against_those_that_run():
    run = LocalRun(weft.sql(FIVES), ROWS.schema, "ts")
    with pytest.raises(QueryError, match=OVER_A_QUERY):
        run.add(HOURLY)
    with pytest.raises(QueryError, match="query 'fives': it reads 'trades', which is another query"):
        run.add(HOURLY.replace("fives", "s"), name="trades")
    waiting = run.add("-- name: ten\nSELECT sum(x) AS x FROM trades [RANGE '10 min']")
    with pytest.raises(QueryError, match="query 'hourly': it reads 'ten'"):
        run.add(HOURLY.replace("fives", "ten"))
    with pytest.raises(QueryError, match="query 'fives': it reads 'ten'"):
        run.replace(FIVES.replace("trades", "ten"))
    run.drop("fives")
    asked = run.add(HOURLY)
    run.step(ROWS)
    assert waiting.result().version == asked.result().version == 2
    assert {q.name for q in run.queries()} == {"ten", "hourly"}
    run.shutdown()


def test_queries_that_are_added_read_streams_given_by_name():
    run = LocalRun(weft.sql(FIVES), {"trades": ROWS.schema}, "ts")
    for change in (run.add, run.replace):
        with pytest.raises(
            QueryError, match=r"query 'fives': there is no stream 'trade'; did you mean 'trades'"
        ):
            change(FIVES.replace("trades", "trade"))
    run.add("-- name: trades\nSELECT count(*) AS n FROM trades [RANGE '1 day']")
    assert set(run.step(ROWS)) | set(run.close()) == {"fives", "trades"}
    run.shutdown()


def test_joins_that_are_added_are_checked():
    joins = LocalRun(weft.sql(PAIRS.format("b")), {"a": ROWS.schema, "b": ROWS.schema}, "ts")
    with pytest.raises(QueryError, match=r"query 'more', .*there is no stream 'c'"):
        joins.add(weft.sql(PAIRS.format("c").replace("pairs", "more"))[0])
    assert [q.name for q in joins.queries()] == ["pairs"]
    with pytest.raises(QueryError, match=r"query 'more', .*it reads 'pairs', which is another query"):
        joins.add(PAIRS.format("pairs").replace("name: pairs", "name: more"))
    with pytest.raises(QueryError, match=r"query 'more', .*there is no stream 'c'"):
        joins.replace(PAIRS.format("c").replace("pairs", "more"))
    joins.add(PAIRS.format("a"), name="b")  # a stream's name: what FROM b means does not change
    joins.step({"a": ROWS, "b": ROWS})
    assert [q.name for q in joins.queries()] == ["pairs", "b"]


JOB = """
[sources.a]
kind = "files"
path = "a"
[sources.b]
kind = "files"
path = "a"
[stream]
time = "ts"
[queries]
sql = '''{}'''
[sink]
kind = "memory"
"""


def test_jobs_are_checked(tmp_path: Path):
    (tmp_path / "a").mkdir()
    pq.write_table(ROWS, tmp_path / "a" / "1.parquet")
    report = Report(Console(quiet=True))
    more = PAIRS.format("pairs").replace("name: pairs", "name: more")
    for text, message in (
        (PAIRS.format("c"), "query 'pairs', .*: there is no stream 'c'; given are a, b"),
        (f"{PAIRS.format('b')};\n{more}", "query 'more', .*: it reads 'pairs', which is another query"),
    ):
        with pytest.raises(QueryError, match=message):
            launch.run(parse(JOB.format(text), tmp_path), "local", report)
    one = JOB.replace("[sources.a]", "[source]").replace('[sources.b]\nkind = "files"\npath = "a"\n', "")
    with pytest.raises(QueryError, match=OVER_A_QUERY):
        launch.run(parse(one.format(f"{FIVES};\n{HOURLY}"), tmp_path), "local", report)


def test_the_server_refuses_them(tmp_path: Path):
    (tmp_path / "a").mkdir()
    pq.write_table(ROWS, tmp_path / "a" / "1.parquet")
    job = parse(JOB.format(PAIRS.format("b")), tmp_path)
    latest, sink = LatestSink(), MemorySink()
    with launch.start(job, "local", sink, Report(Console(quiet=True)), serving=True) as running:
        client = TestClient(make_api(RunService(running, latest, Record(), "local")))
        refused = client.post("/api/v1/queries", json={"sql": PAIRS.format("c"), "name": "more"})
    assert (refused.status_code, refused.json()["message"]) == (422, "there is no stream 'c'")
    assert refused.json()["query"] == "more"


def test_a_plan_of_them_is_refused_on_the_command_line(tmp_path: Path):
    file = tmp_path / "queries.sql"
    file.write_text(f"{PAIRS.format('b')};\n" + HOURLY.replace("fives", "pairs"))
    refused = CliRunner().invoke(app, ["plan", str(file)])
    assert "query 'hourly': it reads 'pairs', which is another query" in str(refused.exception)
