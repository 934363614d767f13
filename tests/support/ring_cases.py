"""Joins of many streams for Hypothesis, and the dumbest way to answer them: every combination of rows."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from lab.ring.machine import Account, Costs
from lab.ring.multijoin import MultiJoin, Row, rows_of
from lab.ring.slicing import Slicing, bounded

COSTS = Costs(join=0.01, purge=0.003, insert=0.002, send=0.05, hop=0.3)
TESTS = {
    "equal": lambda a, b: a == b,
    "less": lambda a, b: a < b,
    "near": lambda a, b: abs(a - b) <= 1,
    "odd": lambda a, b: (2 * a + b) % 3 != 0,
}


def oracle(join: MultiJoin, rows: Sequence[Row]) -> list[tuple[int, ...]]:
    """The numbers of the rows of every result, in no order."""
    streams = range(len(join.windows))
    results = []
    for parts in itertools.product(*([row for row in rows if row.stream == s] for s in streams)):
        latest = max(part.time for part in parts)
        good = all(latest - part.time < window for part, window in zip(parts, join.windows))
        good = good and all(test(parts[a].value, parts[b].value) for (a, b), test in join.pairs.items())
        if good and (join.whole is None or join.whole([part.value for part in parts])):
            results.append(tuple(part.number for part in parts))
    return sorted(results)


def numbers(account: Account) -> list[tuple[int, ...]]:
    """A run's results as the oracle gives them; one that is there twice is there twice."""
    return sorted(tuple(row.number for row in result.rows) for result in account.results)


PER_STREAM = {2: 15, 3: 9, 4: 6, 5: 4, 6: 4, 7: 3, 8: 3, 9: 2}
"""How many rows of each stream the oracle can take."""

cases = st.integers(0, 2**32 - 1)
"""What a case is made of: a number gives streams, windows, conditions, orders, nodes, rows and interleaving.
Choices drawn one by one repeat most of an example in the next; numbers make each a case of its own."""


def some_join(chosen: random.Random) -> MultiJoin:
    """Two to nine streams, each with its own window and join order, and any conditions."""
    streams = chosen.choice([2, 3, 3, 3, 4, 4, 5, 5, 6, 7, 8, 9])
    # Of many streams, few rows must join, or there is nothing to compare.
    names = sorted(TESTS) if streams < 5 else ["near", "odd"]
    every = list(itertools.combinations(range(streams), 2))
    return MultiJoin(
        tuple(chosen.choice([1, 3, 5, 8, 12] if streams < 5 else [5, 8, 12, 20]) for _ in range(streams)),
        {pair: TESTS[chosen.choice(names)] for pair in chosen.sample(every, chosen.randint(0, 3) % streams)},
        chosen.choice([None, lambda values: sum(values) % 3 != 1]),
        some_orders(chosen, streams),
    )


def some_orders(chosen: random.Random, streams: int) -> tuple[tuple[int, ...], ...]:
    """A join order for each stream."""
    others = ([other for other in range(streams) if other != stream] for stream in range(streams))
    return tuple(tuple(chosen.sample(some, len(some))) for some in others)


def some_rows(chosen: random.Random, join: MultiJoin) -> list[Row]:
    """Few rows in order of time: some at the same time, some after a long pause."""
    streams, time = len(join.windows), 0.0
    given: list[tuple[int, float, Any]] = []
    for _ in range(streams * PER_STREAM[streams]):
        time += chosen.choice([0, 0, 0.25, 0.25, 0.5, 1, 1, 5] if streams < 6 else [0, 0.25, 0.5, 1])
        given.append((chosen.randrange(streams), time, chosen.randint(0, 2)))
    return rows_of(given)


def some_slicing(chosen: random.Random, streams: int) -> Slicing:
    """Slices of any width over one to five nodes, also none at all, and bounded or not."""
    nodes = chosen.randint(1, 5)
    shares = []
    for _ in range(streams):
        parts = [chosen.randint(0, 3) for _ in range(nodes)]
        total = sum(parts)
        shares.append(tuple(p / total for p in parts) if total else (1 / nodes,) * nodes)
    slicing = Slicing(tuple(shares))
    if chosen.random() < 0.3:
        slicing = bounded(slicing, [chosen.randint(0, 8) for _ in range(streams)])
    return slicing
