"""The monoids every aggregate is built from, compiled once each.

A state is a row of 64-bit words; the states of n cells are an int64 matrix ``[n, width]`` whose float
words are viewed, never converted. ``combine`` is the one place where two states become one; every loop
over states (here and in ``weft.final``) is specialised to a monoid by closing over its code and width,
which Numba compiles to straight code and caches on disk.

Left is always the older state, so a monoid may be non-commutative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

from weft.aggregates.cached import INLINED, compile_cached, read_only

ADD, SUM_INT, SUM_FLOAT, MIN, MAX, MOMENTS, PRODUCT, AFFINE = range(8)

OBJECTS = -1
"""The code of every monoid whose states are Python objects; no kernel is made for it."""

FIRST_USER = 1 << 10
"""Codes from here on stand for formulas that a user wrote, and mean something in this process only."""

MIN_INT64 = np.iinfo(np.int64).min
MAX_INT64 = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Monoid:
    """A code for ``combine`` and the number of words of its state."""

    code: int
    width: int
    invertible: bool = False
    selective: bool = False
    commutative: bool = True

    @property
    def built_in(self) -> bool:
        """True where its code means the same formula in every process."""
        return 0 <= self.code < FIRST_USER

    def identity(self, n: int) -> np.ndarray:
        """Return the neutral state, n times.

        >>> Monoid(MIN, 1).identity(1).tolist() == [[MAX_INT64]]
        True
        """
        word = {MIN: MAX_INT64, MAX: MIN_INT64}.get(self.code, 0)
        states = np.full((n, self.width), word, dtype=np.int64)
        if self.code == PRODUCT:
            states.view(np.float64)[:, 0] = 1.0
        if self.code == AFFINE:
            states[:, 0] = 1
        return states

    def add_rows(self, states: np.ndarray, cell: np.ndarray, values: np.ndarray, valid: np.ndarray) -> None:
        """Add row j to ``states[cell[j]]``, in place."""
        kernel = row_kernel(self.code, self.width)
        values = read_only(values)
        kernel(states, states.view(np.float64), cell, values, values.view(np.float64), valid)

    def merge(self, into: np.ndarray, target: np.ndarray, order: np.ndarray, states: np.ndarray) -> None:
        """Fold ``states[order[k]]`` into ``into[target[k]]``, in place."""
        kernel = merge_kernel(self.code, self.width)
        kernel(into, into.view(np.float64), target, order, states, states.view(np.float64))

    def failure(self, error: Exception) -> Exception:
        """Return the error to raise where a kernel raised; only a formula that a user wrote does."""
        return error


OVERFLOW_SCALE = 2.0**64
"""A float sum that has left the doubles is kept divided by this, its low word infinite."""


@njit(cache=True)
def add_beyond(a, a_low, b, b_low):  # type: ignore[no-untyped-def]
    """The sum of two float sums where an infinity, a NaN or an overflow is involved: the rare case."""
    a = a if math.isinf(a_low) else (a + a_low) / OVERFLOW_SCALE
    b = b if math.isinf(b_low) else (b + b_low) / OVERFLOW_SCALE
    s = a + b
    if not math.isfinite(s):
        return s, 0.0
    if math.isfinite(s * OVERFLOW_SCALE):
        return s * OVERFLOW_SCALE, 0.0
    return s, math.inf


@njit(inline="always")
def difference(a, a_low, b, b_low):  # type: ignore[no-untyped-def]
    """a - b of two pairs, rounded once: what is left where both are large and close is kept."""
    d = a - b
    back = d - a
    return d + ((a - (d - back)) - (b + back) + (a_low - b_low))


@njit(inline="always")
def add_small(a, a_low, b):  # type: ignore[no-untyped-def]
    """A pair plus a number, as a pair."""
    s = a + b
    back = s - a
    low = a_low + ((a - (s - back)) + (b - back))
    high = s + low
    return high, low - (high - s)


def combine(
    code: int,
    width: int,
    into: np.ndarray,
    into_f: np.ndarray,
    i: int,
    other: np.ndarray,
    other_f: np.ndarray,
    j: int,
) -> None:
    """into[i] := into[i] then other[j]; ``*_f`` are the float views of the same memory."""
    _combine_kernel(code, width)(into, into_f, i, other, other_f, j)


@overload(combine, jit_options=INLINED, prefer_literal=True)
def _compiled_combine(code, width, into, into_f, i, other, other_f, j):  # type: ignore[no-untyped-def]
    # Constants of the formula: Numba drops the branches of other monoids before it compiles anything.
    chosen, words = code.literal_value, width.literal_value

    def formula(code, width, into, into_f, i, other, other_f, j):  # type: ignore[no-untyped-def]
        if chosen == ADD:
            into[i, 0] += other[j, 0]
        elif chosen == SUM_INT:
            # high*2^32 + low with low in [0, 2^32): exact for 2^31 values of any size.
            low = into[i, 1] + other[j, 1]
            into[i, 0] += other[j, 0] + (low >> 32)
            into[i, 1] = low & 0xFFFFFFFF
        elif chosen == SUM_FLOAT:
            a, b = into_f[i, 0], other_f[j, 0]
            s = a + b
            back = s - a
            error = (a - (s - back)) + (b - back) + (into_f[i, 1] + other_f[j, 1])
            high = s + error
            if math.isfinite(high):
                into_f[i, 0] = high
                into_f[i, 1] = error - (high - s)
            else:
                into_f[i, 0], into_f[i, 1] = add_beyond(a, into_f[i, 1], b, other_f[j, 1])
        elif chosen == MIN:
            for c in range(words):
                if other[j, c] != into[i, c]:
                    if other[j, c] < into[i, c]:
                        for d in range(c, words):
                            into[i, d] = other[j, d]
                    break
        elif chosen == MAX:
            for c in range(words):
                if other[j, c] != into[i, c]:
                    if other[j, c] > into[i, c]:
                        for d in range(c, words):
                            into[i, d] = other[j, d]
                    break
        elif chosen == MOMENTS:
            # Chan, Golub, LeVeque: pairwise update of count, mean (a pair) and sum of squared deviations.
            m = other[j, 0]
            if m > 0:
                n = into[i, 0]
                if n == 0:
                    for c in range(words):
                        into[i, c] = other[j, c]
                else:
                    delta = difference(other_f[j, 1], other_f[j, 2], into_f[i, 1], into_f[i, 2])
                    share = m / (n + m)
                    into[i, 0] = n + m
                    into_f[i, 1], into_f[i, 2] = add_small(into_f[i, 1], into_f[i, 2], delta * share)
                    into_f[i, 3] += other_f[j, 3] + delta * delta * n * share
        elif chosen == AFFINE:
            # The map x -> a*x + b modulo 2^64, the older applied first: exact, and not commutative.
            into[i, 1] = into[i, 1] * other[j, 0] + other[j, 1]
            into[i, 0] *= other[j, 0]
        else:
            mantissa, exponent = math.frexp(into_f[i, 0] * other_f[j, 0])
            into_f[i, 0] = mantissa
            into[i, 1] += other[j, 1] + exponent

    return formula


def absorb(
    code: int,
    width: int,
    into: np.ndarray,
    into_f: np.ndarray,
    i: int,
    values: np.ndarray,
    values_f: np.ndarray,
    j: int,
) -> None:
    """into[i] := into[i] then the lifted value of row j: ``combine`` without building the lifted state.

    For kernels only.
    """
    raise NotImplementedError


@overload(absorb, jit_options=INLINED, prefer_literal=True)
def _compiled_absorb(code, width, into, into_f, i, values, values_f, j):  # type: ignore[no-untyped-def]
    chosen = code.literal_value

    def formula(code, width, into, into_f, i, values, values_f, j):  # type: ignore[no-untyped-def]
        if chosen == SUM_INT:
            v = values[j, 0]
            low = into[i, 1] + (v & 0xFFFFFFFF)
            into[i, 0] += (v >> 32) + (low >> 32)
            into[i, 1] = low & 0xFFFFFFFF
        elif chosen == SUM_FLOAT:
            a, b = into_f[i, 0], values_f[j, 0]
            s = a + b
            back = s - a
            error = into_f[i, 1] + ((a - (s - back)) + (b - back))
            if math.isfinite(error):
                into_f[i, 0] = s
                into_f[i, 1] = error
            else:
                into_f[i, 0], into_f[i, 1] = add_beyond(a, into_f[i, 1], b, 0.0)
        elif chosen == MOMENTS:
            n = into[i, 0] + 1
            into[i, 0] = n
            if n == 1:
                into_f[i, 1] = values_f[j, 0]
                into_f[i, 3] = 0.0 if math.isfinite(values_f[j, 0]) else math.nan
            else:
                delta = difference(values_f[j, 0], 0.0, into_f[i, 1], into_f[i, 2])
                into_f[i, 1], into_f[i, 2] = add_small(into_f[i, 1], into_f[i, 2], delta / n)
                into_f[i, 3] += delta * delta * ((n - 1) / n)
        elif chosen == PRODUCT:
            mantissa, exponent = math.frexp(into_f[i, 0] * values_f[j, 0])
            into_f[i, 0] = mantissa
            into[i, 1] += exponent
        else:
            combine(code, width, into, into_f, i, values, values_f, j)

    return formula


Kernel = Callable[..., Any]


@cache
def _combine_kernel(code: int, width: int) -> Kernel:
    """``combine`` of one monoid, for Python."""

    @compile_cached
    def combine_one(into, into_f, i, other, other_f, j):  # type: ignore[no-untyped-def]
        combine(code, width, into, into_f, i, other, other_f, j)

    return combine_one


@cache
def row_kernel(code: int, width: int) -> Kernel:
    """``(states, states_f, cell, values, values_f, valid)``: adds each valid row's value to its cell."""

    @compile_cached
    def add_rows(states, states_f, cell, values, values_f, valid):  # type: ignore[no-untyped-def]
        if valid.size:
            for j in range(cell.size):
                if cell[j] >= 0 and valid[j]:
                    absorb(code, width, states, states_f, cell[j], values, values_f, j)
        else:
            for j in range(cell.size):
                if cell[j] >= 0:
                    absorb(code, width, states, states_f, cell[j], values, values_f, j)

    return add_rows


@cache
def merge_kernel(code: int, width: int) -> Kernel:
    """``(into, into_f, target, order, states, states_f)``: folds states[order[k]] into into[target[k]]."""

    @compile_cached
    def merge(into, into_f, target, order, states, states_f):  # type: ignore[no-untyped-def]
        for k in range(target.size):
            combine(code, width, into, into_f, target[k], states, states_f, order[k])

    return merge


def add_rows(
    monoid: Monoid, states: np.ndarray, cell: np.ndarray, values: np.ndarray, valid: np.ndarray
) -> None:
    """Add rows to states in place: row j goes to ``cell[j]`` (skipped if negative or not valid).

    >>> states = Monoid(SUM_INT, 2).identity(2)
    >>> values = np.array([[5], [7], [-1]])
    >>> add_rows(Monoid(SUM_INT, 2), states, np.array([0, 1, 0], np.int32), values, np.zeros(0, bool))
    >>> states.tolist()
    [[0, 4], [0, 7]]
    """
    monoid.add_rows(states, cell, values, valid)


def merge(
    monoid: Monoid, into: np.ndarray, target: np.ndarray, order: np.ndarray, states: np.ndarray
) -> None:
    """Fold ``states[order[k]]`` into ``into[target[k]]``, in the order of k, in place."""
    monoid.merge(into, target, order, states)


@njit(cache=True, nogil=True)
def join_halves(states, sums):  # type: ignore[no-untyped-def]
    """SUM_INT states as integers, and the total of their magnitudes; infinite where one does not fit.

    >>> sums = np.empty(2, np.int64)
    >>> join_halves(np.array([[-1, 4294967291], [1, 2]]), sums), sums.tolist()
    (4294967303.0, [-5, 4294967298])
    """
    total = 0.0
    for i in range(sums.size):
        if not -(2**31) <= states[i, 0] < 2**31:
            return np.inf
        sums[i] = (states[i, 0] << 32) + states[i, 1]
        total += abs(float(sums[i]))
    return total
