"""Many small steps, and how much memory processes hold on to over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import psutil
import pyarrow as pa

from support.seeds import seeded_numpy

GROUPS, MINUTE, START = 30_000, 60_000_000, 1_704_067_200_000_000
WARM, STEPS = 40, 150
BOUND = 300_000
"""Bytes a step by which a process may grow: a tenth of what the payloads of a step are, and several times
what chance makes of malloc."""

QUERIES = """
-- name: sums
SELECT key, sum(x) AS total, max(x) AS top FROM s GROUP BY key, window(ts, '1 minute');
-- name: longer
SELECT key, avg(x) AS mean FROM s WHERE x > 0.5 GROUP BY key, window(ts, '3 minutes', '1 minute')
"""


def batches(count: int = STEPS) -> Iterator[pa.Table]:
    """A minute of rows each, one of every group; the values cannot be compressed."""
    chance = seeded_numpy(5)
    for number in range(count):
        times = START + number * MINUTE + np.sort(chance.integers(0, MINUTE, GROUPS))
        columns = {"ts": pa.array(times).cast(pa.timestamp("us", "UTC"))}
        yield pa.table(columns | {"key": np.arange(GROUPS), "x": chance.random(GROUPS)})


class Watched:
    """The memory of processes that is theirs alone, at the end of the warm-up and now."""

    def __init__(self) -> None:
        self.before: dict[int, int] = {}

    def look(self, step: int, processes: Iterable[psutil.Process]) -> None:
        """Called with every step."""
        if step == WARM:
            self.before = {p.pid: p.memory_full_info().uss for p in processes}

    def growth(self) -> dict[int, float]:
        """Bytes a step by which each process has grown since."""
        now = {
            pid: psutil.Process(pid).memory_full_info().uss for pid in self.before if psutil.pid_exists(pid)
        }
        return {pid: (size - self.before[pid]) / (STEPS - WARM) for pid, size in now.items()}
