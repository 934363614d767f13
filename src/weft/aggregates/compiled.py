"""User-defined aggregates compiled: states that are a number or a flat tuple of numbers become words.

A user's formula gets a code of its own in each process that meets it, and then goes through every kernel as a
built-in one does. Nothing is kept on disk: the same code may be another formula in the next process.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit, types

from weft.aggregates.checked import compile_checked
from weft.aggregates.definition import Definition
from weft.aggregates.monoid import FIRST_USER, Monoid
from weft.aggregates.objects import ObjectMonoid
from weft.aggregates.part import Part, Rows, all_valid
from weft.aggregates.plain import Plain
from weft.aggregates.word import Word, float_words, int_words
from weft.errors import AggregateError

WIDEST = 16
"""The most words that a compiled state has."""

NUMBA: dict[type, Any] = {float: types.float64, int: types.int64, bool: types.boolean}
ARGUMENTS: dict[str, type] = {"double": float, "bigint": int, "boolean": bool}
# What a value may be to become a word of this type without loss.
TAKES: dict[type, tuple[type, ...]] = {
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
    """Why the aggregate cannot be compiled for arguments of these types; None where it can."""
    with _lock:
        key = (definition.token, arguments)
        if key not in _tried:
            _tried[key] = _try(definition, arguments)
        return _tried[key]


def shape(identity: Any) -> tuple[type, ...] | None:
    """The types of the words of a state; None where a state is not a number or a flat tuple of numbers.

    >>> shape((0.0, 0)), shape(False), shape([])
    ((<class 'float'>, <class 'int'>), (<class 'bool'>,), None)
    """
    found = tuple(map(type, identity if isinstance(identity, tuple) else (identity,)))
    return found if 0 < len(found) <= WIDEST and all(t in NUMBA for t in found) else None


@dataclass(frozen=True, slots=True)
class UserMonoid(Monoid):
    """A user's aggregate whose states are words."""

    definition: Definition = field(kw_only=True)
    arguments: tuple[str, ...] = field(kw_only=True)

    def identity(self, n: int) -> np.ndarray:
        """The neutral state, n times."""
        words = np.empty((n, self.width), dtype=np.int64)
        identity = self.definition.identity
        for c, value in enumerate(identity if isinstance(identity, tuple) else (identity,)):
            words.view(np.float64 if isinstance(value, float) else np.int64)[:, c] = value
        return words

    def add_rows(self, states: np.ndarray, cell: np.ndarray, values: np.ndarray, valid: np.ndarray) -> None:
        """Add row j to ``states[cell[j]]``, in place."""
        try:
            _row_kernel(self)(states, cell, values, valid)
        except Exception as error:
            self._explain(cell, values, valid)
            raise self.failure(error) from error

    def merge(self, into: np.ndarray, target: np.ndarray, order: np.ndarray, states: np.ndarray) -> None:
        """Fold ``states[order[k]]`` into ``into[target[k]]``, in place."""
        try:
            _merge_kernel(self)(into, target, order, states)
        except Exception as error:
            raise self.failure(error) from error

    def failure(self, error: Exception) -> Exception:
        """The error of a user's compiled function, named."""
        name = self.definition.name
        if isinstance(error, OverflowError):
            return AggregateError(f"{name}: {error}; define it with compiled=False to have Python's integers")
        return AggregateError(f"{name}: its compiled functions raised {type(error).__name__}: {error}")

    def _explain(self, cell: np.ndarray, values: np.ndarray, valid: np.ndarray) -> None:
        """The same rows in plain Python, which says which function failed, and on which values."""
        plain = ObjectMonoid.of(Plain(self.definition))
        arguments = np.fromiter(zip(*_values(self.arguments, values)), dtype=object)
        plain.add_rows(plain.identity(int(cell.max()) + 1), cell, arguments, valid)


@dataclass(frozen=True, slots=True)
class UserPart(Part):
    """A part whose states are words, by a user's formula."""

    definition: Definition

    @property
    def words(self) -> tuple[tuple[str, Word], ...]:
        """Name and reading of each word of the state."""
        found = shape(self.definition.identity) or ()
        return tuple((f"state{c}", Word.FLOAT if t is float else Word.INT) for c, t in enumerate(found))

    @property
    def monoid(self) -> Monoid:
        """The monoid that combines states of this part."""
        return UserMonoid(
            _code(self.definition),
            len(self.words),
            invertible=self.definition.inverse is not None,
            definition=self.definition,
            arguments=self.types,
        )

    def lift(self, arrays: Sequence[pa.Array], times: np.ndarray) -> Rows:
        """The arguments as words; the row kernel lifts them, and only those of rows that count."""
        read = [float_words if t == "double" else int_words for t in self.types]
        columns = [r(a).view(np.int64) for r, a in zip(read, arrays)]
        return Rows(np.column_stack(columns), all_valid(arrays))

    def python_states(self, words: np.ndarray) -> list[Any]:
        """States as the user's functions know them."""
        found = shape(self.definition.identity) or ()
        names = {float: "double", int: "bigint", bool: "boolean"}
        columns = _values(tuple(names[t] for t in found), words)
        return list(zip(*columns)) if isinstance(self.definition.identity, tuple) else columns[0]


def _values(sql_types: tuple[str, ...], words: np.ndarray) -> list[list[Any]]:
    """Columns of words as Python values."""
    columns = []
    for c, type in enumerate(sql_types):
        column = np.ascontiguousarray(words[:, c])
        if type == "double":
            column = column.view(np.float64)
        columns.append((column != 0 if type == "boolean" else column).tolist())
    return columns


def _code(definition: Definition) -> int:
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


def _fits(made: Any, words: tuple[type, ...], tuples: bool) -> bool:
    if tuples != isinstance(made, types.BaseTuple):
        return False
    found = tuple(made) if tuples else (made,)
    return len(found) == len(words) and all(isinstance(f, TAKES[w]) for f, w in zip(found, words))


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


def _row_kernel(monoid: UserMonoid) -> Any:
    """``(states, cell, values, valid)``: adds each valid row to its cell."""
    with _lock:
        made = _formulas[monoid.code]
        if monoid.arguments not in made.kernels:
            text = f"""
def add_rows(states, cell, values, valid):
    for j in range(cell.size):
        i = cell[j]
        if i >= 0 and (valid.size == 0 or valid[j]):
            state = combine({_row("states", "i", monoid.width)}, lift(values, j))
            {_store("states", "i", monoid.width)}
"""
            lift = _lift(monoid.definition, monoid.arguments)
            made.kernels[monoid.arguments] = _define(text, "add_rows", combine=made.combine, lift=lift)
        return made.kernels[monoid.arguments]


def _merge_kernel(monoid: UserMonoid) -> Any:
    """``(into, target, order, states)``: folds states[order[k]] into into[target[k]]."""
    with _lock:
        made = _formulas[monoid.code]
        if "merge" not in made.kernels:
            text = f"""
def merge(into, target, order, states):
    for k in range(target.size):
        i, j = target[k], order[k]
        state = combine({_row("into", "i", monoid.width)}, {_row("states", "j", monoid.width)})
        {_store("into", "i", monoid.width)}
"""
            made.kernels["merge"] = _define(text, "merge", combine=made.combine)
        return made.kernels["merge"]


def _define(text: str, name: str, **names: Any) -> Any:
    namespace: dict[str, Any] = {"np": np, **names}
    exec(text, namespace)
    return njit(nogil=True)(namespace[name])


def _read(type: type, word: str) -> str:
    if type is float:
        return f"np.int64({word}).view(np.float64)"
    return f"({word} != 0)" if type is bool else word


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
