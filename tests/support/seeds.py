"""Random numbers from a seed; of a test that fails, pytest shows the seeds that its file used."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np

MAX_SEEDS_SHOWN = 10
"""So many seeds, the latest: the last example that Hypothesis tries is the one that fails."""


class Seeds:
    """The seeds used by each test file, in its imports, fixtures and tests."""

    def __init__(self) -> None:
        self.file = ""
        self._used: dict[str, dict[int | str, None]] = defaultdict(dict)

    def use(self, seed: int | str) -> None:
        """Remember a seed as the latest of the file that runs."""
        used = self._used[self.file]
        used.pop(seed, None)
        used[seed] = None

    def shown(self, file: str) -> str:
        """The latest seeds of a file as text, empty where there are none."""
        return ", ".join(map(repr, list(self._used[file])[-MAX_SEEDS_SHOWN:]))


SEEDS = Seeds()


def seeded_random(seed: int | str) -> random.Random:
    """Python's generator, its seed shown where the test fails."""
    SEEDS.use(seed)
    return random.Random(seed)


def seeded_numpy(seed: int) -> np.random.Generator:
    """NumPy's generator, its seed shown where the test fails."""
    SEEDS.use(seed)
    return np.random.default_rng(seed)
