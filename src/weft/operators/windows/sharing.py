"""Choice of what is shared in a batch, from what the batch itself shows.

Sharing is not always better (Krishnamurthy, Wu, Franklin, SIGMOD 2006, section 4.3): where almost every row
has a signature of its own, shards are as many as rows, and cost more than they save. So the rows, signatures
and cells of each batch are counted, on a sample where counting all would be work, and the cheaper way taken:

* *shared*: rows become shards, and shards travel;
* *spread*: rows become shards, and what each predicate has of them travels, where that is less;
* *unshared*: rows become partials of each predicate that they satisfy.

Group-bys that differ are made from the groups of all their columns together where those are few enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from weft.aggregates import Part
from weft.operators.cells import compact, factorize
from weft.operators.windows.program import Axis, WindowProgram
from weft.operators.windows.shards import MAX_PAIRS_AT_ONCE, Shards, SignedRows
from weft.operators.windows.spread import Places, Slices
from weft.slicing import slices_of

SAMPLE_ROWS = 4096
MAX_UNSHARED_PREDICATES = 4
"""Predicates that a row satisfies, beyond which it is always shared."""

MIN_ROWS_TO_UNITE_KEYS = 16 * SAMPLE_ROWS
"""Rows below which different group-bys are not worth bringing together."""

# Nanoseconds on one core of a common server: only their proportions matter.
KEY_COST = 8.0  # one column of a row's key looked up
ROW_COST = 2.0  # a row put into a cell that is addressed directly
HASHED_ROW_COST = 25.0  # the same, where cells are as many as rows and found by hashing
ADD_COST = 3.0  # a row, or a state, added to one part of its cell
CELL_COST = 200.0  # a partial packed, sent, merged into the state and kept


@dataclass(frozen=True, slots=True)
class SharingChoice:
    """The way in which rows became partials of one group-by for some predicates, and the counts behind it.

    ``pairs`` are rows times predicates that they satisfy, ``shards`` what sharing makes of the rows,
    ``partials`` what left. ``made_of`` are the columns grouped by first, where other group-bys took part.
    """

    keys: tuple[str, ...]
    how: str
    predicates: int
    rows: int
    pairs: int
    signatures: int
    shards: int
    partials: int
    made_of: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SharingChoice:
        """The inverse of ``dataclasses.asdict``, also after a way through JSON."""
        return cls(**{**data, "keys": tuple(data["keys"]), "made_of": tuple(data["made_of"])})

    def __str__(self) -> str:
        by = ", ".join(self.keys) or "nothing"
        first = f" (grouped by {', '.join(self.made_of)} first)" if self.made_of else ""
        return (
            f"by {by}{first}: {self.how}; of {self.predicates:,} predicates a row satisfies "
            f"{self.pairs / max(self.rows, 1):.3g}; rows {self.rows:,}, fragments {self.signatures:,}, "
            f"shards {self.shards:,}, partials {self.partials:,}"
        )


def total(choices: Iterable[SharingChoice]) -> list[SharingChoice]:
    """The choices with equal ones added up.

    >>> one = SharingChoice(("symbol",), "shared", 3, rows=10, pairs=20, signatures=2, shards=4, partials=4)
    >>> print(total([one, one])[0])
    by symbol: shared; of 3 predicates a row satisfies 2; rows 20, fragments 2, shards 8, partials 8
    """
    sums: dict[tuple[object, ...], SharingChoice] = {}
    for new in choices:
        kind = (new.keys, new.how, new.predicates, new.made_of)
        old = sums.get(kind)
        sums[kind] = (
            new
            if old is None
            else replace(
                old,
                rows=old.rows + new.rows,
                pairs=old.pairs + new.pairs,
                signatures=max(old.signatures, new.signatures),
                shards=old.shards + new.shards,
                partials=old.partials + new.partials,
            )
        )
    return list(sums.values())


def satisfying(choices: Iterable[SharingChoice]) -> int:
    """Return how many rows satisfy a query, as far as any one choice tells.

    >>> choice = SharingChoice(("k",), "shared", 2, rows=10, pairs=10, signatures=1, shards=4, partials=4)
    >>> satisfying([choice])
    10
    """
    return max((choice.rows for choice in choices), default=0)


def choose_unshared(
    program: WindowProgram, number: int, rows: SignedRows, groups: Callable[[], np.ndarray]
) -> list[tuple[Places, list[int], SharingChoice]]:
    """The predicates of a grouping that are better not shared, tree by tree, with the counts that say so.

    ``groups`` gives each row's group; it is only called where there may be such predicates.
    """
    grouping, choices = program.groupings[number], []
    for predicates in map(list, program.families[number]):
        satisfied = rows.bitmaps[:, predicates].sum(axis=1)
        # Where signatures are few, or rows satisfy many predicates, what they share is worth finding.
        if np.count_nonzero(satisfied) <= len(predicates):
            continue
        counts = rows.rows_of()
        satisfying_rows, pairs = int(counts[satisfied > 0].sum()), int(counts @ satisfied)
        if pairs > MAX_UNSHARED_PREDICATES * satisfying_rows:
            continue
        own_rows = rows.of(predicates)
        shards = estimated_cells(own_rows, grouping.keys)
        places = places_of(program, number, predicates, own_rows, groups()[own_rows.at >= 0])
        if places is None:
            continue
        # Alone, a predicate's rows are added to the parts that it needs; together, all rows to all parts.
        rows_of = dict(zip(predicates, counts @ rows.bitmaps[:, predicates]))
        adds = ADD_COST * sum(rows_of.get(p, 0) for needing in grouping.needed_by for p in needing)
        shared = satisfying_rows * (
            (ROW_COST if 4 * shards < satisfying_rows else HASHED_ROW_COST) + ADD_COST * len(grouping.parts)
        )
        shared += CELL_COST * min(shards, len(places)) + adds * shards / max(satisfying_rows, 1)
        if pairs * ROW_COST + adds + CELL_COST * len(places) < shared:
            sets = int(np.any(own_rows.bitmaps, axis=1).sum())
            choice = SharingChoice(
                grouping.keys, "unshared", len(predicates), satisfying_rows, pairs, sets, shards, len(places)
            )
            choices.append((places, predicates, choice))
    return choices


def worth_spreading(
    program: WindowProgram, number: int, predicates: Sequence[int], shards: Shards
) -> Places | None:
    """Return where what each predicate has of the shards is gathered, if that is less than the shards."""
    if len(shards) <= len(predicates):
        return None
    if len(predicates) == 1 and program.edges[number, predicates[0]] is program.progressions:
        return None  # every shard is in a slice of its own already
    places = places_of(program, number, predicates, shards, shards.group)
    return places if places is not None and len(places) < len(shards) else None


def places_of(
    program: WindowProgram,
    number: int,
    predicates: Sequence[int],
    rows: SignedRows | Shards,
    groups: np.ndarray,
) -> Places | None:
    """Return where what these predicates have is gathered: in the slices that their own queries need.

    None where even a table of predicates and slices would be too large, and where the order of states
    matters: slices of a predicate's own would overlap those that other batches are cut into.
    """
    if program.groupings[number].ordered or len(predicates) * len(rows.starts) > MAX_PAIRS_AT_ONCE:
        return None
    cuts: dict[int, Slices] = {}
    for predicate in predicates:
        edges = program.edges[number, predicate]
        if id(edges) not in cuts:
            cuts[id(edges)] = slices_of(edges, rows.starts, np.zeros(0, dtype=np.bool_))
    slices = [cuts[id(program.edges[number, p])] for p in predicates]
    return Places(slices, rows.bitmaps[:, predicates], len(compact(groups)[0]))


def choose_united_keys(program: WindowProgram, rows: SignedRows) -> list[list[int]]:
    """The groupings in time, those together whose keys are first grouped by all their columns.

    Of all pairs of sets, the one whose union saves most is joined, until none saves.
    """
    sets = [[n] for n, grouping in enumerate(program.groupings) if grouping.axis is Axis.TIME]
    if len(sets) < 2 or len(rows.times) < MIN_ROWS_TO_UNITE_KEYS:
        return sets
    cells: dict[frozenset[str], int] = {}

    def cost(numbers: list[int]) -> float:
        (keys, _), parts = union_keys(program, numbers), union_parts(program, numbers)
        rows_cost = len(rows.times) * (KEY_COST * len(keys) + ROW_COST + ADD_COST * len(parts))
        if len(numbers) == 1:
            return rows_cost
        key_set = frozenset(keys)
        if key_set not in cells:
            cells[key_set] = estimated_cells(rows, keys)
        # Each shard is put into a cell of each grouping.
        return rows_cost + cells[key_set] * sum(
            HASHED_ROW_COST + ADD_COST * len(program.groupings[n].parts) for n in numbers
        )

    while len(sets) > 1:
        saving, one, other = max(
            ((cost(a) + cost(b) - cost([*a, *b]), a, b) for a, b in combinations(sets, 2)),
            key=lambda option: option[0],
        )
        if saving <= 0:
            break
        sets = sorted([*(s for s in sets if s not in (one, other)), sorted([*one, *other])])
    return sets


def union_keys(
    program: WindowProgram, numbers: Iterable[int]
) -> tuple[tuple[str, ...], tuple[pa.DataType, ...]]:
    """The key columns of all these groupings, and their types."""
    groupings = [program.groupings[n] for n in numbers]
    types = {name: dtype for g in groupings for name, dtype in zip(g.keys, g.key_types)}
    return tuple(types), tuple(types.values())


def union_parts(program: WindowProgram, numbers: Iterable[int]) -> dict[Part, tuple[int, ...]]:
    """The parts of all these groupings, and which predicates need them."""
    parts: dict[Part, tuple[int, ...]] = {}
    for n in numbers:
        for part, needing in program.groupings[n].needs.items():
            parts[part] = tuple(dict.fromkeys((*parts.get(part, ()), *needing)))
    return parts


def estimated_cells(rows: SignedRows, keys: Sequence[str]) -> int:
    """About how many cells of slice, signature and key the rows have, from a sample of them.

    The estimator is that of Charikar et al., PODS 2000: values seen once stand for many, others for
    themselves.
    """
    sliced = np.flatnonzero(rows.at >= 0)
    if not len(sliced):
        return 0
    step = max(1, len(sliced) // SAMPLE_ROWS)
    sample = sliced[::step]
    codes = rows.at[sample].astype(np.int64)
    if rows.signature.size:
        codes = codes * len(rows.bitmaps) + rows.signature[sample]
    codes, _ = factorize(codes)
    for key in keys:
        values = rows.evaluator.batch.column(key).take(pa.array(sample))
        if not pa.types.is_dictionary(values.type):
            values = values.dictionary_encode()
        places = values.indices.fill_null(len(values.dictionary)).to_numpy(zero_copy_only=False)
        codes, _ = factorize(codes.astype(np.int64) * (len(values.dictionary) + 1) + places)
    seen = np.bincount(codes)
    once = int((seen == 1).sum())
    return min(len(sliced), int(np.sqrt(len(sliced) / len(sample)) * once) + len(seen) - once)
