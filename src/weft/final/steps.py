"""Runs of Python objects: a technique followed step by step, by insert, evict and query, without a kernel."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from weft.aggregates.monoid import Monoid
from weft.final.runs import by_chain
from weft.final.window import SlidingWindow


def answer_steps(
    window: type[SlidingWindow],
    monoid: Monoid,
    states: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    out: np.ndarray,
) -> None:
    """``out[k]`` := the states of run ``[low[k], high[k])`` combined; each chain has its own window."""
    order, chains = by_chain(low, high)
    for first, last in pairwise(chains.tolist()):
        runs = order[first:last]
        widest = int((high[runs] - low[runs]).max())
        sliding = window(monoid, [widest])
        begin = end = 0
        for run in runs.tolist():
            start, stop = int(low[run]), int(high[run])
            if start >= end:
                # Nothing is shared with the run before, which may be of another group.
                sliding, begin, end = window(monoid, [widest]), start, start
            for _ in range(begin, start):
                sliding.evict()
            for at in range(end, stop):
                sliding.insert(states[at : at + 1])
            begin, end = start, stop
            out[run] = sliding.query(stop - start)[0]
