"""The stream behind the golden checkpoints: three files were taken, the fourth is what follows."""

from __future__ import annotations

import datetime
import math
import random

import pyarrow as pa

STEP = 60
"""Rows of each file."""

QUERIES = """
-- name: by_pair
SELECT symbol, venue, count(*) AS n, sum(amount) AS amount FROM s [RANGE '20 min' SLIDE '5 min']
GROUP BY symbol, venue;
-- name: by_level
SELECT level, min(amount) AS least FROM s WHERE amount > 10 GROUP BY level, window(ts, '30 minutes');
-- name: all
SELECT count(*) AS n FROM s [RANGE '1 hour' SLIDE '10 min'];
-- name: last_rows
SELECT symbol, day, sum(amount) AS amount FROM s [ROWS 6 SLIDE 2] GROUP BY symbol, day
"""


def rows() -> pa.Table:
    """Four files of rows, one after the other."""
    chance = random.Random(3)
    count = 4 * STEP
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    times = [start + datetime.timedelta(seconds=30 * i - chance.randrange(90)) for i in range(count)]
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "symbol": pa.array([chance.choice(["A", "Bé", "", None]) for _ in times], pa.string()),
            "venue": pa.array([chance.choice([1, 2, -7, None]) for _ in times], pa.int32()),
            "level": pa.array([chance.choice([0.0, -0.0, math.nan, 1.5, None]) for _ in times]),
            "day": pa.array([datetime.date(2024, 1, chance.randrange(1, 4)) for _ in times], pa.date32()),
            "amount": pa.array([chance.randrange(100) for _ in times], pa.int64()),
        }
    )
