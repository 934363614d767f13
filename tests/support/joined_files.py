"""Two streams of files to join, and the joins of a text."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import weft
from support.seeds import seeded_random
from weft.model.join import JoinQuery

SECOND = 1_000_000
START = 1_700_000_000 * SECOND


def joins(text: str) -> list[JoinQuery]:
    return [q for q in weft.sql(text) if isinstance(q, JoinQuery)]


def table(rows: int, seed: int, disorder: int = 3) -> pa.Table:
    """A row every half second or so, up to ``disorder`` seconds behind; keys and values are null at times."""
    chance = seeded_random(seed)

    def with_nulls(draw: Callable[[], Any]) -> list[Any]:
        return [None if chance.random() < 0.05 else draw() for _ in range(rows)]

    times = [START + n * SECOND // 2 - chance.randrange(disorder * SECOND + 1) for n in range(rows)]
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "k": pa.array(with_nulls(lambda: chance.choice("pqrs")), pa.string()),
            "x": pa.array(with_nulls(lambda: chance.randint(0, 9)), pa.int64()),
            "n": pa.array(range(rows), pa.int64()),
        }
    )


def write(rows: pa.Table, folder: Path, sizes: list[int]) -> None:
    """The rows in files of these sizes, and the rest in one more."""
    folder.mkdir(parents=True, exist_ok=True)
    first = len(list(folder.iterdir()))
    at = 0
    for number, size in enumerate([*sizes, rows.num_rows]):
        path = folder / f"part-{first + number:04}.parquet"
        pq.write_table(rows.slice(at, size), path)
        os.utime(path, (1_700_000_000 + first + number,) * 2)  # Spark takes the oldest file first
        at += size
