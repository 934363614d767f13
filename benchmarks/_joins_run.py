"""Sixteen joins by ``weft.run``, together and one by one: part of ``join``.

``python _joins_run.py`` prints the processor seconds of one run of them together, to compare versions by.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

import weft

QUERIES = 16
ROWS, RATE, KEYS = 20_000, 200.0, 500
"""Rows of each stream, rows a second, and values that they are joined by."""
SECOND = 1_000_000


def joins() -> list[Any]:
    """Joins on equal keys, with windows from 2 to 32 seconds; a half with a selection."""
    texts = []
    for number in range(QUERIES):
        span = f"[RANGE '{2 * number + 2} s']"
        where = " AND a.x < 0.5" if number % 2 else ""
        text = f"SELECT a.k, a.x, b.x AS y FROM a {span}, b {span} WHERE a.k = b.k{where};"
        texts.append(f"-- name: j{number:02}\n{text}")
    return list(weft.sql("\n".join(texts)))


def batches(seed: int) -> list[pa.Table]:
    """One stream, second by second."""
    chance = np.random.default_rng(seed)
    times = np.cumsum(chance.exponential(SECOND / RATE, ROWS)).astype(np.int64)
    columns = {
        "ts": pa.array(times, pa.timestamp("us")),
        "k": chance.integers(0, KEYS, ROWS),
        "x": chance.random(ROWS),
    }
    cuts = [*np.searchsorted(times, np.arange(0, times[-1], SECOND)).tolist(), ROWS]
    return [pa.table(columns).slice(low, high - low) for low, high in pairwise(cuts)]


def measure() -> dict[str, Any]:
    """Processor seconds of all joins in one run, and of a run for each of them; the same results."""
    queries, streams = joins(), {"a": batches(1), "b": batches(2)}
    weft.run(queries[:1], streams, time="ts")
    together, results = timed(queries, streams)
    alone = [timed([query], streams) for query in queries]
    if results != sum(count for _, count in alone):
        raise AssertionError("joins together and apart have different results")
    return {
        "part": "run",
        "queries": QUERIES,
        "rows": 2 * ROWS,
        "results": results,
        "together": together,
        "apart": sum(seconds for seconds, _ in alone),
    }


def timed(queries: list[Any], streams: dict[str, list[pa.Table]]) -> tuple[float, int]:
    """Processor seconds of a run, and the number of its results."""
    began = time.process_time()
    answers = weft.run(queries, streams, time="ts")
    seconds = time.process_time() - began
    return seconds, sum(table.num_rows for table in answers.values())


if __name__ == "__main__":
    given = {"a": batches(1), "b": batches(2)}
    weft.run(joins()[:1], given, time="ts")
    print(*timed(joins(), given))
