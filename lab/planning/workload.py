"""Seeded workloads for optimizers, as the papers make them: slides by Zipf, ranges a multiple of the slide.

Guirguis et al., CIKM 2011, section 6; Shein 2019, sections 5.4.1, 6.6.1 and 7.3.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from weft.errors import QueryError
from weft.model.query import Aggregate, Query
from weft.model.window import Window
from weft.planning.windows import SECOND, Windows

KINDS = ("normal", "diverse")


@dataclass(frozen=True, slots=True)
class Workload:
    """Parameters of random windows: number, longest slide in seconds, and so on; the same windows for each.

    ``skew`` is Zipf's: 0 draws slides evenly, more favours large ones, less small ones. A range is its slide
    times an overlap factor drawn evenly from 1 to ``overlap``: a whole number, so that start and end edges
    coincide, unless ``fragments``. *diverse* slides are primes; ``factors`` draws from the divisors of the
    longest slide.

    >>> Workload(queries=3, longest=10, overlap=4).windows().slides.tolist()
    [7000000, 3000000, 1000000]
    """

    queries: int
    longest: int
    overlap: int
    rate: float = 1.0
    skew: float = 0.0
    kind: str = "normal"
    factors: bool = False
    fragments: bool = False
    nodes: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise QueryError(f"a workload is {' or '.join(KINDS)}, not {self.kind!r}")
        if min(self.queries, self.longest, self.overlap, self.nodes) < 1 or not self.slides().size:
            raise QueryError("a workload needs queries, nodes, slides and overlaps of at least 1")

    def slides(self) -> np.ndarray:
        """Return the slides that are drawn from, in seconds, ascending."""
        numbers = np.arange(1, self.longest + 1)
        if self.factors:
            numbers = numbers[self.longest % numbers == 0]
        if self.kind == "diverse":
            sieve = np.ones(self.longest + 1, dtype=np.bool_)
            sieve[:2] = False
            for number in range(2, int(self.longest**0.5) + 1):
                sieve[number * number :: number] = False
            numbers = numbers[sieve[numbers]]
        return numbers

    def windows(self) -> Windows:
        """Return the windows, as arrays."""
        random = np.random.default_rng(self.seed)
        slides = self.slides()
        weights = np.arange(slides.size, 0, -1.0) ** -self.skew
        drawn = random.choice(slides, self.queries, p=weights / weights.sum()) * SECOND
        if self.fragments:
            ranges = np.rint(random.uniform(1, self.overlap, self.queries) * (drawn // SECOND)).astype(
                np.int64
            )
            ranges *= SECOND
        else:
            ranges = random.integers(1, self.overlap, self.queries, endpoint=True) * drawn
        return Windows(ranges, drawn, np.zeros_like(drawn))

    def as_queries(self) -> tuple[Query, ...]:
        """Return the same windows as queries that count rows."""
        windows = self.windows()
        rows = zip(windows.ranges.tolist(), windows.slides.tolist())
        count = (Aggregate("count_star", (), "rows"),)
        return tuple(Query(f"q{i}", "stream", Window(r, s), count) for i, (r, s) in enumerate(rows))


def distributed_workloads(seed: int = 0) -> Iterator[Workload]:
    """Yield the 256 workloads of Shein 2019, table 8.

    >>> sum(1 for _ in distributed_workloads())
    256
    """
    settings = product((250, 500), (4, 8, 16, 32), (10.0, 100.0), (25, 50), (0.0, 1.0), (10, 100), KINDS)
    for number, (queries, nodes, rate, longest, skew, overlap, kind) in enumerate(settings):
        yield Workload(queries, longest, overlap, rate, skew, kind, nodes=nodes, seed=1000 * seed + number)
