"""The same job on a standalone Spark with two workers, undisturbed and with processes killed under it."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from support import trades
from weft.errors import JobError
from weft.spark.cluster import Cluster

JOB = """
[source]
kind = "files"
path = "in"
max_files_per_batch = 1
[stream]
time = "ts"
checkpoint = "checkpoint"
close_at_end = true
[queries]
file = "queries.sql"
[sink]
kind = "parquet"
path = "out"
[spark]
buckets = 2
"""
FILES = 8


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(workers=2, memory="1g") as started:
        yield started


JOINS = """
SELECT a.n AS a, b.n AS b, c.n AS c FROM a [RANGE '9 s'], b [RANGE '6 s'], c [RANGE '3 s']
WHERE abs(a.x - b.x) < 2 AND b.x < c.x
"""


def begin(
    place: Path, cluster: Cluster, job: str = JOB, queries: str = trades.QUERIES
) -> subprocess.Popen[str]:
    """``weft run`` on the cluster, over files of trades unless another job is given."""
    (place / "job.toml").write_text(job)
    (place / "queries.sql").write_text(queries)
    command = [sys.executable, "-m", "weft.cli", "run", str(place / "job.toml"), "--master", cluster.url]
    command[1:3] = ["-c", "from weft.cli.main import main; main()"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answers(place: Path) -> dict[str, list[tuple[object, ...]]]:
    """What the Parquet sink holds."""
    return trades.rows_of({d.name: pq.read_table(d) for d in (place / "out").iterdir() if d.is_dir()})


@pytest.mark.slow
def test_a_job_runs_on_two_workers(cluster: Cluster, tmp_path: Path) -> None:
    rows = trades.table(400)
    trades.write(rows, tmp_path / "in", files=2)
    assert cluster.alive() == 2
    running = begin(tmp_path, cluster)
    said, wrong = running.communicate(timeout=180)
    assert running.returncode == 0, wrong
    assert '"seq": 2' in said
    assert trades.close(answers(tmp_path), trades.expected(rows))


@pytest.mark.slow
def test_three_streams_are_joined_on_two_workers(cluster: Cluster, tmp_path: Path) -> None:
    """State is split by time over two nodes, and every row meets all of it, in two rounds per batch."""
    start, streams = datetime.datetime(2024, 1, 1), {}
    for number, name in enumerate("abc"):
        places = range(40)
        streams[name] = pa.table(
            {
                "ts": [start + datetime.timedelta(seconds=n + number / 3) for n in places],
                "n": pa.array(places),
                "x": pa.array([(7 * n + 3 * number) % 10 for n in places]),
            }
        )
        for part in range(2):
            (tmp_path / name).mkdir(exist_ok=True)
            file = tmp_path / name / f"{part}.parquet"
            pq.write_table(streams[name].slice(20 * part, 20), file)
            os.utime(file, (part, part))  # Spark takes files in this order
    sources = "".join(
        f'[sources.{n}]\nkind = "files"\npath = "{n}"\nmax_files_per_batch = 1\n' for n in streams
    )
    running = begin(tmp_path, cluster, sources + JOB[JOB.index("[stream]") :], JOINS)
    _, wrong = running.communicate(timeout=180)
    assert running.returncode == 0, wrong
    expected = weft.run(weft.sql(JOINS), streams, time="ts")["q1"].drop_columns("ts")
    found = pq.read_table(tmp_path / "out" / "q1").select(expected.column_names)
    assert expected.num_rows > 20
    assert sorted(map(tuple, map(dict.values, found.to_pylist()))) == sorted(
        map(tuple, map(dict.values, expected.to_pylist()))
    )


def below(cluster: Cluster, word: str) -> list[psutil.Process]:
    """The cluster's own processes that have this word in their command line."""
    found = []
    for process in (p for pid in cluster.pids for p in psutil.Process(pid).children(recursive=True)):
        with suppress(psutil.Error):  # it may have just ended
            if word in " ".join(process.cmdline()):
                found.append(process)
    return found


@pytest.mark.slow
def test_executors_and_python_workers_may_die(cluster: Cluster, tmp_path: Path) -> None:
    """One executor and one Python worker are killed while the stream runs: nothing lost, nothing twice."""
    rows = trades.table(FILES * 100)
    trades.write(rows, tmp_path / "in", files=FILES)
    running = begin(tmp_path, cluster)
    manifests = tmp_path / "checkpoint" / "manifests"
    killed = []
    for word, after in (("spark.daemon", 2), ("CoarseGrainedExecutorBackend", 4)):
        until = time.monotonic() + 120
        while len(list(manifests.glob("[0-9]*.json"))) < after and running.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.02)
        for process in below(cluster, word)[:1]:
            os.kill(process.pid, signal.SIGKILL)
            killed.append(word)
    _, wrong = running.communicate(timeout=180)
    assert running.returncode == 0, wrong
    assert killed == ["spark.daemon", "CoarseGrainedExecutorBackend"]
    assert trades.close(answers(tmp_path), trades.expected(rows))


@pytest.mark.slow
def test_what_cannot_start_says_why() -> None:
    with pytest.raises(JobError, match="needs workers and cores"):
        Cluster(workers=0)
    with pytest.raises(JobError, match="did not start"):
        Cluster(workers=1, memory="much")
