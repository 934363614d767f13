"""A stream that is killed again and again delivers what an undisturbed one does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from support import trades
from support.places import TESTS
from support.seeds import seeded_random
from weft.io.files import Files
from weft.sinks import ParquetSink
from weft.spark import stream

KILLS = 3
FILES = 24

STREAM = """
import sys
sys.path.insert(0, sys.argv[2])
from support import trades
from weft.sinks import ParquetSink
from weft.spark import Files, session, stream
place = sys.argv[1]
spark = session("local[2]", {"spark.sql.shuffle.partitions": "2"})
files = Files(place + "/in", max_files_per_batch=1)
run = stream(files, trades.queries(), time="ts", lateness="20 s", checkpoint=place + "/checkpoint",
             sink=ParquetSink(place + "/out"), trigger="available now", close_at_end=True, spark=spark)
run.await_done()
print("finished")
"""


def begin(place: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", STREAM, str(place), str(TESTS)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def committed(place: Path) -> int:
    """The number of the newest step."""
    newest = max((place / "checkpoint" / "manifests").glob("[0-9]*.json"), default=None)
    return 0 if newest is None else int(json.loads(newest.read_text())["seq"])


@pytest.mark.slow
def test_killed_at_random_points(tmp_path: Path) -> None:
    rows = trades.table(FILES * 100)
    trades.write(rows, tmp_path / "in", files=FILES)
    chance = seeded_random(time.time_ns())
    for _ in range(KILLS):
        before = committed(tmp_path)
        process = begin(tmp_path)
        while committed(tmp_path) < before + chance.randint(1, 4) and process.poll() is None:
            time.sleep(0.02)
        time.sleep(chance.random())
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert committed(tmp_path) <= FILES, "it had finished before it was killed; make more files"
    out, errors = begin(tmp_path).communicate(timeout=300)
    assert "finished" in out, errors[-3000:]
    # A step for each file and one that closes; less where a kill fell between two of Spark's own logs.
    assert FILES + 1 - KILLS <= committed(tmp_path) <= FILES + 1
    assert trades.close(delivered(tmp_path), trades.expected(rows))


@pytest.mark.slow
def test_killed_between_two_of_sparks_logs(spark: SparkSession, tmp_path: Path) -> None:
    """Spark notes a batch's files before its offsets; killed in between, its next batch takes two turns."""
    rows = trades.table(400)

    def arrive(number: int) -> None:
        trades.write(rows.slice(100 * number, 100), tmp_path / "in", files=1, first=number)

    def run(close_at_end: bool) -> None:
        stream(
            Files(str(tmp_path / "in")),
            trades.queries(),
            time="ts",
            checkpoint=tmp_path / "checkpoint",
            sink=ParquetSink(str(tmp_path / "out")),
            trigger="available now",
            close_at_end=close_at_end,
            spark=spark,
        ).await_done()

    for number in range(3):
        arrive(number)
        run(close_at_end=False)
    assert committed(tmp_path) == 3
    logs = tmp_path / "checkpoint" / "spark"
    for log in [*logs.glob("*s/2"), *logs.glob("*s/.2.crc")]:
        log.unlink()
    max((tmp_path / "checkpoint" / "manifests").iterdir()).unlink()
    arrive(3)
    run(close_at_end=True)
    assert committed(tmp_path) == 4, "two steps, one with both files, one that closes"
    assert trades.close(delivered(tmp_path), trades.expected(rows))


def delivered(place: Path) -> dict[str, list[tuple[Any, ...]]]:
    return trades.rows_of({q.name: pq.read_table(place / "out" / q.name) for q in trades.queries()})
