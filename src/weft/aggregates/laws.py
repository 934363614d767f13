"""Laws of aggregates, tried on samples: a mistake shows when one is defined, not in an answer."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from weft.aggregates.definition import Definition
from weft.errors import AggregateError

MAX_COMBINED_SAMPLES = 6
"""Samples that are combined with each other; all of them are lifted and lowered."""


def check_laws(definition: Definition, samples: Sequence[Any]) -> None:
    """Raise AggregateError where the functions break a law on these samples.

    A sample is what ``lift`` takes: a value, or a tuple of values where it takes several.
    """
    several = definition.arguments > 1
    states = [definition.call("lift", *(s if several else (s,))) for s in samples]
    for state in states:
        definition.answer(state)
        for older, newer in ((definition.identity, state), (state, definition.identity)):
            _same(definition, "the identity is not neutral", _combine(definition, older, newer), state)
    combined_states = states[:MAX_COMBINED_SAMPLES]
    for a, b in product(combined_states, combined_states):
        union = _combine(definition, a, b)
        if definition.commutative:
            other = _combine(definition, b, a)
            _same(definition, "combine is not commutative (say commutative=False)", union, other)
        if definition.inverse is not None:
            _same(definition, "inverse does not undo combine", definition.call("inverse", union, a), b)
        for c in combined_states:
            left, right = _combine(definition, union, c), _combine(definition, a, _combine(definition, b, c))
            _same(definition, "combine is not associative", left, right)


def _combine(definition: Definition, older: Any, newer: Any) -> Any:
    before = copy.deepcopy((older, newer))
    state = definition.call("combine", older, newer)
    if not close((older, newer), before):
        raise definition.failed("combine", before, "changed its arguments; it must return a new state")
    return state


def _same(definition: Definition, law: str, one: Any, other: Any) -> None:
    if not close(one, other) and not close(definition.answer(one), definition.answer(other)):
        raise AggregateError(f"{definition.name}: {law}: {one!r} and {other!r} should mean the same")


def close(one: Any, other: Any) -> bool:
    """Return whether two states are equal, floats in them nearly.

    >>> close((0.1 + 0.2, [1, math.nan]), (0.3, [1, math.nan])), close({"a": 1}, {"a": 2})
    (True, False)
    """
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12) or (one != one and other != other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(close(one[k], other[k]) for k in one)
    return np.allclose(one, other) if isinstance(one, np.ndarray) else bool(one == other)
