"""The Java process of Spark may be killed: the stream then says so, and so does every call after it."""

from __future__ import annotations

import subprocess
import sys

import pytest

DEATH = """
import os, signal, tempfile
import pyarrow as pa, weft
from weft.errors import JobError
from weft.sinks import MemorySink
from weft.spark import session, stream

spark = session("local[1]")
java = spark.sparkContext._gateway.proc.pid
queries = weft.sql("SELECT count(*) AS n FROM s [RANGE '1 s']")
rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
table = spark.createDataFrame([(1,)], "n int")
run = stream(rows, queries, time="timestamp", sink=MemorySink(), spark=spark)
while run.last_progress is None and run.is_active:
    run.await_done(0.1)
os.kill(java, signal.SIGKILL)

def refused(call):
    try:
        call()
    except JobError as error:
        assert "the Java process of Spark has ended" in str(error), error
        return
    raise AssertionError("nothing was raised")

refused(lambda: run.await_done(120))
assert "the Java process of Spark has ended" in str(run.exception)
assert not run.is_active
run.stop()
refused(lambda: stream(rows, queries, time="timestamp", sink=MemorySink(), spark=spark))
refused(lambda: weft.share(table, queries, time="timestamp"))
print("said", flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_a_killed_jvm_is_said_by_the_stream_and_by_every_call_after_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DEATH], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout.endswith("said\n"), done.stderr[-2000:]
    assert "Exception in thread weft" not in done.stderr
