"""The ratios that sum the benchmark up, and what the papers have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from _final.throughput import IN_BATCHES, SLIDE_BY_SLIDE
from weft.final import TECHNIQUES

Rows = list[dict[str, Any]]

ONE_QUERY, ALL_QUERIES, MANY_QUERIES, AGAINST_C, LATENCY, MEMORY = (
    "one query",
    "all queries",
    "many queries",
    "kernel over C",
    "latency",
    "memory",
)
"""The parts of the benchmark; the first three are sweeps of throughput."""

THESIS = ("recompute", "flatfat", "bint", "flatfit", "twostacks", "daba")
"""What the thesis compares SlickDeque with."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A technique's rate over that of the best of its rivals: at a point, or the largest of all points."""

    name: str
    part: str
    operation: str
    technique: str
    rivals: tuple[str, ...]
    paper: str
    point: int | None = None
    modes: tuple[str, ...] = (IN_BATCHES, SLIDE_BY_SLIDE)

    def at_each_point(self, rows: Rows, mode: str) -> dict[int, float]:
        """The ratio by point.

        >>> ratio = Ratio("a_over_b", ONE_QUERY, "sum", "a", ("b", "c"), "")
        >>> row = {"part": ONE_QUERY, "operation": "sum", "mode": IN_BATCHES, "n": 4}
        >>> row |= {"a": 6.0, "b": 3.0, "c": 2.0}
        >>> ratio.at_each_point([row], IN_BATCHES)
        {4: 2.0}
        """
        asked = (self.part, self.operation, mode)
        chosen = [row for row in rows if (row["part"], row.get("operation"), row.get("mode")) == asked]
        rates = [
            (row["n"], row.get(self.technique), [row[r] for r in self.rivals if r in row]) for row in chosen
        ]
        return {n: mine / max(others) for n, mine, others in rates if mine and others}

    def value(self, rows: Rows, mode: str) -> float:
        """The one number."""
        points = self.at_each_point(rows, mode)
        return points[self.point] if self.point else max(points.values())


RATIOS = (
    Ratio(
        "bulk_over_slickdeque_sum",
        MANY_QUERIES,
        "sum",
        "bulk",
        ("slickdeque_inv",),
        "goal: 4",
        64,
        (IN_BATCHES,),
    ),
    Ratio(
        "bulk_over_slickdeque_min", MANY_QUERIES, "min", "bulk", ("slickdeque",), "goal: 3", 64, (IN_BATCHES,)
    ),
    Ratio(
        "slideside_over_slickdeque_sum",
        MANY_QUERIES,
        "sum",
        "slideside_inv",
        ("slickdeque_inv",),
        "up to 1.4",
    ),
    Ratio("slideside_over_slickdeque_min", MANY_QUERIES, "min", "slideside", ("slickdeque",), "up to 2.2"),
    Ratio("slideside_over_soe_sum", MANY_QUERIES, "sum", "slideside_inv", ("soe",), "up to about 4"),
    Ratio("flatfit_over_flatfat_one", ONE_QUERY, "max", "flatfit", ("flatfat",), "up to 2.6"),
    Ratio("flatfit_over_flatfat_all", ALL_QUERIES, "max", "flatfit", ("flatfat",), "up to 17"),
    Ratio("slickdeque_over_next_sum_one", ONE_QUERY, "sum", "slickdeque_inv", THESIS, "up to 1.19"),
    Ratio("slickdeque_over_next_max_one", ONE_QUERY, "max", "slickdeque", THESIS, "up to 1.10"),
    Ratio("slickdeque_over_next_sum_all", ALL_QUERIES, "sum", "slickdeque_inv", THESIS, "up to 1.60"),
    Ratio("slickdeque_over_next_max_all", ALL_QUERIES, "max", "slickdeque", THESIS, "up to 3.45"),
)


def figures(rows: Rows) -> dict[str, float]:
    """Every ratio in batches, and slide by slide where the papers measured so."""
    ratios = {
        ratio.name + ("_single" if mode == SLIDE_BY_SLIDE else ""): ratio.value(rows, mode)
        for ratio in RATIOS
        for mode in ratio.modes
    }
    plain = [row[name] for row in rows if row["part"] == AGAINST_C for name in TECHNIQUES if name in row]
    return ratios | ({"kernel_over_c_worst": max(plain)} if plain else {})
