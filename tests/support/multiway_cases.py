"""Hypothesis strategies for joins of three and more streams."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

import weft
from support.join_cases import SCHEMA, batches
from weft.model.join import JoinQuery

CONDITIONS = (
    "a.k = b.k AND b.k = c.k",
    "a.k = b.k AND b.x = c.x",
    "a.x = b.x AND a.y < c.y",
    "a.x + b.x = c.x",
    "a.k = c.k AND a.x + c.x = b.y",
    "abs(a.x - b.x) < 2 AND abs(b.y - c.y) <= 1.5",
    "abs(a.x + b.x - c.x) < 2",
    "sqrt((a.x - b.x) * (a.x - b.x) + (a.y - c.y) * (a.y - c.y)) < 1.6 AND abs(b.x - c.x) < 3",
    "a.x < b.x AND b.x < c.x",
    "a.x * b.x > c.y",
    "a.k = b.k",
    "a.k = b.k AND a.x = b.x AND b.k = c.k AND a.x = c.x",
    "a.k = c.k AND 10 / a.x > b.y",
    "(a.x IS NULL OR b.k = 'p') AND c.x = 1 + b.x",
    "TRUE",
)
SELECTIONS = ("", "a.x > 1", "b.x <> 2", "c.k IS NOT NULL", "a.y > 0 AND c.y < 1", "b.x > 1 AND c.x > 0")
RANGES = (1, 2, 3, 5, 8, 100)


def join(name: str, condition: str, selection: str, ranges: tuple[int, ...]) -> JoinQuery:
    """A join of the streams a, b and c that gives the numbers of the rows joined, and a computed column."""
    streams = ", ".join(f"{s} [RANGE '{r} s']" for s, r in zip("abc", ranges))
    where = f"{condition} AND {selection}" if selection else condition
    (found,) = weft.sql(f"SELECT a.n, b.n AS m, c.n AS o, a.x + c.x AS s FROM {streams} WHERE {where}")
    assert isinstance(found, JoinQuery)
    return found.renamed(name)


@st.composite
def joins(draw: st.DrawFn, condition: str, prefix: str = "q", most: int = 4) -> list[JoinQuery]:
    """Joins on one condition with ranges and selections of their own."""
    ranges = st.tuples(*[st.sampled_from(RANGES)] * 3)
    return [
        join(f"{prefix}{n}", condition, draw(st.sampled_from(SELECTIONS)), draw(ranges))
        for n in range(draw(st.integers(1, most)))
    ]


@st.composite
def steps(draw: st.DrawFn) -> list[dict[str, pa.Table]]:
    """Three streams step by step, however many batches each has."""
    streams = {name: draw(batches(100 * place)) for place, name in enumerate("abc")}
    longest = max(map(len, streams.values()))
    return [
        {name: some[n] if n < len(some) else SCHEMA.empty_table() for name, some in streams.items()}
        for n in range(longest)
    ]
