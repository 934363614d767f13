"""Million slides per second of every technique, all of them in turn, so that what disturbs one disturbs all.

Answers are written as one of two kinds of engine would: in batches of about a thousand slides, or slide by
slide, each answer before the next value is looked at, as in the papers. Times are CPU times of the thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from _final.operations import OPERATIONS
from _final.oracle import Slide
from lab.final.sliding import slide

TRY_SECONDS = 0.02
"""Time that one try should take."""
MAX_VALUES = 1 << 22
IN_BATCHES, SLIDE_BY_SLIDE = "batch", "slide by slide"


@dataclass(frozen=True, slots=True)
class Effort:
    """The tries of each, and the seconds for which four windows' worth of slides is waited for."""

    tries: int
    patience: float


def stream(length: int = MAX_VALUES) -> np.ndarray:
    """Independent values: the usual case of every technique."""
    return np.random.default_rng(2012).integers(0, 1 << 40, length)


def columns_of(queries: int, mode: str) -> int:
    """Answers kept per query: what stays in the cache, and never a power of two, which would share its sets.

    >>> columns_of(64, IN_BATCHES), columns_of(1024, IN_BATCHES), columns_of(64, SLIDE_BY_SLIDE)
    (1000, 63, 1)
    """
    return 1 if mode == SLIDE_BY_SLIDE else 1000 if queries <= 64 else (64_000 // queries) | 1


def slides(operation: str, names: Iterable[str]) -> dict[str, Slide]:
    """The slide kernels of techniques, as functions of values, windows and output."""
    monoid = OPERATIONS[operation]

    def bind(name: str) -> Slide:
        return lambda values, windows, out: slide(name, monoid, values, windows, out)

    return {name: bind(name) for name in names}


def compare(
    contest: dict[str, Slide],
    values: np.ndarray,
    windows: list[int],
    mode: str,
    effort: Effort,
    before: dict[str, float],
) -> dict[str, float]:
    """Million slides per second by name; stops if answers differ.

    ``before`` are the rates at a narrower window: what was too slow there is not asked again.
    """
    least = 4 * max(windows)
    patient = {name: s for name, s in contest.items() if least < 1e6 * before[name] * effort.patience}
    out = np.zeros((len(windows), columns_of(len(windows), mode), 1), dtype=np.int64)
    rates = check_answers(patient, values[: least // 2 + 1000], windows, out)
    counts = {
        name: int(np.clip(rate * TRY_SECONDS, max(least, 1000), len(values))) for name, rate in rates.items()
    }

    def work(name: str) -> Callable[[], None]:
        return lambda: patient[name](values[: counts[name]], windows, out)

    best = fastest({name: work(name) for name in patient}, effort.tries)
    return {name: counts[name] / seconds / 1e6 for name, seconds in best.items()}


def check_answers(
    contest: dict[str, Slide], values: np.ndarray, windows: list[int], out: np.ndarray
) -> dict[str, float]:
    """Roughly the slides per second of each; AssertionError unless all agree on the newest answers."""
    expected: np.ndarray | None = None
    rates = {}
    for name, work in contest.items():
        work(values[:1], windows, out)  # compiles it
        out[:] = -1
        start = time.thread_time()
        work(values, windows, out)
        rates[name] = len(values) / (time.thread_time() - start)
        if expected is None:
            expected = out.copy()
        elif not np.array_equal(out, expected):
            raise AssertionError(f"{name} and {next(iter(contest))} disagree on windows {windows[:8]}")
    return rates


def fastest(work: dict[str, Callable[[], None]], tries: int) -> dict[str, float]:
    """The fewest seconds of each, measured in turn."""
    best = dict.fromkeys(work, float("inf"))
    for _ in range(tries):
        for name, run in work.items():
            start = time.thread_time()
            run()
            best[name] = min(best[name], time.thread_time() - start)
    return best
