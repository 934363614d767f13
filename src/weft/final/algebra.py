"""States as tuples of words: what the kernels of this package keep in registers.

A kernel closes over a monoid's code and width, which are then constants to Numba: only the formula of that
monoid is compiled, and a state of one word becomes a plain register. The formulas are those of
``weft.aggregates.monoid``, run on a state that lies on the stack; sums, minima and maxima of integers have
their own, of one or two instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numba.extending import overload, register_jitable

from weft.aggregates.cached import INLINED
from weft.aggregates.formulas import formulas
from weft.aggregates.monoid import ADD, FIRST_USER, MAX, MIN, SUM_INT
from weft.aggregates.monoid import combine as combine_rows
from weft.final.stack import on_stack

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
    if code in COMBINE:
        return COMBINE[code](older, newer)
    if code >= FIRST_USER:
        return formulas(code).combine(older, newer)  # type: ignore[no-any-return]
    rows, other = (np.array([state], dtype=np.int64) for state in (older, newer))
    combine_rows(code, len(older), rows, rows.view(np.float64), 0, other, other.view(np.float64), 0)
    return tuple(rows[0])


def inverse(code: int, total: State, oldest: State) -> State:
    """A total without its oldest state: the one that, combined after the oldest, is the total.

    >>> inverse(ADD, (10,), (7,))
    (3,)
    """
    if code >= FIRST_USER:
        return formulas(code).inverse(total, oldest)  # type: ignore[no-any-return]
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


def _min(older: State, newer: State) -> State:
    return newer if less(newer, older) else older


def _max(older: State, newer: State) -> State:
    return newer if less(older, newer) else older


@register_jitable
def less(a: State, b: State) -> bool:
    """Lexicographic order without a branch, which random states would mislead.

    >>> less((1, 5, 0), (1, 6, 0)), less((1, 6, 0), (1, 6, 0))
    (True, False)
    """
    before, same = a[0] < b[0], a[0] == b[0]
    for c in range(1, len(a)):
        before |= same & (a[c] < b[c])
        same &= a[c] == b[c]
    return before


def _least(older: State, newer: State) -> State:
    return (min(older[0], newer[0]),)


def _greatest(older: State, newer: State) -> State:
    return (max(older[0], newer[0]),)


COMBINE: dict[int, Callable[[State, State], State]] = {
    ADD: _add,
    SUM_INT: _sum_int,
    MIN: _min,
    MAX: _max,
}

# One word needs no lexicographic order: compiled, it is one instruction without a branch.
COMBINE_ONE_WORD = {MIN: _least, MAX: _greatest}

INVERSE: dict[int, Callable[[State, State], State]] = {ADD: _subtract, SUM_INT: _subtract_int}

# The same functions compiled: Numba picks the formula from the constant code, and unrolls over the width.


@overload(combine, jit_options=INLINED, prefer_literal=True)
def _compiled_combine(code, older, newer):  # type: ignore[no-untyped-def]
    chosen, width = code.literal_value, len(older)
    if chosen in COMBINE:
        formula = register_jitable((COMBINE | COMBINE_ONE_WORD if width == 1 else COMBINE)[chosen])
        return lambda code, older, newer: formula(older, newer)
    if chosen >= FIRST_USER:
        written = formulas(chosen).combine
        return lambda code, older, newer: written(older, newer)

    def on_rows(code, older, newer):  # type: ignore[no-untyped-def]
        words, floats = on_stack(older)
        other, other_floats = on_stack(newer)
        combine_rows(chosen, width, words, floats, 0, other, other_floats, 0)
        return load(width, words[0], 0)

    return on_rows


@overload(inverse, jit_options=INLINED, prefer_literal=True)
def _compiled_inverse(code, total, oldest):  # type: ignore[no-untyped-def]
    if code.literal_value >= FIRST_USER:
        chosen = formulas(code.literal_value).inverse
    else:
        chosen = register_jitable(INVERSE[code.literal_value])
    return lambda code, total, oldest: chosen(total, oldest)


# Positions are never negative: as unsigned numbers they need no test for counting from the end.


@overload(load, jit_options=INLINED, prefer_literal=True)
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

    words = width.literal_value
    return (one, two, three, four)[words - 1] if words <= 4 else _load_many(words)


def _load_many(words: int) -> Callable[..., State]:
    """``load`` for any number of words: a tuple must be written out."""
    state = ", ".join(f"words[np.uint64({words} * i + {c})]" for c in range(words))
    made: Callable[..., State] = eval(f"lambda width, words, i: ({state})", {"np": np})
    return made


@overload(store, jit_options=INLINED, prefer_literal=True)
def _compiled_store(width, words, i, state):  # type: ignore[no-untyped-def]
    def one(width, words, i, state):  # type: ignore[no-untyped-def]
        words[np.uint64(i)] = state[0]

    def more(width, words, i, state):  # type: ignore[no-untyped-def]
        for c in range(width):
            words[np.uint64(width * i + c)] = state[c]

    return one if width.literal_value == 1 else more
