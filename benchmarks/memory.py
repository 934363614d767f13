"""Memory of one process with up to a million group keys, 50 queries and windows of up to an hour.

Each setting is a process of its own, so that the most memory it ever held is that of the setting alone. Rows
come minute by minute of event time: in a dense stream every key has a row in every minute, in a sparse one a
few in an hour. Results are delivered and let go.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.table import Table

import weft
from weft.cli.bench import BenchmarkResult, Progress, stopwatch
from weft.local.running import LocalRun

KEYS, QUICK_KEYS = (10_000, 100_000, 1_000_000), (10_000, 100_000)
MINUTES = 72
"""Of event time: past the longest window, and until the first cells that nobody needs have been forgotten."""

QUERIES = 50
RANGES, SLIDES = (5, 10, 15, 30, 45, 60), (1, 2, 5, 10)
"""In minutes."""

VALUES = ("sum(amount) AS total, count(*) AS payments", "max(amount) AS top", "avg(amount) AS mean")
SPARSE_MINUTES = 15
"""Time between two rows of a key in a sparse stream."""

SCHEMA = pa.schema({"ts": pa.timestamp("us", "UTC"), "card": pa.int64(), "amount": pa.float64()})
GOAL = 8 * 2**30


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Each number of keys, dense and sparse, in a fresh process."""
    settings = [(count, every) for every in (SPARSE_MINUTES, 1) for count in (QUICK_KEYS if quick else KEYS)]
    rows = []
    for number, (count, every) in enumerate(settings):
        progress(f"{kind(every)}, {count:,} keys", number, len(settings))
        rows.append(in_fresh_process(count, every, MINUTES))
    progress("done", len(settings), len(settings))
    notes = [f"{QUERIES} queries, {MINUTES} minutes of event time, a minute per batch."]
    return BenchmarkResult("memory", rows, figures(rows), notes)


def kind(every: int) -> str:
    """Return the name of a stream in which each key has a row every so many minutes."""
    return "dense" if every == 1 else "sparse"


def in_fresh_process(keys: int, every: int, minutes: int) -> dict[str, Any]:
    """Return the figures of `measure` in a process that does nothing else."""
    command = [sys.executable, __file__, *map(str, (keys, every, minutes, QUERIES))]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise RuntimeError(
            f"{keys:,} keys: the process ended with {process.returncode}: {process.stderr[-2000:]}"
        )
    return json.loads(process.stdout)


def measure(keys: int, every: int, minutes: int, queries: int) -> dict[str, Any]:
    """Answer the queries over the stream: the most memory that this process has held, and how fast it was."""
    stream = LocalRun(weft.sql(questions(queries)), SCHEMA, "ts", threads=2)
    empty, seconds, counts, cells, held = peak(), [], [], 0, 0
    for batch in batches(keys, every, minutes):
        with stopwatch() as elapsed:
            answered = stream.step(batch)
        seconds.append(elapsed())
        counts.append(sum(table.num_rows for table in answered.values()))
        del answered
        cells, held = max((cells, held), (stream.state_rows, stream.state_bytes))
    stream.shutdown()
    full = slice(max(RANGES) if minutes > max(RANGES) else 0, minutes)
    return {
        "stream": kind(every),
        "keys": keys,
        "rows": keys // every * minutes,
        "results": sum(counts),
        "cells": cells,
        "state_bytes": held,
        "empty_bytes": empty,
        "peak_bytes": peak(),
        "buckets": max(len(states) for states in stream.states.values()),
        "seconds": sum(seconds),
        "rows_per_second": keys // every * len(seconds[full]) / sum(seconds[full]),
        "results_per_second": sum(counts[full]) / sum(seconds[full]),
    }


def peak() -> int:
    """The most memory that this process has held at once, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # What getrusage says begins with the memory of the process that started this one.
        return int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def questions(count: int) -> str:
    """So many different questions by card, of windows of 5 to 60 minutes that slide by 1 to 10."""
    windows = [(r, s) for r, s in product(RANGES, SLIDES) if s <= r]
    chosen = random.Random(0).sample(list(product(windows, VALUES)), count)
    return "\n".join(
        f"SELECT card, {values} FROM payments [RANGE '{r} min' SLIDE '{s} min'] GROUP BY card;"
        for (r, s), values in chosen
    )


def batches(keys: int, every: int, minutes: int) -> Iterator[pa.Table]:
    """A batch per minute; of all keys, any in so many."""
    chance, rows = np.random.default_rng(0), keys // every
    for minute in range(minutes):
        card = chance.permutation(keys)[:rows]
        ts = minute * 60_000_000 + np.sort(chance.integers(0, 60_000_000, rows))
        yield pa.table(
            [pa.array(ts).cast(SCHEMA.field("ts").type), card, chance.gamma(2.0, 50.0, rows)], schema=SCHEMA
        )


def figures(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Gigabytes at the peak, rows and results per second with full state, peak over what the cells take."""
    values = {}
    for row in rows:
        name = f"{row['stream']}_{row['keys']}"
        values[f"gigabytes_{name}"] = row["peak_bytes"] / 2**30
        values[f"rows_per_second_{name}"] = row["rows_per_second"]
        values[f"results_per_second_{name}"] = row["results_per_second"]
        values[f"peak_over_state_{name}"] = (row["peak_bytes"] - row["empty_bytes"]) / row["state_bytes"]
    return values


def render(result: BenchmarkResult) -> Table:
    """A row for each setting."""
    table = Table(title=f"Memory of one process (goal with 1,000,000 keys: {GOAL / 2**30:.0f} GB)")
    headings = ("", "keys", "rows", "results", "cells", "their MB", "before MB", "peak MB", "buckets")
    for heading in (*headings, "rows/s", "results/s", "seconds"):
        table.add_column(heading, justify="right")
    for row in result.rows:
        table.add_row(
            row["stream"],
            *(f"{row[each]:,}" for each in ("keys", "rows", "results", "cells")),
            *(f"{row[each] / 2**20:,.0f}" for each in ("state_bytes", "empty_bytes", "peak_bytes")),
            str(row["buckets"]),
            *(f"{row[each]:,.0f}" for each in ("rows_per_second", "results_per_second", "seconds")),
        )
    return table


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:]))))
