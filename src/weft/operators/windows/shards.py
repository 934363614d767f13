"""Shards: rows aggregated by slice, signature and group; and from shards coarser ones.

Whatever is made of a batch's rows is made here: shards of rows, shards of other shards by fewer keys, and
partials of single predicates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from weft.aggregates import Part, States
from weft.aggregates.monoid import add_rows, merge
from weft.aggregates.part import LiftedRows
from weft.expr.evaluate import Evaluator
from weft.operators.cells import compact, count_rows, number_cells, one_each
from weft.operators.windows.spread import Places

MAX_PAIRS_AT_ONCE = 1 << 22
"""Rows times predicates that they satisfy, taken at once."""


@dataclass(frozen=True, slots=True, eq=False)
class SignedRows:
    """A batch's rows: their times, slices (-1: none) and signatures (empty: all have the first).

    ``bitmaps`` has a row of booleans per signature, a column per predicate; ``starts`` and ``ends`` are the
    slices'. ``one_cell_each`` gives every row a cell of its own.
    """

    evaluator: Evaluator
    times: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    at: np.ndarray
    signature: np.ndarray
    bitmaps: np.ndarray
    one_cell_each: bool = False

    def of(self, predicates: Iterable[int]) -> SignedRows:
        """The rows that satisfy any of these predicates, their signatures of these alone."""
        bitmaps, new_numbers = projected(self.bitmaps, predicates)
        signature = new_numbers[self.signature] if self.signature.size else self.signature
        satisfying: np.ndarray = np.any(bitmaps, axis=1)
        at = self.at
        if not satisfying.all():
            at = np.where(satisfying[signature] if signature.size else satisfying, at, np.int32(-1))
        return replace(self, at=at, signature=signature, bitmaps=bitmaps)

    def rows_of(self) -> np.ndarray:
        """Return how many rows with a slice each signature has."""
        if not self.signature.size:
            return np.array([(self.at >= 0).sum()])
        return np.bincount(self.signature[self.at >= 0], minlength=len(self.bitmaps))

    def needed_by(self, predicates: Iterable[int]) -> np.ndarray | None:
        """The rows whose values some query needs (None: all), so that no other row counts as bad."""
        wanting: np.ndarray = np.any(self.bitmaps[:, list(predicates)], axis=1)
        needed = self.at >= 0
        if not wanting.all():
            needed &= wanting[self.signature] if self.signature.size else wanting
        return None if needed.all() else needed


@dataclass(frozen=True, slots=True, eq=False)
class Shards:
    """Partials: number of slice, signature and group of each, and the states of each part."""

    starts: np.ndarray
    ends: np.ndarray
    at: np.ndarray
    signature: np.ndarray
    group: np.ndarray
    bitmaps: np.ndarray
    states: Mapping[Part, States]

    def __len__(self) -> int:
        return len(self.at)

    def regrouped(self, group: np.ndarray, parts: Iterable[Part], predicates: Iterable[int]) -> Shards:
        """Shards of coarser groups: some of the parts, of what satisfies any of these predicates."""
        bitmaps, new_numbers = projected(self.bitmaps, predicates)
        signature = new_numbers[self.signature]
        satisfying: np.ndarray = np.any(bitmaps, axis=1)
        at = np.where(satisfying[signature], self.at, -1)
        counts = (len(self.starts), len(bitmaps), int(group.max(initial=0)) + 1)
        target, at, signature, group, _ = number_cells(at, signature, group, counts)
        order = np.flatnonzero(target >= 0)
        target, states = target[order].astype(np.int64), {}
        for part in parts:
            into = part.monoid.identity(len(at))
            merge(part.monoid, into, target, order, self.states[part].words)
            states[part] = States(into, self.states[part].dictionary)
        return Shards(self.starts, self.ends, at, signature, group, bitmaps, states)

    def spread(self, places: Places, predicates: Sequence[int]) -> Shards:
        """Partials of single predicates: a shard goes to each predicate that it satisfies."""
        used, group = compact(self.group)
        into = {
            part: States(part.monoid.identity(len(places)), s.dictionary) for part, s in self.states.items()
        }
        taken = np.zeros(len(places), dtype=np.bool_)
        for cell, place in places.pairs(self.signature, self.at, group):
            taken[place] = True
            for part, states in self.states.items():
                merge(part.monoid, into[part].words, place, cell, states.words)
        return _gathered(places, taken, into, used, predicates, self.bitmaps.shape[1])


def projected(bitmaps: np.ndarray, predicates: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
    """Signatures of some predicates alone, those that then do not differ as one; and which each became.

    >>> bitmaps, new_numbers = projected(np.array([[True, True], [True, False], [False, True]]), [0])
    >>> bitmaps.astype(int).tolist(), new_numbers.tolist()
    ([[0, 0], [1, 0]], [1, 1, 0])
    """
    chosen = np.zeros(bitmaps.shape[1], dtype=np.bool_)
    chosen[list(predicates)] = True
    if chosen.all() or len(bitmaps) == 1:
        return bitmaps & chosen, np.arange(len(bitmaps), dtype=np.int32)
    rows = np.ascontiguousarray(np.packbits(bitmaps & chosen, axis=1))
    _, first, new_numbers = np.unique(
        rows.view(f"V{rows.shape[1]}").ravel(), return_index=True, return_inverse=True
    )
    return bitmaps[first] & chosen, new_numbers.ravel().astype(np.int32)


def one_hot(predicates: np.ndarray, width: int) -> np.ndarray:
    """A signature for each predicate alone.

    >>> one_hot(np.array([2, 0]), 3).astype(int).tolist()
    [[0, 0, 1], [1, 0, 0]]
    """
    return np.arange(width) == predicates[:, None]


Needed: TypeAlias = Mapping[Part, tuple[int, ...]]
"""Which predicates need each part."""


def shards_of(rows: SignedRows, groups: np.ndarray, parts: Needed) -> Shards:
    """Aggregate rows by slice, signature and group."""
    if rows.one_cell_each:
        cells, at, signature, group, count = one_each(rows.at, rows.signature, groups)
    else:
        counts = (len(rows.starts), len(rows.bitmaps), int(groups.max(initial=0)) + 1)
        cells, at, signature, group, count = number_cells(rows.at, rows.signature, groups, counts)
    states = {}
    for part, lifted in _lifted(rows, parts).items():
        states[part] = _added(part, cells, count, lifted)
    return Shards(rows.starts, rows.ends, at, signature, group, rows.bitmaps, states)


def unshared(
    rows: SignedRows, groups: np.ndarray, parts: Needed, places: Places, predicates: Sequence[int]
) -> Shards:
    """Aggregate rows once for each predicate that they satisfy, as if no query knew of another."""
    sliced = np.flatnonzero(rows.at >= 0)
    signature = rows.signature[sliced] if rows.signature.size else np.zeros(len(sliced), dtype=np.int32)
    used, group = compact(groups[sliced])
    lifted = _lifted(rows, parts)
    into = {
        part: States(part.monoid.identity(len(places)), rows_lifted and rows_lifted.dictionary)
        for part, rows_lifted in lifted.items()
    }
    count = np.zeros(len(places), dtype=np.int64)
    for row, place in places.pairs(signature, rows.at[sliced], group):
        count_rows(place, count)
        for part, rows_lifted in lifted.items():
            if rows_lifted is not None:
                values = rows_lifted.take(sliced[row])
                add_rows(part.monoid, into[part].words, place.astype(np.int32), values.values, values.valid)
    into |= {
        part: States(count.reshape(-1, 1)) for part, rows_lifted in lifted.items() if rows_lifted is None
    }
    return _gathered(places, count > 0, into, used, predicates, rows.bitmaps.shape[1])


def _gathered(
    places: Places,
    taken: np.ndarray,
    states: Mapping[Part, States],
    groups: np.ndarray,
    predicates: Sequence[int],
    width: int,
) -> Shards:
    """The partials that were gathered at places, of which some are taken."""
    occupied = np.flatnonzero(taken)
    predicate, at, group = places.decode(occupied)
    own_states = {
        part: States(states_of_part.words[occupied], states_of_part.dictionary)
        for part, states_of_part in states.items()
    }
    alone = one_hot(np.array(predicates), width)
    return Shards(places.starts, places.ends, at, predicate, groups[group], alone, own_states)


def bounded(numbers: Iterable[int], weights: np.ndarray, most: int) -> Iterator[list[int]]:
    """Yield numbers in order, in runs that weigh no more than ``most`` together where that can be.

    >>> list(bounded([0, 1, 2], np.array([3, 4, 9]), 7))
    [[0, 1], [2]]
    """
    run: list[int] = []
    weight = 0
    for number in numbers:
        if run and weight + weights[number] > most:
            yield run
            run, weight = [], 0
        run.append(number)
        weight += int(weights[number])
    if run:
        yield run


def _lifted(rows: SignedRows, parts: Needed) -> dict[Part, LiftedRows | None]:
    """The values of each part's rows; none where rows are only counted."""
    lifted: dict[Part, LiftedRows | None] = {}
    for part, needing in parts.items():
        needed = rows.needed_by(needing)
        values = [rows.evaluator.evaluate(a, needed) for a in part.args]
        all_count = part.kind == "count" and not any(v.null_count for v in values)
        rows_lifted = None if part.kind == "rows" or all_count else part.lift(values, rows.times)
        if rows_lifted is not None and needed is not None and not part.monoid.built_in:
            # A user's functions must not see rows that none of its queries has asked for: they may raise.
            rows_lifted = replace(
                rows_lifted, valid=rows_lifted.valid & needed if rows_lifted.valid.size else needed
            )
        lifted[part] = rows_lifted
    return lifted


def _added(part: Part, cells: np.ndarray, count: np.ndarray, lifted: LiftedRows | None) -> States:
    if lifted is None:
        return States(count.reshape(-1, 1))
    states = States(part.monoid.identity(len(count)), lifted.dictionary)
    add_rows(part.monoid, states.words, cells, lifted.values, lifted.valid)
    return states
