"""Seeded sets of questions about generated trades, as SQL that both weft and Spark understand.

`sliding` is the benchmark's set: one shape of question, many windows. `varied` is the demo's:
what a trading desk, a risk team and a few dashboards might ask together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Question:
    """One question about trades; times are in seconds.

    >>> asked = Question("busy", ("sum(volume) AS shares",), range=720, slide=300, where="price > 50")
    >>> print(asked.sql())
    SELECT symbol, sum(volume) AS shares FROM trades WHERE price > 50
    GROUP BY symbol, window(ts, '720 seconds', '300 seconds')
    """

    name: str
    values: tuple[str, ...]
    range: int
    slide: int
    group_by: tuple[str, ...] = ("symbol",)
    where: str | None = None

    def sql(self) -> str:
        """The question as weft takes it."""
        return self._statement((*self.group_by, *self.values))

    def spark_sql(self) -> str:
        """The same question for Spark alone, with the window's bounds as columns."""
        bounds = ("window.start AS window_start", "window.end AS window_end")
        return self._statement((*self.group_by, *bounds, *self.values))

    def _statement(self, columns: tuple[str, ...]) -> str:
        where = f" WHERE {self.where}" if self.where else ""
        keys = (*self.group_by, f"window(ts, '{self.range} seconds', '{self.slide} seconds')")
        return f"SELECT {', '.join(columns)} FROM trades{where}\nGROUP BY {', '.join(keys)}"


def text(questions: Iterable[Question]) -> str:
    """All questions as one file of named queries.

    >>> print(text([Question("all", ("count(*) AS trades",), 60, 60, group_by=())]))
    -- name: all
    SELECT count(*) AS trades FROM trades
    GROUP BY window(ts, '60 seconds', '60 seconds');
    <BLANKLINE>
    """
    return "\n".join(f"-- name: {q.name}\n{q.sql()};\n" for q in questions)


def sliding(count: int, seed: int = 0) -> list[Question]:
    """Sum, count and max by symbol over windows of 600-900 s that slide by 300-600 s, in whole seconds.

    >>> [(q.range, q.slide) for q in sliding(2)]
    [(856, 491), (753, 381)]
    """
    random = np.random.default_rng(seed)
    values = ("sum(volume) AS shares", "count(*) AS trades", "max(price) AS top")
    return [
        Question(f"q{i:03}", values, int(random.integers(600, 901)), int(random.integers(300, 601)))
        for i in range(count)
    ]


MEASURES = {
    "traded": ("sum(volume) AS shares", "count(*) AS trades"),
    "vwap": ("sum(price * volume) / sum(volume) AS vwap", "sum(volume) AS shares"),
    "mean": ("avg(price) AS mean", "stddev_samp(price) AS spread"),
    "bounds": ("min(price) AS low", "max(price) AS high"),
    "value": ("sum(price * volume) AS value", "max(volume) AS largest"),
}
CONDITIONS = (
    None,
    None,
    None,
    "volume >= 500",
    "volume >= 1000",
    "volume < 100",
    "price > 100",
    "exchange = 'N'",
    "exchange = 'Q'",
    "exchange IN ('P', 'Z')",
)
GROUPINGS = (("symbol",), ("symbol",), ("symbol",), ("exchange",), ())
RANGES = (300, 600, 720, 900, 1200, 1800, 3600)
SLIDES = (60, 120, 180, 300, 600)


def varied(count: int, seed: int = 0) -> list[Question]:
    """Questions that differ in measure, condition, grouping and window.

    >>> len({q.sql() for q in varied(100)}) > 90
    True
    """
    random = np.random.default_rng(seed)
    questions = []
    for i in range(count):
        measure = list(MEASURES)[random.integers(len(MEASURES))]
        window = RANGES[random.integers(len(RANGES))]
        slides = [s for s in SLIDES if s <= window]
        questions.append(
            Question(
                name=f"{measure}_{i:03}",
                values=MEASURES[measure],
                range=window,
                slide=slides[random.integers(len(slides))],
                group_by=GROUPINGS[random.integers(len(GROUPINGS))],
                where=CONDITIONS[random.integers(len(CONDITIONS))],
            )
        )
    return questions
