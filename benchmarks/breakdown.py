"""The parts of the time, for 1 to 1,024 sliding queries: in one process by samples, on Spark by its own laps.

In one process a thread looks, every few milliseconds, at what the others are doing. On Spark every step of a
stream says how long its parts took, and Spark how long its own logs did; docs/performance.md explains both.
At last a fresh process of each kind says what its first step took against a later one.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

from _first_batch import ENGINES, IN_TASKS, in_fresh_process
from rich.console import Group
from rich.table import Table

import weft
from weft.cli.bench import BenchmarkResult, Progress, stopwatch
from weft.sinks import MemorySink
from weft.spark.step_job import StepJob
from weft.testing import write_parquet
from weft.testing.questions import sliding, text

COUNTS, QUICK_COUNTS = (1, 16, 64, 256, 1024), (1, 16, 64)
ROWS, QUICK_ROWS = 10_000_000, 2_000_000
RATE = 700.0
FILES = 10
SMALL_BATCHES, SMALL_ROWS = 20, 1000
SAMPLE_SECONDS = 0.002
"""Time between two samples."""

PHASES = (
    ("reading", ("weft/io/files/",)),
    ("keys", ("operators/keys.py",)),
    ("partials", ("windows/prepare.py",)),
    ("windows", ("windows/due_windows.py", "windows/gridded.py", "windows/runs.py")),
    ("combining", ("weft/final/",)),
    ("state", ("windows/state.py",)),
    ("results", ("windows/answer.py", "local/running.py")),
    ("planning", ("weft/planning/", "weft/sql/", "windows/compile.py")),
)
"""Innermost call that is one of these says what a thread is doing."""

STEP_PARTS = ("list", "map", "gather", "load", "final", "save", "answers", "commit", "sink")
"""The parts of a step on Spark."""

LOGS = ("walCommit", "commitOffsets", "latestOffset", "queryPlanning", "getBatch")
"""What Spark itself does for every batch."""


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Sample the one, add up the laps of the other."""
    rows, counts = (QUICK_ROWS, QUICK_COUNTS) if quick else (ROWS, COUNTS)
    steps = 3 * len(counts) + 2 + len(ENGINES)
    spark = weft.session("local[*]", {"spark.driver.memory": "6g"})
    table: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as place:
        folder = Path(place)
        progress("generating trades", 0, steps)
        write_parquet(folder / "trades", rows, files=FILES, rate=RATE)
        write_parquet(folder / "few", SMALL_BATCHES * SMALL_ROWS, files=SMALL_BATCHES, rate=RATE)
        for number, count in enumerate(counts):
            progress(f"in one process, N = {count}", 1 + number, steps)
            table.append(in_process(folder / "trades", count))
        for number, count in enumerate(counts):
            progress(f"Spark batch, N = {count}", 1 + len(counts) + number, steps)
            table.append(in_one_batch(folder / "trades", count))
        for number, count in enumerate(counts):
            progress(f"Spark stream, N = {count}", 1 + 2 * len(counts) + number, steps)
            table.append(streamed(spark, folder, "trades", count))
        progress("small batches", steps - 1 - len(ENGINES), steps)
        table.append(streamed(spark, folder, "few", 64))
        for number, engine in enumerate(ENGINES):
            progress(f"a fresh process, {engine}", steps - len(ENGINES) + number, steps)
            table.append(in_fresh_process(engine, folder / "trades"))
        progress("done", steps, steps)
    notes = [
        f"{rows:,} trades of 500 symbols in {FILES} files, a file per batch; "
        f"then {SMALL_BATCHES} batches of {SMALL_ROWS:,} rows."
    ]
    return BenchmarkResult("breakdown", table, figures(table), notes)


def in_process(folder: Path, count: int) -> dict[str, Any]:
    """The phases of a warm run, as shares of what its threads were seen doing."""
    questions, files = text(sliding(count)), weft.Files(str(folder))
    weft.run(weft.sql(questions), files, time="ts")
    cpu = time.process_time()
    with sampled() as seen, stopwatch() as elapsed:
        answers = weft.run(weft.sql(questions), files, time="ts")
    total = sum(seen.values()) or 1
    return {
        "where": "in-process",
        "queries": count,
        "seconds": elapsed(),
        "cpu": time.process_time() - cpu,
        "results": sum(table.num_rows for table in answers.values()),
        "phases": {name: seen[name] / total for name, _ in (*PHASES, ("other", ()))},
    }


@contextmanager
def sampled() -> Iterator[Counter[str]]:
    """Count the phases of this process's threads while the block runs, but for those that wait."""
    seen: Counter[str] = Counter()
    done = threading.Event()

    def look() -> None:
        while not done.wait(SAMPLE_SECONDS):
            for thread, frame in sys._current_frames().items():
                if thread != threading.get_ident():
                    phase = phase_of(frame)
                    if phase is not None:
                        seen[phase] += 1

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()


def phase_of(frame: Any) -> str | None:
    """The phase of a thread's innermost call that belongs to one; None where the thread waits."""
    if frame.f_code.co_filename.endswith(("threading.py", "concurrent/futures/thread.py", "selectors.py")):
        return None
    in_weft = False
    while frame is not None:
        name = frame.f_code.co_filename
        for phase, places in PHASES:
            if any(place in name for place in places):
                return phase
        in_weft = in_weft or "/weft/" in name
        frame = frame.f_back
    return "other" if in_weft else None


def in_one_batch(folder: Path, count: int) -> dict[str, Any]:
    """The laps of a warm batch run; one whose results are too large for the driver runs a second time."""
    queries, files, jobs = weft.sql(text(sliding(count))), weft.Files(str(folder)), []

    run_job = StepJob.run

    def noting(*given: Any) -> Any:
        with stopwatch() as elapsed:
            outcome = run_job(*given)
        jobs.append((elapsed(), outcome))
        return outcome

    weft.share(files, queries, time="ts").to_arrow()
    with stopwatch() as elapsed, patch.object(StepJob, "run", noting):
        weft.share(files, queries, time="ts").to_arrow()
    seconds = elapsed()
    ((job, outcome),) = jobs
    spent = [report["seconds"] for report in outcome.reports]
    laps = dict.fromkeys((*STEP_PARTS, "Spark's job"), 0.0)
    laps |= {lap: max(each[lap] for each in spent) for lap in IN_TASKS[1:]}
    laps["map"] = max(report["map"] for report in outcome.reports)
    laps["Spark's job"] = job - sum(laps[lap] for lap in IN_TASKS)
    about = {"where": "batch", "queries": count, "rows": sum(seen.rows for seen in outcome.seen.values())}
    return about | {"seconds": job, "laps": laps, "batch": seconds, "logs": 0.0}


def streamed(spark: Any, folder: Path, name: str, count: int) -> dict[str, Any]:
    """The mean laps of the steps of a stream, its first two apart, and what Spark's own logs took."""
    steps: list[Any] = []
    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        run = weft.stream(
            weft.Files(str(folder / name), max_files_per_batch=1),
            weft.sql(text(sliding(count))),
            time="ts",
            checkpoint=checkpoint,
            sink=MemorySink(),
            trigger="available-now",
            close_at_end=True,
            on_progress=steps.append,
        )
        run.await_done()
    return laps_of(name, count, [step for step in steps if step.kind == "batch"][2:], run)


def laps_of(name: str, count: int, steps: list[Any], run: Any) -> dict[str, Any]:
    """Return the mean seconds of a step, part by part, and of its batch around the step."""

    def mean(values: Iterable[float]) -> float:
        return fmean(list(values) or [0.0])

    laps = {lap: mean(step.breakdown[lap] for step in steps) for lap in (*STEP_PARTS, "job")}
    laps["Spark's job"] = laps.pop("job") - sum(laps[lap] for lap in IN_TASKS)
    batches = [
        report["durationMs"] for report in run._query.recentProgress if "addBatch" in report["durationMs"]
    ]
    logs = {key: mean(batch.get(key, 0) / 1000 for batch in batches[2:]) for key in LOGS}
    whole = mean(batch["triggerExecution"] / 1000 for batch in batches[2:])
    return {
        "where": "stream" if name == "trades" else "small batches",
        "queries": count,
        "seconds": mean(step.seconds for step in steps),
        "rows": mean(step.rows for step in steps),
        "laps": laps,
        "batch": whole,
        "logs": sum(logs.values()),
    }


def figures(table: list[dict[str, Any]]) -> dict[str, float]:
    """Seconds of a step of few rows, of its batch and of Spark's logs; rows per second of the others; by how
    many seconds a first step is slower than a later one."""
    small = next(row for row in table if row["where"] == "small batches")
    values = {"small_step": small["seconds"], "small_batch": small["batch"], "small_logs": small["logs"]}
    for row in table:
        if row["where"] == "stream":
            values[f"stream_rows_per_second_{row['queries']}"] = row["rows"] / row["seconds"]
        if "first" in row:
            name = "inprocess" if row["where"] == "fresh, in-process" else "stream"
            for part in ("step", "tasks"):
                values[f"first_{part}_{name}"] = row["first"][part] - row["warm"][part]
            values[f"first_compiled_{name}"] = len(row["compiled"])
    return values


def render(result: BenchmarkResult) -> Group:
    """Shares of the time in one process, milliseconds of a step on Spark and of a fresh process."""
    fresh = [row for row in result.rows if "first" in row]
    shares = [row for row in result.rows if "phases" in row]
    laps = [row for row in result.rows if "laps" in row]
    return Group(_shares(shares), _laps(laps), _fresh(fresh))


def _shares(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="In one process: where the threads were seen, in percent")
    for heading in ("N", "seconds", "CPU s", "results", *(name for name, _ in PHASES), "other"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            str(row["queries"]),
            f"{row['seconds']:.2f}",
            f"{row['cpu']:.2f}",
            f"{row['results']:,}",
            *(f"{100 * share:.0f}" for share in row["phases"].values()),
        )
    return table


def _laps(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="A step on Spark, in milliseconds")
    names = (*(lap for lap in STEP_PARTS if lap not in IN_TASKS), *IN_TASKS, "Spark's job")
    for heading in ("", "N", "rows", "step", *names, "batch", "of it logs"):
        table.add_column(heading, justify="right")
    for row in rows:
        spent = [row["seconds"], *(row["laps"][lap] for lap in names), row["batch"], row["logs"]]
        table.add_row(
            row["where"],
            str(row["queries"]),
            f"{row['rows']:,.0f}",
            *(f"{1000 * seconds:.0f}" for seconds in spent),
        )
    return table


def _fresh(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="A fresh process, in milliseconds: a step, and of it weft's own tasks")
    for heading in ("", "N", "import", "ready", "first step", "second", "later", "kernels compiled"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row["where"],
            str(row["queries"]),
            *(f"{1000 * row[each]:.0f}" for each in ("import", "ready")),
            *(
                f"{1000 * row[each]['step']:.0f}, {1000 * row[each]['tasks']:.0f}"
                for each in ("first", "second", "warm")
            ),
            ", ".join(row["compiled"]) or "none",
        )
    return table
