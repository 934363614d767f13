"""Parts: the distributive pieces that aggregates are split into, so that aggregates can share them.

``avg(x)``, ``sum(x)`` and ``count(x)`` together cost one sum and one count. A part is its kind and its
arguments: equal parts are one part, whichever queries asked for them. A kind is a monoid, the names and
readings of its words, and ``lift``: rows to values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from weft.aggregates.monoid import (
    ADD,
    MAX,
    MIN,
    MOMENTS,
    PRODUCT,
    SUM_FLOAT,
    SUM_INT,
    Monoid,
    join_halves,
)
from weft.aggregates.word import Word, array_of, float_words, int_words, move_ranks, widen, word_for, words_of
from weft.model.expression import Expr

ALL_VALID = np.zeros(0, dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class LiftedRows:
    """Values of rows: a word matrix, which rows count (empty: all), and the strings' dictionary."""

    values: np.ndarray
    valid: np.ndarray
    dictionary: pa.Array | None = None

    def take(self, rows: np.ndarray) -> LiftedRows:
        """Return the values of some of the rows."""
        valid = self.valid[rows] if self.valid.size else self.valid
        return LiftedRows(self.values[rows], valid, self.dictionary)


@dataclass(slots=True)
class States:
    """The states of n cells for one part, with the dictionary its string words point into."""

    words: np.ndarray
    dictionary: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.words)


Lift: TypeAlias = Callable[["Part", Sequence[pa.Array], np.ndarray], LiftedRows]


@dataclass(frozen=True, slots=True)
class Part:
    """One distributive piece: a kind applied to expressions of known SQL types.

    >>> from weft.model.expression import Column
    >>> part("sum", (Column("price"),), ("double",))
    Part(kind='sum', args=(Column(name='price'),), types=('double',))
    >>> print(part("sum", (Column("price"),), ("double",)))
    sum(price)
    """

    kind: str
    args: tuple[Expr, ...]
    types: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(str, self.args)) or '*'})"

    @property
    def words(self) -> tuple[tuple[str, Word], ...]:
        """Name and reading of each word of the state."""
        return KINDS[self.kind].words(self.types)

    @property
    def column_names(self) -> list[str]:
        """The names of the Arrow columns of its states.

        >>> part("count", (), ()).column_names
        ['count(*).n']
        """
        return [f"{self}.{name}" for name, _ in self.words]

    @property
    def monoid(self) -> Monoid:
        """The monoid that combines states of this part."""
        kind = KINDS[self.kind]
        code = SUM_FLOAT if kind.code == SUM_INT and self.types == ("double",) else kind.code
        return Monoid(
            code,
            len(self.words),
            invertible=code in (ADD, SUM_INT),
            selective=code in (MIN, MAX),
        )

    def lift(self, arrays: Sequence[pa.Array], times: np.ndarray) -> LiftedRows:
        """Return the values of rows, from the evaluated arguments and the event times."""
        return KINDS[self.kind].lift(self, arrays, times)

    def ready(self, states: np.ndarray) -> tuple[Monoid, np.ndarray]:
        """Return the monoid and the states that windows are answered from, cells in the order of time.

        The sum of integers that no window can make overflow is answered as one word.
        """
        if self.monoid.code == SUM_INT:
            whole = np.empty((len(states), 1), dtype=np.int64)
            if join_halves(states, whole[:, 0]) < 2.0**62:
                return Monoid(ADD, 1, invertible=True), whole
        return self.monoid, states

    @property
    def ordered(self) -> bool:
        """True where the order of rows matters to the states that windows are answered from."""
        return False

    def empty(self) -> States:
        """The states of no cell."""
        return self.neutral(0)

    def neutral(self, n: int) -> States:
        """The neutral state, n times."""
        strings = any(word is Word.STRING for _, word in self.words)
        return States(self.monoid.identity(n), pa.array([], pa.string()) if strings else None)

    def nbytes(self, states: States) -> int:
        """Return the bytes that the states take, dictionaries apart."""
        return states.words.nbytes

    def columns(self, states: States) -> list[tuple[str, pa.Array]]:
        """The states as named Arrow columns, readable by anyone."""
        empty = None
        if self.monoid.selective:
            empty = (states.words == self.monoid.identity(1)).all(axis=1)
            if not empty.any():
                empty = None
        return [
            (column, array_of(word, np.ascontiguousarray(states.words[:, c]), states.dictionary, empty))
            for c, (column, (_, word)) in enumerate(zip(self.column_names, self.words))
        ]

    def states(self, columns: Sequence[pa.Array]) -> States:
        """The states behind ``columns``."""
        n = len(columns[0])
        words, dictionary = np.empty((n, len(columns)), dtype=np.int64), None
        for c, ((_, word), array) in enumerate(zip(self.words, columns)):
            read, strings = words_of(word, array)
            if strings is not None:
                if dictionary is not None:
                    dictionary, old, new = widen(dictionary, strings)
                    for d in range(c):
                        if self.words[d][1] is Word.STRING:
                            words[:, d] = move_ranks(words[:, d], old)
                    read = move_ranks(read, new)
                else:
                    dictionary = strings
            words[:, c] = read
        if self.monoid.selective and columns[0].null_count:
            empty = columns[0].is_null().to_numpy(zero_copy_only=False)
            words[empty] = self.monoid.identity(1)
        return States(words, dictionary)

    def concat(self, pieces: Sequence[States]) -> States:
        """One run of states out of several, over one widened dictionary."""
        if len(pieces) == 1:
            return pieces[0]
        if all(p.dictionary is None for p in pieces):
            return States(np.concatenate([p.words for p in pieces]))
        strings = [c for c, (_, word) in enumerate(self.words) if word is Word.STRING]
        whole = pieces[0]
        for piece in pieces[1:]:
            dictionary, old, new = widen(whole.dictionary, piece.dictionary)
            left, right = whole.words.copy(), piece.words.copy()
            for c in strings:
                left[:, c] = move_ranks(left[:, c], old)
                right[:, c] = move_ranks(right[:, c], new)
            whole = States(np.concatenate([left, right]), dictionary)
        return whole


@dataclass(frozen=True, slots=True)
class Kind:
    """Monoid, words and lift that parts of one kind have in common."""

    code: int
    words: Callable[[tuple[str, ...]], tuple[tuple[str, Word], ...]]
    lift: Lift


def part(kind: str, args: tuple[Expr, ...], types: tuple[str, ...]) -> Part:
    """A part of a known kind."""
    if kind not in KINDS:
        raise KeyError(f"no kind of part is called {kind!r}")
    return Part(kind, args, types)


def _valid(array: pa.Array) -> np.ndarray:
    return array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else ALL_VALID


def all_valid(arrays: Sequence[pa.Array]) -> np.ndarray:
    """The rows in which no array is null (empty: all rows).

    >>> all_valid([pa.array([1, None, 3]), pa.array(["a", "b", "c"])]).tolist()
    [True, False, True]
    """
    masks = [_valid(a) for a in arrays if a.null_count]
    return np.logical_and.reduce(masks) if masks else ALL_VALID


def _column(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(np.int64).reshape(-1, 1)


def _lift_ones(part: Part, arrays: Sequence[pa.Array], times: np.ndarray) -> LiftedRows:
    return LiftedRows(np.broadcast_to(np.int64(1), (len(times), 1)), all_valid(arrays))


def _lift_time(part: Part, arrays: Sequence[pa.Array], times: np.ndarray) -> LiftedRows:
    return LiftedRows(_column(times), ALL_VALID)


def _lift_true(part: Part, arrays: Sequence[pa.Array], times: np.ndarray) -> LiftedRows:
    return LiftedRows(_column(int_words(arrays[0])), ALL_VALID)


def _lift_number(part: Part, arrays: Sequence[pa.Array], times: np.ndarray) -> LiftedRows:
    read = int_words if part.types == ("bigint",) and part.monoid.code == SUM_INT else float_words
    return LiftedRows(_column(read(arrays[0])), _valid(arrays[0]))


def _lift_log(part: Part, arrays: Sequence[pa.Array], times: np.ndarray) -> LiftedRows:
    with np.errstate(divide="ignore", invalid="ignore"):
        return LiftedRows(_column(np.log(float_words(arrays[0]))), _valid(arrays[0]))


def _lift_ordered(part: Part, arrays: Sequence[pa.Array], times: np.ndarray) -> LiftedRows:
    words, dictionary = words_of(word_for(part.types[0]), arrays[0])
    return LiftedRows(_column(words), _valid(arrays[0]), dictionary)


def _lift_timed(part: Part, arrays: Sequence[pa.Array], times: np.ndarray) -> LiftedRows:
    words, dictionary = words_of(word_for(part.types[0]), arrays[0])
    return LiftedRows(np.column_stack([times, words]), _valid(arrays[0]), dictionary)


def _lift_by(part: Part, arrays: Sequence[pa.Array], times: np.ndarray) -> LiftedRows:
    (value, value_strings), (key, key_strings) = (
        words_of(word_for(dtype), array) for dtype, array in zip(part.types, arrays)
    )
    dictionary = key_strings if value_strings is None else value_strings
    if value_strings is not None and key_strings is not None:
        dictionary, old, new = widen(value_strings, key_strings)
        value, key = move_ranks(value, old), move_ranks(key, new)
    present = arrays[0].is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
    value = np.where(present == 1, value, 0)
    return LiftedRows(np.column_stack([key, times, present, value]), _valid(arrays[1]), dictionary)


def _sum_words(types: tuple[str, ...]) -> tuple[tuple[str, Word], ...]:
    word = Word.FLOAT if types == ("double",) else Word.INT
    return (("high", word), ("low", word))


def _by_words(types: tuple[str, ...]) -> tuple[tuple[str, Word], ...]:
    return (
        ("key", word_for(types[1])),
        ("time", Word.INT),
        ("present", Word.INT),
        ("value", word_for(types[0])),
    )


def _one(name: str, word: Word) -> Callable[[tuple[str, ...]], tuple[tuple[str, Word], ...]]:
    return lambda types: ((name, word),)


def _ordered_words(types: tuple[str, ...]) -> tuple[tuple[str, Word], ...]:
    return (("value", word_for(types[0])),)


def _timed_words(types: tuple[str, ...]) -> tuple[tuple[str, Word], ...]:
    return (("time", Word.INT), ("value", word_for(types[0])))


KINDS: dict[str, Kind] = {
    "rows": Kind(ADD, _one("n", Word.INT), _lift_ones),
    "oldest": Kind(MIN, _one("time", Word.INT), _lift_time),
    "newest": Kind(MAX, _one("time", Word.INT), _lift_time),
    "count": Kind(ADD, _one("n", Word.INT), _lift_ones),
    "count_if": Kind(ADD, _one("n", Word.INT), _lift_true),
    "sum": Kind(SUM_INT, _sum_words, _lift_number),
    "sum_ln": Kind(SUM_FLOAT, lambda types: (("high", Word.FLOAT), ("low", Word.FLOAT)), _lift_log),
    "min": Kind(MIN, _ordered_words, _lift_ordered),
    "max": Kind(MAX, _ordered_words, _lift_ordered),
    "first": Kind(MIN, _timed_words, _lift_timed),
    "last": Kind(MAX, _timed_words, _lift_timed),
    "min_by": Kind(MIN, _by_words, _lift_by),
    "max_by": Kind(MAX, _by_words, _lift_by),
    "moments": Kind(
        MOMENTS,
        lambda types: (("n", Word.INT), ("mean", Word.FLOAT), ("mean_low", Word.FLOAT), ("m2", Word.FLOAT)),
        _lift_number,
    ),
    "product": Kind(PRODUCT, lambda types: (("mantissa", Word.FLOAT), ("exponent", Word.INT)), _lift_number),
}
