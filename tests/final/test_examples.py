"""The worked examples of the papers, step by step, with their numbers of operations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from support.final_cases import COUNT as SUM
from support.final_cases import MAXIMUM as MAX
from weft.final import TECHNIQUES, SlidingWindow

FLATFIT_STREAM = (2, 4, 0, 3, 7, 6, 1, 8, 9, 5)
SLICKDEQUE_STREAM = (6, 5, 0, 1, 3, 4, 2, 7)


def slides(window: SlidingWindow, stream: tuple[int, ...]) -> Iterator[None]:
    for value in stream:
        if len(window) == window.capacity:
            window.evict()
        window.insert(np.array([[value]]))
        yield


def filled(window: SlidingWindow) -> SlidingWindow:
    """The papers' first windows are full of initial values, which count as any other."""
    for _ in range(window.capacity):
        window.insert(window.monoid.identity(1))
    window.operations = 0
    return window


def answer(window: SlidingWindow, n: int) -> int:
    return int(window.query(n)[0, 0])


def test_flatfit_with_one_query() -> None:
    window = filled(TECHNIQUES["flatfit"].window(MAX, [5]))
    steps = [(answer(window, 5), window.operations) for _ in slides(window, FLATFIT_STREAM)]
    assert [a for a, _ in steps] == [2, 4, 4, 4, 7, 7, 7, 8, 9, 9]
    # Step 1 and step 7 visit every position; the second and the last of a cycle need one operation.
    assert np.diff([n for _, n in steps], prepend=0).tolist() == [4, 1, 2, 2, 2, 1, 4, 1, 2, 2]
    assert window.operations == 21


def test_flatfit_with_two_queries() -> None:
    window = filled(TECHNIQUES["flatfit"].window(MAX, [5, 2]))
    wide, narrow, spent = [], [], []
    for _ in slides(window, FLATFIT_STREAM):
        wide.append(answer(window, 5))
        before = window.operations
        narrow.append(answer(window, 2))
        spent.append(window.operations - before)
    assert wide == [2, 4, 4, 4, 7, 7, 7, 8, 9, 9]
    assert narrow == [2, 4, 4, 3, 7, 7, 6, 8, 9, 9]
    # In steps 1, 3, 7 and 9 the second answer is one hop away.
    assert spent == [0, 1, 0, 1, 1, 1, 0, 1, 0, 1]
    assert window.operations == 21 + 6


def test_recompute_over_the_flatfit_example() -> None:
    window = filled(TECHNIQUES["recompute"].window(MAX, [5, 2]))
    for _ in slides(window, FLATFIT_STREAM):
        window.query(5)
    assert window.operations == 40
    for _ in range(10):
        window.query(2)
    assert window.operations == 50


def test_slickdeque_inv() -> None:
    window = filled(TECHNIQUES["slickdeque_inv"].window(SUM, [3, 5]))
    answers = []
    for number, _ in enumerate(slides(window, SLICKDEQUE_STREAM), 1):
        answers.append((answer(window, 3), answer(window, 5)))
        assert window.operations == 4 * number
    assert [a for a, _ in answers] == [6, 11, 11, 6, 4, 8, 9, 13]
    assert [b for _, b in answers] == [6, 11, 11, 12, 15, 13, 10, 17]
    assert window.operations == 32


def test_slickdeque_non_inv() -> None:
    window = TECHNIQUES["slickdeque"].window(MAX, [3, 5])
    answers, nodes, spent = [], [], []
    for _ in slides(window, SLICKDEQUE_STREAM):
        answers.append((answer(window, min(3, len(window))), answer(window, min(5, len(window)))))
        nodes.append([(position, int(state[0, 0])) for position, state in window.deques[0]])
        spent.append(window.operations)
    assert [a for a, _ in answers] == [6, 6, 6, 5, 3, 4, 4, 7]
    assert [b for _, b in answers] == [6, 6, 6, 6, 6, 5, 4, 7]
    assert nodes == [
        [(0, 6)],
        [(0, 6), (1, 5)],
        [(0, 6), (1, 5), (2, 0)],
        [(0, 6), (1, 5), (3, 1)],
        [(0, 6), (1, 5), (4, 3)],
        [(1, 5), (5, 4)],
        [(5, 4), (6, 2)],
        [(7, 7)],
    ]
    assert np.diff(spent, prepend=0).tolist() == [0, 1, 1, 2, 2, 2, 1, 2]
    assert window.operations == 11


def test_recompute_over_the_slickdeque_example() -> None:
    window = filled(TECHNIQUES["recompute"].window(SUM, [3, 5]))
    for _ in slides(window, SLICKDEQUE_STREAM):
        window.query(3)
        window.query(5)
    assert window.operations == 48


def test_slideside_inv() -> None:
    window = TECHNIQUES["slideside_inv"].window(SUM, [3, 4])
    stream = slides(window, (3, 4, 2, 8, 5))

    def scan(totals: list[np.ndarray]) -> list[int]:
        return [int(t[0, 0]) for t in totals]

    for _ in range(4):
        next(stream)
    # The whole lap is its prefix; three of it are the prefix without the first: 17 - 3.
    assert scan(window.prefix) == [3, 7, 9, 17]
    before = window.operations
    assert (answer(window, 3), answer(window, 4)) == (14, 17)
    assert window.operations == before + 1
    # The ring wraps: suffixes of the lap before, a new prefix; both windows are one of each.
    next(stream)
    assert scan(window.suffix) == [17, 14, 10, 8]
    assert scan(window.prefix) == [5]
    before = window.operations
    assert (answer(window, 3), answer(window, 4)) == (15, 19)
    assert window.operations == before + 2


def test_slideside_non_inv() -> None:
    window = TECHNIQUES["slideside"].window(MAX, [3, 4])
    answers = []
    for _ in slides(window, (3, 4, 2, 8, 5, 1, 0, 2)):
        answers.append((answer(window, min(3, len(window))), answer(window, min(4, len(window)))))
    assert answers == [(3, 3), (4, 4), (4, 4), (8, 8), (8, 8), (8, 8), (5, 8), (2, 5)]
