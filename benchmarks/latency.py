"""The delay of results at the sink after their window's end, with 64 queries at 100,000 rows a second.

The rows come as time passes, and their event time is when they come: the watermark passes a window's end at
that very moment of the clock. The latest event time of a step says when its rows were cut off. So a result's
delay, when the sink has it less its window's end, is the time that its last rows waited for the step, and the
time the step worked on them.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _plots import MARKERS, axes, legend, save
from rich.console import Group
from rich.table import Table

import weft
from weft.cli.bench import BenchmarkResult, Progress
from weft.local.feed import Feed
from weft.local.readers import reader_of
from weft.local.running import LocalRun
from weft.local.streaming import LocalStream
from weft.runner.delivery import Delivery
from weft.runner.program import UNNAMED
from weft.runner.progress import Progress as Step
from weft.testing.questions import sliding, text

QUERIES, RATE, SYMBOLS = 64, 100_000, 500
WARM_UP, SECONDS = 30.0, 90.0
QUICK_WARM_UP, QUICK_SECONDS = 10.0, 10.0
"""From a stream's first step on: what is not counted, for windows fill, and what is."""

MIN_STEPS = 4
"""Steps that are counted, however slow they are."""

TRIGGERS = {None: 0.0, "1 s": 1.0}
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
SPARK = {"spark.driver.memory": "2g", "spark.sql.streaming.numRecentProgressUpdates": "10000"}


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Each engine with each trigger, one after the other."""
    warm_up, seconds = (QUICK_WARM_UP, QUICK_SECONDS) if quick else (WARM_UP, SECONDS)
    spark = weft.session("local[2]", SPARK)
    engines = {"Spark": partial(on_spark, spark), "in-process": in_process}
    settings = [(where, trigger) for where in engines for trigger in TRIGGERS]
    rows = []
    for number, (where, trigger) in enumerate(settings):
        progress(f"{where}, trigger {trigger or 'none'}", number, len(settings))
        measured = watched(engines[where], trigger, warm_up, seconds)
        rows.append({"where": where, "trigger": trigger, **measured})
    progress("done", len(settings), len(settings))
    notes = [
        f"{RATE:,} trades of {SYMBOLS} symbols a second, {QUERIES} queries (range 6-9 s, slide 3-6 s), "
        f"{seconds:g} s per setting after {warm_up:g} s of warm-up."
    ]
    return BenchmarkResult("latency", rows, figures(rows), notes)


def questions() -> list[weft.Query]:
    """The queries of other benchmarks, a hundred times as fast: windows end at any hundredth of a second."""
    return weft.sql(text(sliding(QUERIES)).replace(" seconds'", "0 milliseconds'"))


def source() -> weft.Generated:
    """Trades as time passes, without end."""
    return weft.Generated("trades", rows=1 << 60, rate=RATE, keys=SYMBOLS, pace=True)


@dataclass
class Watch:
    """A sink that notes when each step's results came and at which times their windows end."""

    arrived: dict[int, tuple[float, np.ndarray]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Nothing to do."""

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Note the clock; each window of each query counts once, however many results it has."""
        now = time.time()
        ends = [pc.unique(table["window_end"]).cast(pa.int64()) for table in results.values()]
        self.arrived[seq] = now, np.concatenate([[], *ends]) / 1e6

    def close(self) -> None:
        """Nothing to do."""

    def since(self, moment: float) -> list[Step]:
        """The steps whose rows were cut off at this moment or later."""
        return [step for step in self.steps if (step.watermark or 0) / 1e6 >= moment]


Engine = Callable[[Watch, str | None], AbstractContextManager[Any]]


def on_spark(spark: Any, watch: Watch, trigger: str | None) -> AbstractContextManager[Any]:
    """The stream on Spark."""
    return weft.stream(
        source(),
        questions(),
        time="ts",
        sink=watch,
        trigger=trigger,
        on_progress=watch.steps.append,
        spark=spark,
    )


def in_process(watch: Watch, trigger: str | None) -> AbstractContextManager[Any]:
    """The same in this process."""
    rows = source()
    run = LocalRun(questions(), rows.stream_schema(), "ts", threads=2)
    reader = reader_of(at_intervals(rows.arrivals(), TRIGGERS[trigger]), "ts", live=True)
    return LocalStream(
        run,
        Feed({UNNAMED: reader}, run.columns),
        Delivery(watch, "run"),
        pause=0.001,
        on_progress=watch.steps.append,
    )


def at_intervals(arrivals: Iterator[Any], seconds: float) -> Iterator[Any]:
    """Yield what has come whenever the clock shows a multiple of so many seconds."""
    while True:
        time.sleep(seconds and seconds - time.time() % seconds)
        yield next(arrivals)


def watched(engine: Engine, trigger: str | None, warm_up: float, seconds: float) -> dict[str, Any]:
    """Let a stream go on; what it did after its warm-up."""
    watch = Watch()
    with engine(watch, trigger) as stream:
        while not watch.steps and stream.is_active:
            time.sleep(0.01)
        since = time.time() + warm_up
        while stream.is_active and (time.time() < since + seconds or len(watch.since(since)) < MIN_STEPS):
            stream.await_done(0.1)
    return summed_up(watch, since) | spark_batches(stream, since)


def summed_up(watch: Watch, since: float) -> dict[str, Any]:
    """Of the steps over rows since then: how fast they were, what was left to do, and the windows' delays."""
    steps = watch.since(since)
    cut = np.array([step.watermark / 1e6 for step in steps])
    came = np.array([watch.arrived[step.seq][0] for step in steps])
    ends = [watch.arrived[step.seq][1] for step in steps]
    waiting = np.concatenate([at - each[each >= since] for at, each in zip(cut, ends)])
    working = np.repeat(came - cut, [np.count_nonzero(each >= since) for each in ends])
    elapsed, half = came[-1] - came[0], len(steps) // 2
    rate, backlog = sum(step.rows for step in steps[1:]) / elapsed, (came - cut) * RATE
    return {
        "steps": len(steps),
        "rows_per_second": rate,
        "keeps_up": rate / RATE,
        "backlog_rows": float(backlog.max()),
        "backlog_growth": float(np.median(backlog[half:]) / np.median(backlog[:half])),
        "busy": sum(step.seconds for step in steps[1:]) / elapsed,
        "windows": len(waiting),
        "results": sum(step.results for step in steps),
        "step": spread([step.seconds for step in steps]),
        "delay": spread(waiting + working),
        "waiting": spread(waiting),
        "working": spread(working),
    }


def spread(seconds: Any) -> dict[str, float]:
    """Percentiles, and the most."""
    found = {f"p{each}": float(np.percentile(seconds, each)) for each in PERCENTILES}
    return found | {"max": float(np.max(seconds))}


def spark_batches(stream: Any, since: float) -> dict[str, Any]:
    """Return the seconds of Spark's batches since then, with its logs and planning; nothing in-process."""
    if not hasattr(stream, "_query"):
        return {"batch": None}
    batches = [report for report in stream._query.recentProgress if "addBatch" in report["durationMs"]]
    took = [
        report["durationMs"]["triggerExecution"] / 1000
        for report in batches
        if datetime.datetime.fromisoformat(report["timestamp"]).timestamp() >= since
    ]
    return {"batch": spread(took)}


def figures(rows: list[dict[str, Any]]) -> dict[str, float]:
    """By setting: seconds of the delay, and whether as many rows are answered as come."""
    values = {}
    for row in rows:
        name = f"{'spark' if row['where'] == 'Spark' else 'inprocess'}{'_1s' if row['trigger'] else ''}"
        values |= {f"{name}_delay_{quantity}": row["delay"][quantity] for quantity in ("p50", "p99")}
        values |= {f"{name}_step_{quantity}": row["step"][quantity] for quantity in ("p50", "p99", "max")}
        values |= {f"{name}_{quantity}": row[quantity] for quantity in ("keeps_up", "backlog_growth")}
    return values


def render(result: BenchmarkResult) -> Group:
    """Milliseconds of steps and of delays, and whether each setting keeps up."""
    times = Table(title="Milliseconds: p50 / p99 / most")
    for heading in ("", "trigger", "step", "Spark's batch", "delay", "of it waiting", "of it working"):
        times.add_column(heading, justify="right")
    load = Table(title="Whether it keeps up")
    for heading in ("", "trigger", "rows/s", "answered / come", "backlog, rows", "grows by", "busy", "steps"):
        load.add_column(heading, justify="right")
    for row in result.rows:
        name = (row["where"], row["trigger"] or "none")
        times.add_row(
            *name, *(_times(row[each]) for each in ("step", "batch", "delay", "waiting", "working"))
        )
        load.add_row(
            *name,
            f"{row['rows_per_second']:,.0f}",
            f"{row['keeps_up']:.3f}",
            f"{row['backlog_rows']:,.0f}",
            f"{row['backlog_growth']:.2f}",
            f"{row['busy']:.0%}",
            f"{row['steps']:,}",
        )
    return Group(times, load)


def _times(spread: dict[str, float] | None) -> str:
    if spread is None:
        return "-"
    return " / ".join(f"{1000 * spread[each]:,.0f}" for each in ("p50", "p99", "max"))


def draw(result: BenchmarkResult, folder: Path) -> list[Path]:
    """The delay by the share of windows that have no longer one."""
    figure, (place,) = axes("From a window's end to its results in the sink", "percent of windows", "seconds")
    for row, marker in zip(result.rows, MARKERS):
        label = f"{row['where']}, {'trigger ' + row['trigger'] if row['trigger'] else 'no trigger'}"
        place.plot(
            PERCENTILES, [row["delay"][f"p{each}"] for each in PERCENTILES], marker, ls="-", label=label
        )
    place.set_yscale("log")
    legend(figure, place)
    return save({"latency": figure}, folder)
