"""States as tuples of words: what the kernels of this package keep in registers.

``combine`` and ``inverse`` are those of ``weft.aggregates.monoid`` on values instead of rows of a matrix.
A kernel closes over a monoid's code and width, which are then constants to Numba: only the formula of that
monoid is compiled, and a state of one word becomes a plain register.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

import numpy as np
from numba.extending import overload, register_jitable

from weft.aggregates.monoid import (
    ADD,
    AFFINE,
    MAX,
    MIN,
    MOMENTS,
    PRODUCT,
    SUM_FLOAT,
    SUM_INT,
    add_beyond,
    add_small,
    difference,
)

State: TypeAlias = tuple[Any, ...]


def load(width: int, words: np.ndarray, i: int) -> State:
    """The i-th state of a flat array of words.

    >>> load(2, np.array([1, 2, 3, 4]), 1)
    (np.int64(3), np.int64(4))
    """
    return tuple(words[width * i + c] for c in range(width))


def store(width: int, words: np.ndarray, i: int, state: State) -> None:
    """Write a state as the i-th of a flat array of words."""
    for c in range(width):
        words[width * i + c] = state[c]


def combine(code: int, older: State, newer: State) -> State:
    """Two neighbouring states as one.

    >>> combine(MAX, (3,), (7,))
    (7,)
    """
    return COMBINE[code](older, newer)


def inverse(code: int, total: State, oldest: State) -> State:
    """A total without its oldest state: the one that, combined after the oldest, is the total.

    >>> inverse(ADD, (10,), (7,))
    (3,)
    """
    return INVERSE[code](total, oldest)


def _add(older: State, newer: State) -> State:
    return (older[0] + newer[0],)


def _subtract(total: State, oldest: State) -> State:
    return (total[0] - oldest[0],)


def _sum_int(older: State, newer: State) -> State:
    low = older[1] + newer[1]
    return (older[0] + newer[0] + (low >> 32), low & 0xFFFFFFFF)


def _subtract_int(total: State, oldest: State) -> State:
    low = total[1] - oldest[1]
    return (total[0] - oldest[0] + (low >> 32), low & 0xFFFFFFFF)


def _sum_float(older: State, newer: State) -> State:
    a, b = _float(older[0]), _float(newer[0])
    s = a + b
    back = s - a
    error = (a - (s - back)) + (b - back) + (_float(older[1]) + _float(newer[1]))
    high = s + error
    if math.isfinite(high):
        return (_word(high), _word(error - (high - s)))
    high, low = add_beyond(a, _float(older[1]), b, _float(newer[1]))
    return (_word(high), _word(low))


def _min(older: State, newer: State) -> State:
    return newer if newer < older else older


def _max(older: State, newer: State) -> State:
    return newer if newer > older else older


def _least(older: State, newer: State) -> State:
    return (min(older[0], newer[0]),)


def _greatest(older: State, newer: State) -> State:
    return (max(older[0], newer[0]),)


def _moments(older: State, newer: State) -> State:
    n, m = older[0], newer[0]
    if m == 0:
        return older
    if n == 0:
        return newer
    delta = difference(_float(newer[1]), _float(newer[2]), _float(older[1]), _float(older[2]))
    share = m / (n + m)
    mean, low = add_small(_float(older[1]), _float(older[2]), delta * share)
    m2 = _float(older[3]) + _float(newer[3]) + delta * delta * n * share
    return (n + m, _word(mean), _word(low), _word(m2))


def _product(older: State, newer: State) -> State:
    mantissa, exponent = math.frexp(_float(older[0]) * _float(newer[0]))
    return (_word(mantissa), older[1] + newer[1] + exponent)


def _affine(older: State, newer: State) -> State:
    return (older[0] * newer[0], older[1] * newer[0] + newer[1])


def _float(word: Any) -> Any:
    return np.int64(word).view(np.float64)


def _word(value: Any) -> Any:
    return np.float64(value).view(np.int64)


COMBINE: dict[int, Callable[[State, State], State]] = {
    ADD: _add,
    SUM_INT: _sum_int,
    SUM_FLOAT: _sum_float,
    MIN: _min,
    MAX: _max,
    MOMENTS: _moments,
    PRODUCT: _product,
    AFFINE: _affine,
}

# One word needs no lexicographic order: compiled, it is one instruction without a branch.
COMBINE_ONE_WORD = {MIN: _least, MAX: _greatest}

INVERSE: dict[int, Callable[[State, State], State]] = {ADD: _subtract, SUM_INT: _subtract_int}

# The same functions compiled: Numba picks the formula from the constant code, and unrolls over the width.

OPTIONS = {"forceinline": True, "_nrt": False}
"""How functions called by kernels are compiled: into the caller, without counting references to its arrays.

A function that allocates nothing has no reason to count them, and an atomic count in an inner loop costs more
than all the rest of it.
"""


def inlined(function: Callable[..., Any]) -> Any:
    """A function of kernels: compiled into each of them, with ``code`` and ``width`` as constants."""

    @wraps(function)
    def choose(*types: Any) -> Callable[..., Any]:
        return function

    overload(function, jit_options=OPTIONS, prefer_literal=True)(choose)
    return function


register_jitable(_float)
register_jitable(_word)


@overload(combine, jit_options=OPTIONS, prefer_literal=True)
def _compiled_combine(code, older, newer):  # type: ignore[no-untyped-def]
    formulas = COMBINE | COMBINE_ONE_WORD if len(older) == 1 else COMBINE
    chosen = register_jitable(formulas[code.literal_value])
    return lambda code, older, newer: chosen(older, newer)


@overload(inverse, jit_options=OPTIONS, prefer_literal=True)
def _compiled_inverse(code, total, oldest):  # type: ignore[no-untyped-def]
    chosen = register_jitable(INVERSE[code.literal_value])
    return lambda code, total, oldest: chosen(total, oldest)


# Positions are never negative: as unsigned numbers they need no test for counting from the end.


@overload(load, jit_options=OPTIONS, prefer_literal=True)
def _compiled_load(width, words, i):  # type: ignore[no-untyped-def]
    def one(width, words, i):  # type: ignore[no-untyped-def]
        return (words[np.uint64(i)],)

    def two(width, words, i):  # type: ignore[no-untyped-def]
        return (words[np.uint64(2 * i)], words[np.uint64(2 * i + 1)])

    def three(width, words, i):  # type: ignore[no-untyped-def]
        return (words[np.uint64(3 * i)], words[np.uint64(3 * i + 1)], words[np.uint64(3 * i + 2)])

    def four(width, words, i):  # type: ignore[no-untyped-def]
        j = 4 * i
        return (
            words[np.uint64(j)],
            words[np.uint64(j + 1)],
            words[np.uint64(j + 2)],
            words[np.uint64(j + 3)],
        )

    return (one, two, three, four)[width.literal_value - 1]


@overload(store, jit_options=OPTIONS, prefer_literal=True)
def _compiled_store(width, words, i, state):  # type: ignore[no-untyped-def]
    def one(width, words, i, state):  # type: ignore[no-untyped-def]
        words[np.uint64(i)] = state[0]

    def more(width, words, i, state):  # type: ignore[no-untyped-def]
        for c in range(width):
            words[np.uint64(width * i + c)] = state[c]

    return one if width.literal_value == 1 else more
