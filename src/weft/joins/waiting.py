"""Results that wait, of chains and of multi-way joins, on their way to files and to other versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from weft.joins.access import pair_schema
from weft.joins.chain import Chain
from weft.joins.lines import Move, fitted_pairs
from weft.joins.multiway.bitmaps import all_within, pack, unpack
from weft.joins.multiway.join import MultiwayJoin
from weft.joins.multiway.stored import moved_words, pack_tuples, unpack_tuples
from weft.joins.multiway.tuples import Tuples
from weft.joins.sliced import Sliced
from weft.joins.stored import pack_pairs, typed, unpack_pairs
from weft.joins.union import columns


def pack_waiting(found: Any, state: Sliced[Any]) -> pa.RecordBatch:
    """Results that wait as one batch."""
    return pack_pairs(found, state.signs) if isinstance(state, Chain) else pack_tuples(found)


def unpack_waiting(batch: pa.RecordBatch, state: Sliced[Any], move: Move) -> Any:
    """The results behind ``pack_waiting``, which may be of other queries, as they are in a state."""
    if isinstance(state, Chain):
        schema = pair_schema(state.program.sides, state.program.schemas)
        return fitted_pairs(unpack_pairs(batch, state.signs, schema, move), state)
    found = unpack_tuples(batch)
    table = typed(found.table, pair_schema(state.program.sides, state.program.schemas))
    return _fitted(replace(found, table=table), state, move)


def move_waiting(found: Any, state: Sliced[Any], move: Move, signs: Sequence[np.ndarray]) -> Any:
    """Results that wait in the state of other queries; ``signs`` are the new numbers of signatures."""
    if isinstance(state, Chain):
        moved = replace(found, signs=(signs[0][found.signs[0]], signs[1][found.signs[1]]))
        return fitted_pairs(moved, state)
    return _fitted(found, state, move)


def _fitted(found: Tuples, state: Sliced[Any], move: Move) -> Tuples:
    """Joined rows with the bitmaps and columns that they have in a multi-way join, those that are of use."""
    assert isinstance(state, MultiwayJoin)
    bits = unpack(moved_words(found.words, move.queries, move.places), len(state.members))
    for number, member in enumerate(state.members):
        bits[:, number] &= all_within(found.times, found.parts, member.ranges)
    table = columns(found.table, state.program.selected_schema)
    return replace(found, words=pack(bits), table=table).take(np.flatnonzero(bits.any(axis=1)))
