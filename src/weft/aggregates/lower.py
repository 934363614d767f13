"""Functions from the states of an aggregate's parts to its answers, over all windows at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from weft.aggregates.monoid import OVERFLOW_SCALE, SUM_INT, join_halves
from weft.aggregates.part import Part, States
from weft.aggregates.word import array_of
from weft.errors import AnswerOverflow


def _counts(states: States) -> np.ndarray:
    return states.words[:, 0]


def _masked(values: np.ndarray, counts: np.ndarray) -> pa.Array:
    return pa.array(values, mask=None if counts.all() else counts == 0)


def _divided(part: Part, states: States, divisor: np.ndarray | int) -> np.ndarray:
    """A sum divided by a count, as float: finite where the sum alone would not be."""
    if part.monoid.code == SUM_INT:
        halves = states.words.shape[1] == 2
        total = states.words[:, 0] * 4294967296.0 + states.words[:, 1] if halves else states.words[:, 0]
        return total / np.maximum(divisor, 1)
    high, low = states.words.view(np.float64).T
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(
            np.isinf(low),
            high / np.maximum(divisor, 1) * OVERFLOW_SCALE,
            (high + low) / np.maximum(divisor, 1),
        )


def lower_count(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
    """The count itself."""
    return pa.array(_counts(states[0]))


def lower_sum(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
    """A sum; integers must fit 64 bits."""
    if parts[0].monoid.code != SUM_INT:
        return _masked(_divided(parts[0], states[0], 1), _counts(states[1]))
    words = states[0].words
    if words.shape[1] == 1:
        return _masked(words[:, 0], _counts(states[1]))
    sums = np.empty(len(words), dtype=np.int64)
    if join_halves(words, sums) == np.inf:
        raise AnswerOverflow(
            "an integer sum does not fit 64 bits; sum(cast(... AS double)) gives a rounded one"
        )
    return _masked(sums, _counts(states[1]))


def lower_avg(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
    """A sum over its count."""
    counts = _counts(states[1])
    return _masked(_divided(parts[0], states[0], counts), counts)


def lower_value(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
    """The last word of a selective state."""
    words, counts = states[0].words, _counts(states[1])
    return array_of(
        parts[0].words[-1][1],
        np.ascontiguousarray(words[:, -1]),
        states[0].dictionary,
        None if counts.all() else counts == 0,
    )


def lower_by(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
    """The value beside the extreme key."""
    words = states[0].words
    missing = (_counts(states[1]) == 0) | (words[:, 2] == 0)
    return array_of(
        parts[0].words[-1][1],
        np.ascontiguousarray(words[:, -1]),
        states[0].dictionary,
        missing if missing.any() else None,
    )


def lower_range(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
    """The largest less the smallest."""
    counts = _counts(states[2])
    if parts[0].types == ("double",):
        largest, smallest = (
            array_of(p.words[0][1], np.ascontiguousarray(s.words[:, 0]), None, None).to_numpy()
            for p, s in zip(parts[:2], states[:2])
        )
        with np.errstate(invalid="ignore"):
            return _masked(largest - smallest, counts)
    largest = np.where(counts == 0, 0, states[0].words[:, 0])
    smallest = np.where(counts == 0, 0, states[1].words[:, 0])
    difference = largest - smallest
    if (difference < 0).any():
        raise AnswerOverflow("an integer range does not fit 64 bits; cast the argument to double")
    return _masked(difference, counts)


def lower_variance(sample: bool, root: bool) -> Callable[[Sequence[Part], Sequence[States]], pa.Array]:
    """A variance or its root, of a sample or a population."""

    def lower(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
        counts, m2 = states[0].words[:, 0], states[0].words.view(np.float64)[:, 3]
        freedom = counts - 1 if sample else counts
        variance = np.maximum(m2, 0.0) / np.maximum(freedom, 1)
        variance = np.where(np.isnan(m2), np.nan, variance)
        return _masked(np.sqrt(variance) if root else variance, freedom * (freedom > 0))

    return lower


def lower_product(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
    """A product, from mantissa and exponent."""
    mantissa, exponent = states[0].words.view(np.float64)[:, 0], states[0].words[:, 1]
    with np.errstate(over="ignore", under="ignore"):
        return _masked(
            np.ldexp(mantissa, np.clip(exponent, -5000, 5000).astype(np.int32)), _counts(states[1])
        )


def lower_geometric_mean(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
    """The exponential of the mean logarithm."""
    counts = _counts(states[1])
    with np.errstate(over="ignore"):
        return _masked(np.exp(_divided(parts[0], states[0], counts)), counts)


def lower_squares(parts: Sequence[Part], states: Sequence[States]) -> pa.Array:
    """A sum of squares, none of which has overflowed."""
    if (_counts(states[1]) != _counts(states[2])).any():
        raise AnswerOverflow("the square of an integer does not fit 64 bits; cast the argument to double")
    return lower_sum(parts, states)
