"""Many queries whose predicates overlap, nest and contradict each other, over small trades with holes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import weft
from support.seeds import seeded_numpy, seeded_random
from weft.model.query import Query

TYPES = {"ts": "timestamp", "symbol": "string", "price": "double", "volume": "bigint"}


def trades(rows: int, seed: int = 1) -> pa.Table:
    """Rows of a few minutes with some nulls and NaN in what predicates look at."""
    draw = seeded_numpy(seed)
    start = np.datetime64("2024-01-01T00:00:00", "us")
    price = draw.normal(100, 10, rows).round(2)
    price[draw.random(rows) < 0.02] = np.nan
    volume = draw.choice([100, 100, 100, 200, 500, 1000], rows)
    return pa.table(
        {
            "ts": start + np.sort(draw.integers(0, 300_000_000, rows)).astype("timedelta64[us]"),
            "symbol": draw.choice(["a", "b", "c", "d"], rows),
            "price": pa.array(price, mask=draw.random(rows) < 0.05),
            "volume": pa.array(volume, mask=draw.random(rows) < 0.05),
        }
    )


PREDICATES = (
    "price > {a}",
    "price > {a} AND price < {b}",
    "price BETWEEN {a} AND {b} AND volume >= {v}",
    "NOT (price <= {a})",
    "price > {b} AND price < {a}",
    "volume IN ({v}, 200)",
    "volume = {v} OR price IS NULL",
    "volume <> {v} AND symbol IN ('a', 'c')",
    "symbol LIKE '%b%' OR price * volume > {a} * 300",
    "1 = 1",
    "1 = 0",
    "volume IS NULL",
    "price / (volume - {v}) > 1",
)
"""Overlapping, nested, contradictory, null-laden, always and never true."""


def random_queries(count: int, seed: int) -> list[Query]:
    draw = seeded_random(seed)
    texts = []
    for number in range(count):
        a, b = sorted(round(draw.uniform(80, 120), 1) for _ in range(2))
        where = draw.choice(PREDICATES).format(a=a, b=b, v=draw.choice([100, 200, 500, 1000]))
        by = draw.choice(["", "symbol", "volume", "symbol, volume"])
        length = draw.choice([30, 60, 120])
        texts.append(
            f"-- name: q{number}\nSELECT {by + ', ' if by else ''}count(*) AS n, sum(price) AS s, max(volume)"
            f" AS top FROM trades [RANGE '{length} s' SLIDE '{length // draw.choice([1, 2])} s'] "
            f"WHERE {where}"
            f"{' GROUP BY ' + by if by else ''}"
        )
    return weft.sql(";\n".join(texts))
