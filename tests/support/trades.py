"""Small trades for the tests of the Spark side, their queries, and results as comparable rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import weft
from support.seeds import seeded_random
from weft.model.query import Query

SECOND = 1_000_000
START = 1_704_067_200 * SECOND

QUERIES = """
-- name: busy
SELECT symbol, sum(price * volume) AS value, max(price) AS top, count(*) AS n
FROM trades [RANGE '90 s' SLIDE '60 s'] WHERE volume > 300 GROUP BY symbol;
-- name: calm
SELECT symbol, avg(price) AS mean, min(volume) AS least
FROM trades GROUP BY symbol, window(ts, '5 minutes', '1 minute');
-- name: everything
SELECT count(*) AS n, sum(volume) AS volume FROM trades GROUP BY window(ts, '2 minutes')
"""


def queries() -> list[Query]:
    return weft.sql(QUERIES)


def table(rows: int = 2000, seed: int = 1, step: int = SECOND, start: int = START) -> pa.Table:
    """One trade per step of time, in order, prices with two digits."""
    chance = seeded_random(seed)
    return pa.table(
        {
            "ts": pa.array([start + i * step for i in range(rows)]).cast(pa.timestamp("us", "UTC")),
            "symbol": [chance.choice(["A", "B", "C", "D", None]) for _ in range(rows)],
            "price": [chance.randrange(100, 10_000) / 100 for _ in range(rows)],
            "volume": pa.array([chance.randrange(1, 1000) for _ in range(rows)], pa.int64()),
            "unread": ["x"] * rows,
        }
    )


def write(rows: pa.Table, folder: Path, files: int, first: int = 0) -> None:
    """The rows in so many Parquet files, in order of time and of name."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-rows.num_rows // files)
    for number in range(files):
        path = folder / f"part-{first + number:04}.parquet"
        pq.write_table(rows.slice(number * size, size), path)
        # Spark takes files in order of modification.
        os.utime(path, (1_700_000_000 + first + number,) * 2)


def rows_of(results: Mapping[str, pa.Table]) -> dict[str, list[tuple[Any, ...]]]:
    """Results as sorted rows; queries without any left out."""
    sorted_rows = {}
    for name, result in results.items():
        rows = [tuple(row.values()) for row in result.to_pylist()]
        if rows:
            sorted_rows[name] = sorted(rows, key=lambda row: tuple((v is None, v) for v in row))
    return sorted_rows


def expected(rows: pa.Table) -> dict[str, list[tuple[Any, ...]]]:
    """Return the answers of the in-process runner over all rows."""
    return rows_of(weft.run(queries(), rows, time="ts"))


def close(
    results: Mapping[str, list[tuple[Any, ...]]], reference: Mapping[str, list[tuple[Any, ...]]]
) -> bool:
    """Return whether the rows are the same, floats up to the order in which they were added."""
    import pytest

    return results.keys() == reference.keys() and all(
        len(results[name]) == len(reference[name])
        and all(
            len(a) == len(b)
            and all(x == (pytest.approx(y, rel=1e-9) if isinstance(y, float) else y) for x, y in zip(a, b))
            for a, b in zip(results[name], reference[name])
        )
        for name in reference
    )
