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
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from rich.table import Table

import weft
from weft.bench import Progress, Result
from weft.engine.compile import compile_plan
from weft.local import LocalRun

KEYS, QUICK_KEYS = (10_000, 100_000, 1_000_000), (10_000, 100_000)
MINUTES, QUICK_MINUTES = 80, 64
"""Of event time: longer than the longest window, so that in the end nothing more comes to be kept."""

QUERIES = 50
RANGES, SLIDES = (5, 10, 15, 30, 45, 60), (1, 2, 5, 10)
"""In minutes."""

VALUES = ("sum(amount) AS total, count(*) AS payments", "max(amount) AS top", "avg(amount) AS mean")
SPARSE = 15
"""Minutes between two rows of a key in a sparse stream."""

SCHEMA = pa.schema({"ts": pa.timestamp("us", "UTC"), "card": pa.int64(), "amount": pa.float64()})
GOAL = 8 * 2**30


def run(quick: bool, progress: Progress) -> Result:
    """Each number of keys, dense and sparse, in a fresh process."""
    minutes, keys = (QUICK_MINUTES, QUICK_KEYS) if quick else (MINUTES, KEYS)
    settings = [(count, every) for every in (SPARSE, 1) for count in keys]
    rows = []
    for number, (count, every) in enumerate(settings):
        progress(f"{kind(every)}, {count:,} keys", number, len(settings))
        rows.append(in_fresh_process(count, every, minutes))
    progress("done", len(settings), len(settings))
    notes = [f"{QUERIES} queries, {minutes} minutes of event time, a minute per batch."]
    return Result("memory", rows, figures(rows), notes)


def kind(every: int) -> str:
    """What a stream is called in which each key has a row every so many minutes."""
    return "dense" if every == 1 else "sparse"


def in_fresh_process(keys: int, every: int, minutes: int) -> dict[str, Any]:
    """What `measure` says in a process that does nothing else."""
    command = [sys.executable, __file__, *map(str, (keys, every, minutes, QUERIES))]
    said = subprocess.run(command, capture_output=True, text=True)
    if said.returncode:
        raise RuntimeError(f"{keys:,} keys: the process ended with {said.returncode}: {said.stderr[-2000:]}")
    return json.loads(said.stdout)


def measure(keys: int, every: int, minutes: int, queries: int) -> dict[str, Any]:
    """Answer the queries over the stream; the peak of this process so far, and before the first row."""
    program = compile_plan(weft.plan(weft.sql(questions(queries))), SCHEMA, "ts", buckets=2)
    stream = LocalRun(program, threads=2)
    empty, seconds, results, state = peak(), [], 0, (0, 0)
    for batch in batches(keys, every, minutes):
        began = time.perf_counter()
        answered = stream.step(batch)
        seconds.append(time.perf_counter() - began)
        results += sum(table.num_rows for table in answered.values())
        state = max(state, (stream.state_rows, stream.state_bytes))
        del answered
        print(len(seconds), seconds[-1], results, state, peak() / 2**30, file=sys.stderr)
    stream.shutdown()
    full = seconds[60:]
    rows = keys // every
    return {
        "stream": kind(every),
        "keys": keys,
        "rows": rows * minutes,
        "results": results,
        "cells": state[0],
        "state_bytes": state[1],
        "empty_bytes": empty,
        "peak_bytes": peak(),
        "rows_per_second": rows * len(full) / sum(full),
        "seconds": sum(seconds),
        "slowest_minute": max(seconds),
    }


def peak() -> int:
    """The most memory that this process has held at once, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


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
    return {}


def render(result: Result) -> Table:
    return Table()


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:]))))
