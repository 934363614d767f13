"""Hypothesis strategies for joins: two streams that come in batches, and joins of them."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import weft
from weft.model.join import JoinQuery

SECOND = 1_000_000
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us")),
        ("k", pa.string()),
        ("x", pa.int64()),
        ("y", pa.float64()),
        ("n", pa.int64()),
    ]
)
CONDITIONS = (
    "a.k = b.k",
    "a.x = b.x",
    "b.x = a.y",
    "a.y = b.y",
    "a.k = b.k AND a.x = b.x",
    "a.k = b.k AND a.x < b.x",
    "abs(a.x - b.x) < 2",
    "abs(a.y - b.y) <= 1.5",
    "sqrt((a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y)) < 1.6",
    "(b.y - a.y) * (b.y - a.y) + a.x * a.x <= 4",
    "a.x < b.x",
    "a.y >= b.y",
    "a.x + b.x = 3",
    "a.x BETWEEN b.x - 1 AND b.x + 1 AND a.k = b.k",
    "a.x IS NULL OR b.k = 'p'",
    "10 / a.x > b.y",
    "TRUE",
)
SELECTIONS = ("", "a.x > 1", "b.x <> 2", "a.k IS NOT NULL", "a.y > 0 AND b.y < 1", "a.x > 1 AND b.x > 1")
RANGES = (1, 2, 3, 5, 8, 100)
EMPTY = SCHEMA.empty_table()


@st.composite
def batches(draw: st.DrawFn, first: int, span: int = 12) -> list[pa.Table]:
    """Batches of one stream: times in any order of a few seconds, values that are often equal or null."""
    tables, number = [], first
    for size in draw(st.lists(st.integers(0, 5), min_size=1, max_size=4)):
        rows: list[dict[str, Any]] = []
        for _ in range(size):
            ts = draw(
                st.one_of(st.integers(0, 2 * span), st.none() if draw(st.integers(0, 9)) == 0 else st.just(3))
            )
            rows.append(
                {
                    "ts": None if ts is None else ts * SECOND // 2,
                    "k": draw(st.sampled_from(["p", "q", None])),
                    "x": draw(st.sampled_from([0, 1, 2, 3, None])),
                    "y": draw(st.sampled_from([-1.0, 0.0, -0.0, 1.5, 2.0, math.nan, math.inf, None])),
                    "n": number,
                }
            )
            number += 1
        columns = {
            f.name: pa.array([r[f.name] for r in rows], pa.int64() if f.name == "ts" else f.type)
            for f in SCHEMA
        }
        columns["ts"] = columns["ts"].cast(pa.timestamp("us"))
        tables.append(pa.table(columns, schema=SCHEMA))
    return tables


def join(name: str, condition: str, selection: str, ranges: tuple[int, int]) -> JoinQuery:
    """A join of the streams a and b that gives the numbers of the rows joined, and a computed column."""
    where = f"({condition})" if " OR " in condition else condition
    where += f" AND {selection}" if selection else ""
    (query,) = weft.sql(
        f"SELECT a.n, b.n AS m, a.x + b.x AS s FROM a [RANGE '{ranges[0]} s'], b [RANGE '{ranges[1]} s'] "
        f"WHERE {where}"
    )
    assert isinstance(query, JoinQuery)
    return query.renamed(name)


@st.composite
def joins(draw: st.DrawFn, condition: str, prefix: str = "q", most: int = 4) -> list[JoinQuery]:
    """Joins on one condition with ranges and selections of their own."""
    some = draw(st.integers(1, most))
    pair = st.tuples(st.sampled_from(RANGES), st.sampled_from(RANGES))
    return [
        join(f"{prefix}{n}", condition, draw(st.sampled_from(SELECTIONS)), draw(pair)) for n in range(some)
    ]


def admitted(streams: list[pa.Table], lateness: int) -> list[pa.Table]:
    """The rows of each batch that are not late: at most the lateness behind those of earlier batches."""
    tables, mark = [], None
    for table in streams:
        times = table.column("ts").cast(pa.int64()).to_pylist()
        keep = [n for n, t in enumerate(times) if t is not None and (mark is None or t >= mark)]
        tables.append(table.take(pa.array(keep, pa.int64())))
        seen = [t - lateness for t in times if t is not None]
        mark = max([*seen, *([] if mark is None else [mark])], default=None)
    return tables


def watermarks(streams: list[pa.Table], lateness: int) -> list[int | None]:
    """The watermark behind each batch."""
    marks: list[int | None] = []
    for number in range(len(streams)):
        times = [t for s in streams[: number + 1] for t in s.column("ts").cast(pa.int64()).to_pylist()]
        lagged = [t - lateness for t in times if t is not None]
        marks.append(max(lagged, default=None))
    return marks


def steps_of(a: list[pa.Table], b: list[pa.Table]) -> list[dict[str, pa.Table]]:
    """Both streams step by step, however many batches each has."""
    longest = max(len(a), len(b))
    pad = [EMPTY] * longest
    return [{"a": x, "b": y} for x, y in zip((a + pad)[:longest], (b + pad)[:longest])]


class Life:
    """The life of a query: its first step, and the times of the first and last results it can have."""

    def __init__(self, query: JoinQuery, since: int, first: int | None = None) -> None:
        self.query, self.since, self.first = query, since, first
        self.dropped, self.last = False, None


def covers(one: JoinQuery, other: JoinQuery) -> bool:
    wide = all(s.range >= t.range for s, t in zip(one.sides, other.sides))
    return wide and one.selections == other.selections
