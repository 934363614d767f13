"""User-defined aggregates compiled: states that are a number or a flat tuple of numbers become words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from weft.aggregates.definition import Definition
from weft.aggregates.formulas import code_of, merge_kernel, row_kernel, shape
from weft.aggregates.monoid import Monoid
from weft.aggregates.objects import ObjectMonoid
from weft.aggregates.part import LiftedRows, Part, all_valid
from weft.aggregates.plain import Plain
from weft.aggregates.word import Word, float_words, int_words
from weft.errors import AggregateError


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
            row_kernel(self.definition, self.arguments)(states, cell, values, valid)
        except Exception as error:
            self._explain(cell, values, valid)
            raise self.failure(error) from error

    def merge(self, into: np.ndarray, target: np.ndarray, order: np.ndarray, states: np.ndarray) -> None:
        """Fold ``states[order[k]]`` into ``into[target[k]]``, in place."""
        try:
            merge_kernel(self.definition)(into, target, order, states)
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
            code_of(self.definition),
            len(self.words),
            invertible=self.definition.inverse is not None,
            definition=self.definition,
            arguments=self.types,
        )

    def lift(self, arrays: Sequence[pa.Array], times: np.ndarray) -> LiftedRows:
        """The arguments as words; the row kernel lifts them, and only those of rows that count."""
        read = [float_words if t == "double" else int_words for t in self.types]
        columns = [r(a).view(np.int64) for r, a in zip(read, arrays)]
        return LiftedRows(np.column_stack(columns), all_valid(arrays))

    def python_states(self, words: np.ndarray) -> list[Any]:
        """States as the user's functions know them."""
        found = shape(self.definition.identity) or ()
        names = {float: "double", int: "bigint", bool: "boolean"}
        columns = _values(tuple(names[t] for t in found), words)
        return list(zip(*columns)) if isinstance(self.definition.identity, tuple) else columns[0]


def _values(sql_types: tuple[str, ...], words: np.ndarray) -> list[list[Any]]:
    """Columns of words as Python values."""
    columns = []
    for c, dtype in enumerate(sql_types):
        column = np.ascontiguousarray(words[:, c])
        if dtype == "double":
            column = column.view(np.float64)
        columns.append((column != 0 if dtype == "boolean" else column).tolist())
    return columns
