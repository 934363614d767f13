"""The seconds of a fresh process until its first batch is answered, and for the next: part of ``breakdown``.

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
IN_TASKS = ("map", "gather", "load", "final", "save", "answers")
"""The laps of a step on Spark that are weft's own; the rest of its job is Spark's."""

COMPILED_KERNEL = re.compile(r"\[cache\] data saved to '[^']*?/([^/']+?)-\d+\.py[^']*'")
"""Numba's message on a kernel that it has compiled because no cache had it."""


def in_fresh_process(engine: str, folder: Path) -> dict[str, Any]:
    """Run `measure` in a process of its own; return its figures, and the kernels that were compiled."""
    process = subprocess.run(
        [sys.executable, __file__, engine, str(folder)],
        env={**os.environ, "NUMBA_DEBUG_CACHE": "1"},
        capture_output=True,
        text=True,
    )
    if process.returncode:
        raise RuntimeError(f"{engine}: the process ended with {process.returncode}: {process.stderr[-2000:]}")
    compiled = sorted(set(COMPILED_KERNEL.findall(process.stdout + process.stderr)))
    return {"where": f"fresh, {engine}", "compiled": compiled, **json.loads(process.stdout.splitlines()[-1])}


def measure(engine: str, folder: str) -> dict[str, Any]:
    """Seconds to import weft, to make ready, for the first two steps and for a later one."""
    began = time.perf_counter()
    import weft
    from weft.testing.questions import sliding, text

    imported = time.perf_counter()
    queries = weft.sql(text(sliding(QUERIES)))
    ready, steps = (streamed if engine == "stream" else stepped)(queries, folder)
    first, second, *later = steps
    warm = {name: median(step[name] for step in later) for name in first}
    return {
        "queries": QUERIES,
        "import": imported - began,
        "ready": ready - imported,
        "first": first,
        "second": second,
        "warm": warm,
    }


Step = dict[str, float]
"""Seconds of a step, and of its tasks: weft's own code, where kernels run."""


def stepped(queries: Any, folder: str) -> tuple[float, list[Step]]:
    """In this process: when the plan was ready, and what each step took with its reading."""
    import weft
    from weft.local.running import LocalRun

    schema = weft.Files(folder).stream_schema()
    run = LocalRun(queries, schema, "ts", threads=2)
    ready, steps = time.perf_counter(), []
    for file in sorted(Path(folder).iterdir()):
        began = time.perf_counter()
        for chunk in weft.Files(str(file)):
            run.step(chunk)
        seconds = time.perf_counter() - began
        steps.append({"step": seconds, "tasks": seconds})
    run.shutdown()
    return ready, steps


def streamed(queries: Any, folder: str) -> tuple[float, list[Step]]:
    """On Spark: when the stream was started, and what each step took."""
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
    spark.stop()
    tasks = [sum(step.breakdown[lap] for lap in IN_TASKS) for step in steps]
    return ready, [{"step": step.seconds, "tasks": spent} for step, spent in zip(steps, tasks)]


if __name__ == "__main__":
    print("\n" + json.dumps(measure(*sys.argv[1:])))
