"""What a fresh process needs until its first batch is answered, and for the next ones: part of ``breakdown``.

``python _first_batch.py ENGINE FOLDER`` prints it as JSON; the files of the folder are the batches.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

ENGINES = ("in-process", "stream")
QUERIES = 64
COMPILED = re.compile(r"\[cache\] data saved to '[^']*?/([^/']+?)-\d+\.py[^']*'")
"""What Numba says of a kernel that it has compiled because no cache had it."""


def in_fresh_process(engine: str, folder: Path) -> dict[str, Any]:
    """What `measure` says in a process of its own, and which kernels it, or a worker of Spark's, compiled."""
    said = subprocess.run(
        [sys.executable, __file__, engine, str(folder)],
        env={**os.environ, "NUMBA_DEBUG_CACHE": "1"},
        capture_output=True,
        text=True,
    )
    if said.returncode:
        raise RuntimeError(f"{engine}: the process ended with {said.returncode}: {said.stderr[-2000:]}")
    print(*[l for l in said.stderr.splitlines() if "breakdown" in l or "map" in l], sep="\n")
    compiled = sorted(set(COMPILED.findall(said.stdout + said.stderr)))
    return {"where": f"fresh, {engine}", "compiled": compiled, **json.loads(said.stdout.splitlines()[-1])}


def measure(engine: str, folder: str) -> dict[str, Any]:
    """Seconds to import weft, to make ready, and for the first, the second and a later step."""
    began = time.perf_counter()
    import weft
    from weft.workload import sliding, text

    imported = time.perf_counter()
    queries = weft.sql(text(sliding(QUERIES)))
    ready, steps = (streamed if engine == "stream" else stepped)(queries, folder)
    return {
        "queries": QUERIES,
        "import": imported - began,
        "ready": ready - imported,
        "first": steps[0],
        "second": steps[1],
        "warm": median(steps[2:]),
    }


def stepped(queries: Any, folder: str) -> tuple[float, list[float]]:
    """In this process: when the plan was made, and the seconds of each step with its reading."""
    import weft
    from weft.engine.compile import compile_plan
    from weft.local import LocalRun

    schema = weft.Files(folder).stream_schema()
    program = compile_plan(weft.plan(queries), schema, "ts", buckets=2)
    run = LocalRun(program, threads=2)
    clocks = [time.perf_counter()]
    for file in sorted(Path(folder).iterdir()):
        for table in weft.Files(str(file)):
            run.step(table)
        clocks.append(time.perf_counter())
    run.shutdown()
    return clocks[0], [after - before for before, after in zip(clocks, clocks[1:])]


def streamed(queries: Any, folder: str) -> tuple[float, list[float]]:
    """On Spark: when the stream was started, and the seconds of each step."""
    import weft
    from weft.sinks import MemorySink

    spark, steps = weft.session("local[2]"), []
    stream = weft.stream(
        weft.Files(folder, max_files_per_batch=1),
        queries,
        time="ts",
        sink=MemorySink(),
        trigger="available now",
        on_progress=steps.append,
        spark=spark,
    )
    ready = time.perf_counter()
    stream.await_done()
    for st in steps[:3]: print(st.seconds, dict(st.breakdown), file=sys.stderr)
    spark.stop()
    return ready, [step.seconds for step in steps]


if __name__ == "__main__":
    print("\n" + json.dumps(measure(*sys.argv[1:])))
