"""A stream that is killed again and again delivers what an undisturbed one does."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import trades

KILLS = 3
FILES = 24

STREAM = """
import sys
sys.path.insert(0, sys.argv[2])
import trades, weft
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
    command = [sys.executable, "-c", STREAM, str(place), str(Path(__file__).parent)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def committed(place: Path) -> int:
    """The number of the newest step."""
    return max((int(p.stem) for p in (place / "checkpoint" / "manifests").glob("[0-9]*.json")), default=0)


@pytest.mark.slow
def test_killed_at_random_points(tmp_path: Path) -> None:
    rows = trades.table(FILES * 100)
    trades.write(rows, tmp_path / "in", files=FILES)
    chance = random.Random(time.time_ns())
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
    assert committed(tmp_path) == FILES + 1
    names = [q.name for q in trades.queries()]
    found = {name: pq.read_table(tmp_path / "out" / name) for name in names}
    assert trades.close(trades.rows_of(found), trades.expected(rows))
