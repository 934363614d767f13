"""Monoids, streams of states for them, and what states mean."""

from __future__ import annotations

import numpy as np

from support.seeds import seeded_numpy
from weft.aggregates.monoid import (
    ADD,
    AFFINE,
    MAX,
    MIN,
    MOMENTS,
    PRODUCT,
    SUM_FLOAT,
    SUM_INT,
    Monoid,
)
from weft.final import TECHNIQUES, Technique

MONOIDS = {
    "count": Monoid(ADD, 1, invertible=True),
    "sum of integers": Monoid(SUM_INT, 2, invertible=True),
    "sum of floats": Monoid(SUM_FLOAT, 2),
    "min": Monoid(MIN, 1, selective=True),
    "max": Monoid(MAX, 1, selective=True),
    "lexicographic min": Monoid(MIN, 3, selective=True),
    "lexicographic max": Monoid(MAX, 4, selective=True),
    "moments": Monoid(MOMENTS, 4),
    "product": Monoid(PRODUCT, 2),
    "affine map": Monoid(AFFINE, 2, commutative=False),
}
COUNT, MAXIMUM, AFFINE_MAP = MONOIDS["count"], MONOIDS["max"], MONOIDS["affine map"]

# Compiling is what takes time: one monoid of each nature stands for the others, which differ in formula only.
NATURES = {name: MONOIDS[name] for name in ("count", "max", "affine map")}


def pairs(monoids: dict[str, Monoid]) -> list[tuple[str, str]]:
    """Every technique with every monoid that it can run, by name."""
    return [(t, m) for t in TECHNIQUES for m in monoids if not TECHNIQUES[t].card.lacks(monoids[m])]


def techniques_for(monoid: Monoid) -> list[type[Technique]]:
    return [t for t in TECHNIQUES.values() if not t.card.lacks(monoid)]


def states(monoid: Monoid, n: int, seed: int) -> np.ndarray:
    """Some states, about one in eight of them the identity."""
    random = seeded_numpy(seed)
    words = random.integers(-50, 50, (n, monoid.width))
    floats = words.view(np.float64)
    if monoid.code == SUM_INT:
        words[:, 1] = random.integers(0, 2**32, n)
    if monoid.code in (SUM_FLOAT, PRODUCT):
        floats[:, 0] = random.normal(size=n)
    if monoid.code == SUM_FLOAT:
        floats[:, 1] = 0.0
    if monoid.code == MOMENTS:
        words[:, 0] = random.integers(1, 4, n)
        floats[:, 1], floats[:, 2], floats[:, 3] = random.random(n), 0.0, random.random(n)
    words[random.random(n) < 0.125] = monoid.identity(1)
    return words


def meaning(monoid: Monoid, words: np.ndarray) -> np.ndarray:
    """Return the values that states stand for: different words may mean the same float."""
    floats = words.view(np.float64)
    if monoid.code == SUM_FLOAT:
        return floats[:, 0] + floats[:, 1]
    if monoid.code == PRODUCT:
        return np.ldexp(floats[:, 0], words[:, 1].astype(np.int32))
    if monoid.code == MOMENTS:
        return np.column_stack([words[:, 0], floats[:, 1] + floats[:, 2], floats[:, 3]])
    return words


def assert_same(monoid: Monoid, got: np.ndarray, expected: np.ndarray) -> None:
    """Equal words, or floats within the promised accuracy; rows that one of them lacks are identities."""
    rows = max(len(got), len(expected))
    got, expected = (np.concatenate([m, monoid.identity(rows - len(m))]) for m in (got, expected))
    if monoid.code in (SUM_FLOAT, MOMENTS, PRODUCT):
        np.testing.assert_allclose(meaning(monoid, got), meaning(monoid, expected), rtol=1e-9, atol=1e-12)
    else:
        np.testing.assert_array_equal(got, expected)
