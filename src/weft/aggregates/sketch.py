"""Approximate aggregates by sketches: small states with a known error, merged like any other partial.

Distinct values are counted by HyperLogLog, percentiles come from KLL, both of the library datasketches.
P. Flajolet et al.: HyperLogLog. AofA 2007. Z. Karnin, K. Lang, E. Liberty: Optimal Quantile Approximation in
Streams. FOCS 2016.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from datasketches import hll_sketch, hll_union, kll_doubles_sketch, tgt_hll_type

from weft.aggregates.function import ORDERED_TYPES, AggregateFunction, Constant, Exprs, Types
from weft.aggregates.objects import Algebra, ObjectPart, by_cell
from weft.aggregates.part import LiftedRows, Part, States, all_valid
from weft.aggregates.word import float_words, int_words, string_words, word_for, words_of

MEASURES = frozenset(("bigint", "double", "timestamp", "date", "null"))


class Sketch(Algebra):
    """A sketch of distinct or ranked values: rows are gathered by cell, and added a cell at a time."""

    def add_rows(self, states: np.ndarray, cell: np.ndarray, values: np.ndarray, valid: np.ndarray) -> None:
        """Make a sketch of each cell's rows, and combine it with what the cell has."""
        for at, rows in by_cell(cell, valid):
            fresh = self.sketch(values[rows])
            states[at, 0] = fresh if states[at, 0] is None else self.combine(states[at, 0], fresh)

    @abstractmethod
    def sketch(self, values: np.ndarray) -> Any:
        """A new sketch of some rows' values."""


@dataclass(frozen=True)
class Hll(Sketch):
    """Distinct values; 2^lg_k registers."""

    lg_k: int

    def rows(self, types: Sequence[str], arrays: Sequence[pa.Array], times: np.ndarray) -> LiftedRows:
        """Integers that are equal where the values are; strings as themselves, one object each."""
        if types[0] == "string":
            ranks, dictionary = string_words(arrays[0])
            strings = np.array([*dictionary.to_pylist(), None], dtype=object)
            return LiftedRows(strings[ranks], all_valid(arrays))
        return LiftedRows(words_of(word_for(types[0]), arrays[0])[0], all_valid(arrays))

    def sketch(self, values: np.ndarray) -> hll_sketch:
        """A new sketch of some rows' values."""
        result = hll_sketch(self.lg_k, tgt_hll_type.HLL_8)
        distinct = set(values.tolist()) if values.dtype == object else np.unique(values).tolist()
        for value in distinct:
            result.update(value)
        return result

    def combine(self, older: hll_sketch, newer: hll_sketch) -> hll_sketch:
        """The union of two sketches."""
        return self._union(older, newer).get_result(tgt_hll_type.HLL_8)

    def estimate(self, state: hll_sketch) -> float:
        """Return the number of distinct values.

        A sketch that has not been merged knows the order in which values came, and makes use of it: after a
        union the estimate depends on the values alone.
        """
        return float(self._union(state, state).get_estimate())

    def _union(self, *sketches: hll_sketch) -> hll_union:
        union = hll_union(self.lg_k)
        for sketch in sketches:
            union.update(sketch)
        return union

    def write(self, state: hll_sketch) -> bytes:
        """A state as bytes."""
        return bytes(state.serialize_compact())

    def read(self, data: bytes) -> hll_sketch:
        """The state behind bytes."""
        return hll_sketch.deserialize(data)


@dataclass(frozen=True)
class Kll(Sketch):
    """Percentiles; the larger k, the closer."""

    k: int

    def rows(self, types: Sequence[str], arrays: Sequence[pa.Array], times: np.ndarray) -> LiftedRows:
        """Numbers, dates and times as floats; NaN does not count."""
        whole = types[0] in ("timestamp", "date")
        values = int_words(arrays[0]).astype(np.float64) if whole else float_words(arrays[0])
        valid = all_valid(arrays)
        if np.isnan(values).any():
            valid = ~np.isnan(values) & (valid if valid.size else True)
        return LiftedRows(values, valid)

    def sketch(self, values: np.ndarray) -> kll_doubles_sketch:
        """A new sketch of some rows' values."""
        made = kll_doubles_sketch(self.k)
        made.update(values)
        return made

    def combine(self, older: kll_doubles_sketch, newer: kll_doubles_sketch) -> kll_doubles_sketch:
        """A sketch of what both have seen."""
        made = kll_doubles_sketch(self.k)
        made.merge(older)
        made.merge(newer)
        return made

    def write(self, state: kll_doubles_sketch) -> bytes:
        """A state as bytes."""
        return bytes(state.serialize())

    def read(self, data: bytes) -> kll_doubles_sketch:
        """The state behind bytes."""
        return kll_doubles_sketch.deserialize(data)


def lg_k_for(deviation: float) -> int:
    """The smallest sketch whose relative standard deviation is not above this.

    >>> lg_k_for(0.05)
    9
    """
    sizes = range(4, 22)
    return next((n for n in sizes if hll_sketch.get_rel_err(False, True, n, 1) <= deviation), sizes[-1])


def k_for(accuracy: float) -> int:
    """The smallest sketch whose ranks are within 1 / accuracy of all rows, nearly always.

    >>> k_for(100)
    269
    """
    low, high = 8, 65535
    while low < high:
        middle = (low + high) // 2
        if kll_doubles_sketch.get_normalized_rank_error(middle, False) <= 1 / accuracy:
            high = middle
        else:
            low = middle + 1
    return low


DEVIATION = Constant("relative standard deviation", 0.001, 0.25, default=0.05)
PERCENTAGE = Constant("percentage", 0.0, 1.0)
ACCURACY = Constant("accuracy", 1.0, 20_000.0, default=100.0)


def _distinct_parts(args: Exprs, types: Types) -> tuple[Part, ...]:
    (deviation,) = SKETCHES["approx_count_distinct"].numbers(args)
    sketch = Hll(lg_k_for(deviation))
    return (ObjectPart(f"hll_{sketch.lg_k}", args[:1], types[:1], sketch),)


def _lower_distinct(
    parts: Sequence[Part], states: Sequence[States], constants: tuple[float, ...] = ()
) -> pa.Array:
    estimate = parts[0].algebra.estimate  # type: ignore[attr-defined]
    return pa.array([0 if s is None else round(estimate(s)) for s in states[0].words[:, 0]], pa.int64())


def _quantile_parts(name: str, args: Exprs, types: Types) -> tuple[Part, ...]:
    sketch = Kll(k_for(SKETCHES[name].numbers(args)[-1]))
    return (ObjectPart(f"kll_{sketch.k}", args[:1], types[:1], sketch),)


def _percentile_parts(args: Exprs, types: Types) -> tuple[Part, ...]:
    return _quantile_parts("approx_percentile", args, types)


def _median_parts(args: Exprs, types: Types) -> tuple[Part, ...]:
    return _quantile_parts("approx_median", args, types)


def _lower_percentile(
    parts: Sequence[Part], states: Sequence[States], constants: tuple[float, ...]
) -> pa.Array:
    rank = constants[0]
    values = [None if s is None else s.get_quantile(rank, True) for s in states[0].words[:, 0]]
    if parts[0].types[0] == "double":
        return pa.array(values, pa.float64())
    # The largest integers are rounded up to 2^63 as floats.
    return pa.array([None if v is None else min(int(v), (1 << 63) - 1) for v in values], pa.int64())


def _lower_median(parts: Sequence[Part], states: Sequence[States], constants: tuple[float, ...]) -> pa.Array:
    return _lower_percentile(parts, states, (0.5,))


def _bigint(types: Types) -> str:
    return "bigint"


def _first(types: Types) -> str:
    return types[0]


SKETCHES: dict[str, AggregateFunction] = {
    function.name: function
    for function in (
        AggregateFunction(
            "approx_count_distinct",
            (ORDERED_TYPES,),
            _distinct_parts,
            _bigint,
            _lower_distinct,
            "about how many distinct values there are",
            constants=(DEVIATION,),
        ),
        AggregateFunction(
            "approx_percentile",
            (MEASURES,),
            _percentile_parts,
            _first,
            _lower_percentile,
            "about the smallest value that a share p of the values does not exceed",
            keeps_type=True,
            constants=(PERCENTAGE, ACCURACY),
        ),
        AggregateFunction(
            "approx_median",
            (MEASURES,),
            _median_parts,
            _first,
            _lower_median,
            "`approx_percentile(x, 0.5)`",
            keeps_type=True,
            constants=(ACCURACY,),
        ),
    )
}
"""Every approximate aggregate by its name."""
