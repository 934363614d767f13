"""A run that is ended at any point of a step, finds its files damaged, or has no room to write."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from support import trades
from support.places import TESTS
from weft.errors import CheckpointError, JobError, WeftError
from weft.io import filesystem
from weft.io.files import Files
from weft.sinks import ParquetSink
from weft.spark import stream

POINTS = (
    "after the registry file",
    "before the manifest",
    "after the manifest",
    "half delivered",
    "merging layers",
)
FILES = 2 * len(POINTS) + 2

DRIVER = """
import os, sys, pathlib
from support import faults, trades
from weft.sinks import ParquetSink
from weft.spark import session, stream
place = pathlib.Path(sys.argv[1])
(place / "checkpoint").mkdir(exist_ok=True)
(place / "checkpoint" / "pid").write_text(str(os.getpid()))
faults.install_in_driver()

def change(progress):
    # By itself: the versions differ, the answers must not.
    if not faults.armed and runs:
        runs[0].replace(trades.queries()[0])
        faults.armed = True

runs = []
files = faults.FaultyFiles(str(place / "in"), max_files_per_batch=1)
runs.append(stream(
    files, trades.queries(), time="ts", lateness="20 s", checkpoint=place / "checkpoint", buckets=1,
    sink=ParquetSink(place / "out"), trigger="available now", close_at_end=True, on_progress=change,
    spark=session("local[2]", {"spark.sql.shuffle.partitions": "2"}),
))
runs[0].await_done()
print("finished")
"""


def driver(place: Path, point: str) -> subprocess.CompletedProcess[str]:
    """Run the stream in a process of its own, which dies at this point."""
    search = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", DRIVER, str(place)],
        env={**os.environ, "PYTHONPATH": search, "DIE_AT": point},
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=300,
    )


@pytest.mark.slow
def test_killed_at_every_point_of_a_step(tmp_path: Path) -> None:
    rows = trades.table(FILES * 100)
    trades.write(rows, tmp_path / "in", files=FILES)
    for point in POINTS:
        died = driver(tmp_path, point)
        assert died.returncode == -9, f"{point}: {died.stdout}{died.stderr[-2000:]}"
    done = driver(tmp_path, "")
    assert "finished" in done.stdout, done.stderr[-3000:]
    assert trades.close(delivered(tmp_path), trades.expected(rows))


def delivered(place: Path) -> dict[str, list[tuple[Any, ...]]]:
    return trades.rows_of({q.name: pq.read_table(place / "out" / q.name) for q in trades.queries()})


Go = Callable[..., None]
COUNT = 4


@pytest.fixture
def go(spark: SparkSession, tmp_path: Path) -> Go:
    """Run a stream of four files to its end, or to its error."""
    trades.write(trades.table(COUNT * 100), tmp_path / "in", files=COUNT)

    def go(place: Path = tmp_path, **options: Any) -> None:
        run = stream(
            Files(str(tmp_path / "in"), max_files_per_batch=1),
            trades.queries(),
            time="ts",
            checkpoint=place / "checkpoint",
            sink=ParquetSink(place / "out"),
            trigger="available now",
            buckets=1,
            spark=spark,
            **{"close_at_end": True, **options},
        )
        run.await_done()

    return go


def right(place: Path) -> bool:
    return trades.close(delivered(place), trades.expected(trades.table(COUNT * 100)))


@pytest.mark.parametrize(
    ("module", "file", "message"),
    [
        (
            "store.checkpoint",
            "registry/0000000001",
            r"cannot write '.*0000000001.json': .*No space left",
        ),
        # The first entry is the start of the run, the third its second step.
        ("store.checkpoint", "manifests/0000000003", r"cannot write '.*': .*No space left.* next run finds"),
        (
            "io.sinks.folders",
            "-0000000002.parquet",
            r"sink ParquetSink failed at step 2: .*No space left.* the next run delivers it",
        ),
    ],
    ids=["registry", "manifest", "sink"],
)
def test_a_full_disk_stops_the_run_and_it_goes_on_later(
    go: Go, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, file: str, message: str
) -> None:
    def full(system: Any, path: str, data: Any, **options: Any) -> None:
        if file in path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        filesystem.write_atomically(system, path, data, **options)

    monkeypatch.setattr(f"weft.{module}.write_atomically", full)
    with pytest.raises(WeftError, match=message):
        go()
    assert not [path for path in tmp_path.rglob("*") if file in str(path)]
    monkeypatch.undo()
    go()
    assert right(tmp_path)


def test_no_room_for_slices_stops_the_run_and_it_goes_on_later(go: Go, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"cannot write '.*/slices/.*': .*; state could not be saved"):
        go(on_progress=lambda progress: block(tmp_path) if progress.seq == 2 else None)
    (tmp_path / "checkpoint" / "slices").unlink()
    (tmp_path / "aside").rename(tmp_path / "checkpoint" / "slices")
    go()
    assert right(tmp_path)


def block(place: Path) -> None:
    """Put a file where the folder of slices was: nothing can be written below it."""
    (place / "checkpoint" / "slices").rename(place / "aside")
    (place / "checkpoint" / "slices").write_text("in the way")


def test_damaged_files_are_named(go: Go, tmp_path: Path) -> None:
    last = tmp_path / "in" / f"part-{COUNT - 1:04}.parquet"
    last.rename(tmp_path / "later.parquet")
    go(close_at_end=False)
    (tmp_path / "later.parquet").rename(last)
    for kind, damage, error in (
        ("slices/*.parquet", cut, r"a file of this checkpoint is damaged, '.*'; restore the file"),
        ("slices/*.parquet", Path.unlink, r"a file of this checkpoint is missing, '.*'; restore"),
        ("registry/*.json", cut, r"a file of this checkpoint is damaged, '.*': it is truncated; restore"),
        ("manifests/*.json", cut, r"the newest manifests of checkpoint '.*' are damaged; restore"),
        ("weft.json", cut, r"'.*weft.json' is damaged; restore it from a backup"),
        ("weft.json", Path.unlink, r"'.*weft.json' is missing; restore it from a backup"),
    ):
        # Another place each time, since workers keep the state of places that they know.
        copy = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        shutil.copytree(tmp_path / "checkpoint", copy / "checkpoint")
        for file in (copy / "checkpoint").glob(kind):
            damage(file)
        with pytest.raises(CheckpointError, match=error):
            go(copy)
    go()
    assert right(tmp_path)


def cut(file: Path) -> None:
    """Keep the first half, as a disk that lies about what it has written would."""
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


def test_half_a_manifest_is_made_again(go: Go, tmp_path: Path) -> None:
    """Spark had not noted the batch as done: it gives it again, and the step before is the state."""
    last = tmp_path / "in" / f"part-{COUNT - 1:04}.parquet"
    last.rename(tmp_path / "later.parquet")
    go(close_at_end=False)
    cut(max((tmp_path / "checkpoint" / "manifests").iterdir()))
    commits = tmp_path / "checkpoint" / "spark" / "commits"
    for file in (commits / "0", commits / ".0.crc"):
        file.unlink()
    (tmp_path / "later.parquet").rename(last)
    go()
    assert right(tmp_path)


def test_a_sink_that_cannot_be_written_is_said_at_once(go: Go, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(JobError, match=r"cannot write results to '.*out': .*; choose another path"):
        go()
    (tmp_path / "out").unlink()
    go()
    assert right(tmp_path)
