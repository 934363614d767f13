"""The formulas of user-defined aggregates, compiled: between states that are words, as kernels need them.

A user's formula gets a code of its own in each process that meets it, and then goes through every kernel as a
built-in one does. Nothing is kept on disk: the same code may be another formula in the next process.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit, types

from weft.aggregates.checked import compile_checked
from weft.aggregates.definition import Definition
from weft.aggregates.monoid import FIRST_USER, MAX_INT64, MIN_INT64

MAX_STATE_WORDS = 16
"""The most words that a compiled state has."""

NUMBA: dict[type, Any] = {float: types.float64, int: types.int64, bool: types.boolean}
ARGUMENTS: dict[str, type] = {"double": float, "bigint": int, "boolean": bool}
# Types of values that become a word of this type without loss.
ACCEPTED_TYPES: dict[type, tuple[type, ...]] = {
    float: (types.Float, types.Integer, types.Boolean),
    int: (types.Integer, types.Boolean),
    bool: (types.Boolean,),
}


@dataclass(frozen=True, slots=True)
class Formulas:
    """A user's functions on words, compiled, and the kernels made of them so far."""

    combine: Any
    inverse: Any
    kernels: dict[Any, Any]


_lock = threading.RLock()
_codes: dict[str, int] = {}
_formulas: dict[int, Formulas] = {}
_functions: dict[tuple[str, str], Any] = {}
_tried: dict[tuple[str, tuple[str, ...]], str | None] = {}


def formulas(code: int) -> Formulas:
    """The formulas behind a code of this process."""
    return _formulas[code]


def obstacle(definition: Definition, arguments: tuple[str, ...]) -> str | None:
    """Return the reason that the aggregate cannot be compiled for arguments of these types, or None."""
    with _lock:
        key = (definition.token, arguments)
        if key not in _tried:
            _tried[key] = _try(definition, arguments)
        return _tried[key]


def shape(identity: Any) -> tuple[type, ...] | None:
    """Return the types of a state's words; None where it is not a number or a flat tuple of numbers.

    >>> shape((0.0, 0)), shape(False), shape([])
    ((<class 'float'>, <class 'int'>), (<class 'bool'>,), None)
    """
    values = identity if isinstance(identity, tuple) else (identity,)
    word_types = tuple(map(type, values))
    if not 0 < len(word_types) <= MAX_STATE_WORDS or any(t not in NUMBA for t in word_types):
        return None
    return word_types if all(MIN_INT64 <= v <= MAX_INT64 for v in values if isinstance(v, int)) else None


def code_of(definition: Definition) -> int:
    """Return the code of a definition in this process."""
    with _lock:
        code = _codes.get(definition.token)
        if code is None:
            code = FIRST_USER + len(_codes)
            _formulas[code] = _make(definition)
            _codes[definition.token] = code
        return code


def _function(definition: Definition, role: str) -> Any:
    """A function of the user's, to be compiled once for all kernels that call it."""
    key = (definition.token, role)
    if key not in _functions:
        count = definition.arguments if role == "lift" else 2
        _functions[key] = compile_checked(getattr(definition, role), count)
    return _functions[key]


def _try(definition: Definition, arguments: tuple[str, ...]) -> str | None:
    """Compile everything once; the reason where that, or the types that come out, will not do."""
    words = shape(definition.identity)
    if not definition.compiled:
        return "compiled=False"
    if not definition.commutative:
        return "it is not commutative"
    if words is None:
        return "its identity is not a number or a flat tuple of numbers"
    if any(a not in ARGUMENTS for a in arguments):
        return f"its arguments are {', '.join(arguments)}"
    tuples = isinstance(definition.identity, tuple)
    state: Any = types.Tuple([NUMBA[t] for t in words]) if tuples else NUMBA[words[0]]  # type: ignore[no-untyped-call]
    given = tuple(NUMBA[ARGUMENTS[a]] for a in arguments)
    roles: list[tuple[str, tuple[Any, ...]]] = [("lift", given), ("combine", (state, state))]
    if definition.inverse is not None:
        roles.append(("inverse", (state, state)))
    for role, signature in roles:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function = _function(definition, role)
                function.compile(signature)
        except Exception as error:
            lines = [line for line in str(error).splitlines() if line and not line.startswith("Failed in")]
            return f"Numba cannot compile {role} ({' '.join(lines[:1])})"
        made = function.get_call_template(signature, {})[0].cases[0].return_type
        if not _fits(made, words, tuples):
            return f"{role} gives {made}, which is not what the identity is"
    return None


def _fits(result: Any, words: tuple[type, ...], tuples: bool) -> bool:
    if tuples != isinstance(result, types.BaseTuple):
        return False
    word_types = tuple(result) if tuples else (result,)
    if any(isinstance(t, types.Integer) and t == types.uint64 for t in word_types):
        return False
    return len(word_types) == len(words) and all(
        isinstance(t, ACCEPTED_TYPES[w]) for t, w in zip(word_types, words)
    )


def _make(definition: Definition) -> Formulas:
    """The user's functions between states of words: text, since a tuple must be written out."""
    words, tuples = shape(definition.identity) or (), isinstance(definition.identity, tuple)
    older, newer = (_tuple([_read(t, f"{s}[{c}]") for c, t in enumerate(words)], tuples) for s in "ab")
    written = _written(words, tuples)
    text = f"def formula(a, b):\n    state = user({older}, {newer})\n    return {written}\n"
    combine = _define(text, "formula", user=_function(definition, "combine"))
    inverse = None
    if definition.inverse is not None:
        inverse = _define(text, "formula", user=_function(definition, "inverse"))
    return Formulas(combine, inverse, {})


def _lift(definition: Definition, arguments: tuple[str, ...]) -> Any:
    """``(values, j)``: the words of row j's state."""
    words, tuples = shape(definition.identity) or (), isinstance(definition.identity, tuple)
    args = ", ".join(_read(ARGUMENTS[a], f"values[j, {c}]") for c, a in enumerate(arguments))
    text = f"def lift(values, j):\n    state = user({args})\n    return {_written(words, tuples)}\n"
    return _define(text, "lift", user=_function(definition, "lift"))


def row_kernel(definition: Definition, arguments: tuple[str, ...]) -> Any:
    """Return ``(states, cell, values, valid)``, which adds each valid row to its cell."""
    with _lock:
        compiled, width = _formulas[code_of(definition)], len(shape(definition.identity) or ())
        if arguments not in compiled.kernels:
            text = f"""
def add_rows(states, cell, values, valid):
    for j in range(cell.size):
        i = cell[j]
        if i >= 0 and (valid.size == 0 or valid[j]):
            state = combine({_row("states", "i", width)}, lift(values, j))
            {_store("states", "i", width)}
"""
            lift = _lift(definition, arguments)
            compiled.kernels[arguments] = _define(text, "add_rows", combine=compiled.combine, lift=lift)
        return compiled.kernels[arguments]


def merge_kernel(definition: Definition) -> Any:
    """Return ``(into, target, order, states)``, which folds states[order[k]] into into[target[k]]."""
    with _lock:
        compiled, width = _formulas[code_of(definition)], len(shape(definition.identity) or ())
        if "merge" not in compiled.kernels:
            text = f"""
def merge(into, target, order, states):
    for k in range(target.size):
        i, j = target[k], order[k]
        state = combine({_row("into", "i", width)}, {_row("states", "j", width)})
        {_store("into", "i", width)}
"""
            compiled.kernels["merge"] = _define(text, "merge", combine=compiled.combine)
        return compiled.kernels["merge"]


def _define(text: str, name: str, **names: Any) -> Any:
    namespace: dict[str, Any] = {"np": np, **names}
    exec(text, namespace)
    return njit(nogil=True)(namespace[name])


def _read(word_type: type, word: str) -> str:
    if word_type is float:
        return f"np.int64({word}).view(np.float64)"
    return f"({word} != 0)" if word_type is bool else word


def _written(words: tuple[type, ...], tuples: bool) -> str:
    values = [f"state[{c}]" for c in range(len(words))] if tuples else ["state"]
    bits = [
        f"np.float64({v}).view(np.int64)" if t is float else f"np.int64({v})" for t, v in zip(words, values)
    ]
    return _tuple(bits, True)


def _tuple(values: Sequence[str], tuples: bool) -> str:
    return f"({', '.join(values)},)" if tuples else values[0]


def _row(matrix: str, row: str, width: int) -> str:
    return _tuple([f"{matrix}[{row}, {c}]" for c in range(width)], True)


def _store(matrix: str, row: str, width: int) -> str:
    return "; ".join(f"{matrix}[{row}, {c}] = state[{c}]" for c in range(width))
