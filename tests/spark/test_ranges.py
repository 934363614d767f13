"""Sources of numbered rows on Spark: offsets in the checkpoint, restarts, replays, and what goes wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import psycopg.rows
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

import weft
from support import servers
from support.brokers import Broker
from weft.errors import JobError
from weft.io.json_values import json_rows, to_json
from weft.jobs import launch
from weft.jobs.job import parse
from weft.jobs.report import Report
from weft.sinks import JsonSink, KafkaSink, MemorySink, Only, ParquetSink, PostgresSink, Sinks, WebhookSink
from weft.spark.ranges import _Reader

QUERIES = weft.sql(
    """
    -- name: busy
    SELECT symbol, count(*) AS n, sum(volume) AS volume FROM t [RANGE '60 s' SLIDE '20 s'] GROUP BY symbol;
    -- name: all
    SELECT count(*) AS n, max(price) AS top FROM t [RANGE '30 s']
    """
)
SCHEMA = {"ts": "timestamp", "symbol": "string", "price": "double", "volume": "bigint"}
GENERATED = weft.Generated(rows=30_000, rate=100, keys=7, disorder=2.0, max_rows_per_batch=10_000)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    yield Broker()


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    table = pa.concat_tables([chunk.table for chunk in weft.Generated(rows=3000, rate=10, keys=5)])
    times = [t.isoformat() for t in table.column("ts").to_pylist()]
    return [row | {"ts": ts} for row, ts in zip(table.drop_columns("exchange").to_pylist(), times)]


def start(spark: SparkSession, source: Any, folder: Path, sink: Any, **options: Any) -> weft.spark.Run:
    defaults = {"trigger": "available now", "lateness": "3 s", "checkpoint": folder / "checkpoint"}
    return weft.stream(source, QUERIES, "ts", sink=sink, spark=spark, buckets=2, **(defaults | options))


def same(tables: dict[str, pa.Table], expected: dict[str, pa.Table]) -> bool:
    def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
        return sorted(tuple(map(str, row.values())) for row in table.to_pylist())

    return all(sorted_rows(tables[name]) == sorted_rows(table) for name, table in expected.items())


def test_a_run_that_fails_in_one_of_its_sinks_goes_on_without_loss_or_doubles(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    expected = weft.run(QUERIES, GENERATED, time="ts", lateness="3 s")
    with servers.postgres() as server, servers.hook() as hook:

        def begin() -> weft.spark.Run:
            sinks = Sinks(
                JsonSink(tmp_path / "out"),
                PostgresSink(server.address),
                KafkaSink(broker.servers, "answers"),
                Only(WebhookSink(hook.url, tries=1), ["all"]),
            )
            return start(spark, GENERATED, tmp_path, sinks, close_at_end=True)

        # Step 2 is committed, taken by all sinks but the last, and delivered again by the next run.
        hook.answers = [200, 500]
        run = begin()
        with pytest.raises(
            JobError, match=r"the webhook http://127.0.0.1/alerts did not take results in 1 tries"
        ):
            run.await_done()
        assert [(p.seq, p.rows) for p in run.progress] == [(1, 10_000)]
        run = begin()
        run.await_done()
        assert [(p.kind, p.seq, p.rows) for p in run.progress] == [
            ("batch", 3, 10_000),
            ("flush", 4, 0),
        ]
        sent = [json.loads(m.value()) for m in broker.read("answers")]
        with psycopg.connect(server.address, row_factory=psycopg.rows.dict_row) as database:
            stored = {
                name: [plain(row) for row in database.execute(f'SELECT * FROM "{name}"')] for name in expected
            }
    lines = {
        name: [line for file in (tmp_path / "out" / name).iterdir() for line in file.read_text().splitlines()]
        for name in expected
    }
    for name, table in expected.items():
        wanted = sorted(json_rows(table))
        assert sorted(lines[name]) == wanted
        assert sorted(stored[name]) == wanted
        assert (
            sorted(
                to_json({k: v for k, v in row.items() if k != "query"})
                for row in sent
                if row["query"] == name
            )
            == wanted
        )
    alerts = [to_json({k: v for k, v in row.items() if k != "query"}) for row in hook.taken()]
    assert sorted(alerts) == sorted(json_rows(expected["all"]))


def plain(row: dict[str, Any]) -> str:
    """A row of a database as the other sinks write it."""
    del row["weft_stream"], row["weft_step"]
    (text,) = json_rows(pa.Table.from_pylist([row]))
    return text


def test_a_batch_frame_of_generated_rows(spark: SparkSession) -> None:
    assert sum(weft.share(GENERATED, QUERIES, "ts", spark=spark)["all"].toArrow()["n"].to_pylist()) == 30_000


def test_a_paced_stream_stays_the_one_that_its_checkpoint_began() -> None:
    first = _Reader(weft.Generated(rows=4000, rate=2000, pace=True))
    began = first.initialOffset()
    time.sleep(0.01)
    again = _Reader(weft.Generated(rows=4000, rate=2000, pace=True))
    assert list(again.latestOffset(began, None)) == list(began)
    assert again.latestOffset(began, None)[next(iter(began))] >= 20
    assert again.initialOffset() != began


def test_available_now_ends_with_what_was_there(broker: Broker, rows: list[dict[str, Any]]) -> None:
    broker.send("now", rows[:10], partitions=1)
    reader = _Reader(weft.Kafka(broker.servers, "now", schema=SCHEMA, max_rows_per_batch=7))
    reader.prepareForTriggerAvailableNow()
    at = reader.initialOffset()
    at = reader.latestOffset(at, None)
    broker.send("now", rows[10:20], partitions=1)
    assert at["0"] == 7
    assert [r for part in reader.partitions({"0": 0}, at) for r in part.value] == [("0", 0, 7)]
    at = reader.latestOffset(at, None)
    assert at["0"] == 10
    assert reader.latestOffset(at, None) == at


def test_a_topic_over_restarts_and_replays(
    spark: SparkSession, broker: Broker, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    source = weft.Kafka(broker.servers, "restarts", schema=SCHEMA, max_rows_per_batch=900)
    sink = ParquetSink(tmp_path / "out")
    told = []
    for number, (low, high) in enumerate([(0, 1000), (1000, 1000), (1000, 3000)]):
        broker.send("restarts", rows[low:high], partitions=3)
        if number == 2:
            # As after a crash between weft's commit and Spark's.
            for commit in (tmp_path / "checkpoint" / "spark" / "commits").glob("*1*"):
                commit.unlink()
        start(
            spark, source, tmp_path, sink, lateness="3 min", close_at_end=number == 2, on_progress=told.append
        ).await_done()
    assert sum(p.rows for p in told) == 3000
    assert [p.seq for p in told] == list(range(1, len(told) + 1))
    tables = {q.name: pq.read_table(tmp_path / "out" / q.name) for q in QUERIES}
    whole = pa.concat_tables([c.table for c in weft.Kafka(broker.servers, "restarts", schema=SCHEMA)])
    assert same(tables, weft.run(QUERIES, whole, time="ts"))


def test_bad_messages_are_kept_beside_late_rows(
    spark: SparkSession, broker: Broker, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    broker.send("mixed", [*rows[:50], b"junk", None, *rows[50:100]], partitions=2)
    for engine in ("spark", "local"):
        job = parse(
            f"""
            [source]
            kind = "kafka"
            servers = "{broker.servers}"
            topic = "mixed"
            schema = {{ ts = "timestamp", symbol = "string", volume = "bigint" }}
            columns = {{ at = "offset" }}
            [stream]
            time = "ts"
            [queries]
            sql = "SELECT count(*) AS n, max(at) AS last FROM t [RANGE '1 hour']"
            [sink]
            kind = "memory"
            [late]
            path = "{engine}"
            """,
            tmp_path,
        )
        sink = launch.run(job, engine, Report(Console(quiet=True)))
        assert sum(sink.tables["q1"].column("n").to_pylist()) == 100
        kept = pq.read_table(tmp_path / engine / "rejected").to_pylist()
        assert sorted((r["number"], r["reason"]) for r in kept) == [(25, "no JSON object"), (25, "no value")]
        assert pq.read_table(tmp_path / engine / "late").num_rows == 0


def test_a_topic_that_lost_messages_stops_the_run(
    spark: SparkSession, broker: Broker, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    broker.send("lost", rows[:100], partitions=1)
    start(spark, weft.Kafka(broker.servers, "lost", schema=SCHEMA), tmp_path, MemorySink()).await_done()
    # Another broker, where the topic has fewer messages, stands for one where it was made anew.
    other = Broker()
    other.send("lost", rows[:10], partitions=1)
    run = start(spark, weft.Kafka(other.servers, "lost", schema=SCHEMA), tmp_path, MemorySink())
    with pytest.raises(
        JobError, match="topic 'lost': 100 messages of partition 0 were taken, but it has only 10"
    ):
        run.await_done()
    again = weft.Kafka(broker.servers, "never", schema=SCHEMA)
    with pytest.raises(JobError, match="topic 'never' cannot be read"):
        start(spark, again, tmp_path / "other", MemorySink()).await_done()
