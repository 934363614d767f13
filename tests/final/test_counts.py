"""Operations per slide, amortised and at worst, and space: what the cards say, counted on long streams."""

from __future__ import annotations

from collections.abc import Iterable
from math import log2

import numpy as np
import pytest

from support.final_cases import COUNT, MAXIMUM
from support.seeds import seeded_numpy
from weft.final import TECHNIQUES

LENGTH = 700
SHAPES = {
    "random": seeded_numpy(7).integers(0, 2**40, LENGTH),
    "ascending": np.arange(LENGTH),
    "descending": np.arange(LENGTH)[::-1],
    "constant": np.full(LENGTH, 5),
}
# amortised (at least, at most), worst, and space, for one query of n partials.
ONE_QUERY = {
    "recompute": lambda n: ((n - 1, n - 1), n - 1, n),
    "soe": lambda n: ((2, 2), 2, n + 1),
    "flatfat": lambda n: ((log2(n), log2(n)), log2(n), 2 * n),
    "bint": lambda n: ((log2(n), log2(n)), log2(n), 2 * n),
    "twostacks": lambda n: ((3 - 4 / n, 3), n, 2 * n),
    "daba": lambda n: ((5 - 10 / n, 5), 8, 2 * n),
    "daba_lite": lambda n: ((4 - 8 / n, 4), 6, n + 2),
    "flatfit": lambda n: ((3 - 7 / n, 3), n - 1, 2 * n),
    "slickdeque_inv": lambda n: ((2, 2), 2, n + 1),
    "slickdeque": lambda n: ((1, 2), n, 2 * n),
    "slideside_inv": lambda n: ((3 - 4 / n, 3), n, 3 * n),
    "slideside": lambda n: ((3 - 5 / n, 3), n, 2 * n),
    "bulk": lambda n: ((2, 3 + n**0.5), 2 * n**0.5, 2 * n),
}
# at most, per slide, for the queries of 1..n partials.
ALL_QUERIES = {
    "recompute": lambda n: n * (n - 1) / 2,
    "soe": lambda n: 2 * n,
    "flatfat": lambda n: n * log2(n),
    "bint": lambda n: n * log2(n),
    "twostacks": lambda n: 3 * n,
    "daba": lambda n: 5 * n,
    "daba_lite": lambda n: 4 * n,
    "flatfit": lambda n: n - 1,
    "slickdeque_inv": lambda n: 2 * n,
    "slickdeque": lambda n: 2,
    "slideside_inv": lambda n: n + 2,
    "slideside": lambda n: n + 4,
    "bulk": lambda n: n * (2 + n**0.5),
}


def operations(name: str, n: int, stream: Iterable[int], queries: Iterable[int]) -> tuple[list[int], int]:
    """Operations of each slide once the window is full, and the most memory ever used."""
    technique, queries = TECHNIQUES[name], list(queries)
    window = technique.window(COUNT if technique.card.lacks(MAXIMUM) else MAXIMUM, queries)
    counts, memory = [], 0
    for value in stream:
        full, before = len(window) == n, window.operations
        if full:
            window.evict()
        window.insert(np.array([[value]]))
        if len(window) == n:
            for q in queries:
                window.query(q)
        if full:
            counts.append(window.operations - before)
        memory = max(memory, window.memory)
    return counts, memory


def test_every_technique_is_counted() -> None:
    assert set(ONE_QUERY) == set(ALL_QUERIES) == set(TECHNIQUES)


@pytest.mark.parametrize("name", ONE_QUERY)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [8, 64])
def test_one_query(name: str, shape: str, n: int) -> None:
    (least, most), worst, space = ONE_QUERY[name](n)
    counts, memory = operations(name, n, SHAPES[shape], [n])
    # The stream does not end with a cycle of flips: the mean is a little off either way.
    assert 0.95 * least <= np.mean(counts) <= 1.02 * most
    assert max(counts) <= worst
    assert memory <= space


@pytest.mark.parametrize("name", ALL_QUERIES)
def test_all_queries(name: str) -> None:
    n = 16
    counts, _ = operations(name, n, SHAPES["random"][:200], range(n, 0, -1))
    assert np.mean(counts) <= ALL_QUERIES[name](n)


def test_flatfit_needs_three_times_n_less_one_for_n_plus_one_slides() -> None:
    for n in (2, 5, 16, 50):
        counts, _ = operations("flatfit", n, SHAPES["random"], [n])
        cycles = len(counts) // (n + 1)
        totals = np.reshape(counts[: cycles * (n + 1)], (cycles, n + 1)).sum(axis=1)
        assert set(totals.tolist()) == {3 * (n - 1)}


@pytest.mark.parametrize("name", ["daba", "daba_lite"])
def test_no_slide_of_daba_is_ever_dear(name: str) -> None:
    # However the window grows and shrinks, an insert or an evict does at most one step of the flip.
    random, step = seeded_numpy(3), {"daba": 3, "daba_lite": 2}[name]
    window = TECHNIQUES[name].window(MAXIMUM, [40])
    for i in range(3000):
        before = window.operations
        if len(window) == 40 or (len(window) and random.random() < 0.5):
            window.evict()
            assert window.operations - before <= step
        else:
            window.insert(np.array([[i]]))
            assert window.operations - before <= step + 1
        before = window.operations
        window.query(len(window))
        assert window.operations - before <= 1


@pytest.mark.parametrize(("n", "expected"), [(16, 3.38), (64, 4.74)])
def test_slickdeque_is_as_long_as_the_harmonic_number(n: int, expected: float) -> None:
    window = TECHNIQUES["slickdeque"].window(MAXIMUM, [n])
    lengths = []
    for value in seeded_numpy(0).permutation(8000):
        if len(window) == n:
            window.evict()
        window.insert(np.array([[value]]))
        if len(window) == n:
            lengths.append(window.memory / 2)
    assert np.mean(lengths) == pytest.approx(expected, rel=0.05)


def test_slickdeque_at_its_worst_clears_a_full_deque() -> None:
    n = 32
    counts, memory = operations("slickdeque", n, [*range(2 * n, 0, -1), 10**6], [n])
    assert counts[-1] == n - 1
    assert memory == 2 * n
