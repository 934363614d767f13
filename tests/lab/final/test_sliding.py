"""Every technique slide by slide, against recompute."""

from __future__ import annotations

import numpy as np
import pytest

from lab.final.sliding import slide
from support.final_cases import MONOIDS, NATURES, pairs, states
from weft.errors import QueryError


@pytest.mark.parametrize(("name", "monoid"), pairs(NATURES))
@pytest.mark.parametrize("shape", ["sorted", "reversed", "constant", "random"])
def test_slide(name: str, monoid: str, shape: str) -> None:
    chosen, n = MONOIDS[monoid], 300
    ramp = np.repeat(np.arange(n)[:, np.newaxis], chosen.width, axis=1)
    values = {
        "sorted": ramp,
        "reversed": ramp[::-1],
        "constant": np.full_like(ramp, 3),
        "random": states(chosen, n, n),
    }[shape]
    for windows in ([1], [5], [8], [1, 2, 3, 64, 64, 17], [299, 300, 301, 1000, 1]):
        expected = slide("recompute", chosen, values, windows)
        got = slide(name, chosen, values, windows)
        np.testing.assert_array_equal(got, expected)
        # A short output keeps the newest answers, wherever it is cut.
        short = np.zeros((len(windows), 37, chosen.width), dtype=np.int64)
        slide(name, chosen, values, windows, short)
        newest = np.arange(n - 37, n)
        np.testing.assert_array_equal(short[:, newest % 37], expected[:, newest])


def test_bulk_slides_over_more_than_its_chunks() -> None:
    for monoid in NATURES.values():
        values = states(monoid, 20_000, 1)
        windows = [1, 2, 700, 1023, 1024, 1025, 3000]
        expected = slide("twostacks", monoid, values, windows)
        np.testing.assert_array_equal(slide("bulk", monoid, values, windows), expected)


def test_subtract_on_evict_over_max_is_refused() -> None:
    with pytest.raises(QueryError, match="which a maximum has not"):
        slide("soe", MONOIDS["max"], np.array([[1]]), [3])
