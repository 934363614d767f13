"""Rows and results that wait, of chains and of multi-way joins, on their way to files and other versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from weft.operators.joins.chain import Chain
from weft.operators.joins.lineage import BitCarryOver
from weft.operators.joins.multiway.bitmaps import all_within, pack, unpack
from weft.operators.joins.multiway.join import MultiwayJoin
from weft.operators.joins.multiway.packing import carried_words, pack_tuples, unpack_tuples
from weft.operators.joins.multiway.tuples import Tuples
from weft.operators.joins.packing import pack_pairs, typed, unpack_pairs
from weft.operators.joins.rows import JoinRows
from weft.operators.joins.sliced import Sliced
from weft.operators.joins.slices import useful
from weft.operators.joins.union import Pairs, columns, placed
from weft.planning.joins.access import pair_schema


def fitted(side: int, rows: JoinRows, chain: Sliced[Any]) -> JoinRows:
    """Rows of another version, signed as in a chain, that are of use to it, with its columns."""
    reach = chain.signatures[side].reach([m.ranges[side] for m in chain.members])
    rows = useful(rows, 0, reach)
    return replace(rows, table=columns(rows.table, chain.program.schemas[side]))


def pack_waiting(results: Any, state: Sliced[Any]) -> pa.RecordBatch:
    """Results that wait as one batch."""
    return pack_pairs(results, state.signatures) if isinstance(state, Chain) else pack_tuples(results)


def unpack_waiting(batch: pa.RecordBatch, state: Sliced[Any], carry_over: BitCarryOver) -> Any:
    """The results behind ``pack_waiting``, which may be of other queries, as they are in a state."""
    if isinstance(state, Chain):
        schema = pair_schema(state.program.sides, state.program.schemas)
        return _fitted_pairs(unpack_pairs(batch, state.signatures, schema, carry_over), state)
    results = unpack_tuples(batch)
    table = typed(results.table, pair_schema(state.program.sides, state.program.schemas))
    return _fitted(replace(results, table=table), state, carry_over)


def carry_waiting(
    results: Any, state: Sliced[Any], carry_over: BitCarryOver, signatures: Sequence[np.ndarray]
) -> Any:
    """Results that wait in the state of other queries; ``signatures`` are the new numbers of signatures."""
    if isinstance(state, Chain):
        carried = replace(
            results, signatures=(signatures[0][results.signatures[0]], signatures[1][results.signatures[1]])
        )
        return _fitted_pairs(carried, state)
    return _fitted(results, state, carry_over)


def _fitted(results: Tuples, state: Sliced[Any], carry_over: BitCarryOver) -> Tuples:
    """Joined rows with the bitmaps and columns that they have in a multi-way join, those that are of use."""
    assert isinstance(state, MultiwayJoin)
    bits = unpack(carried_words(results.words, carry_over.queries, carry_over.places), len(state.members))
    for number, member in enumerate(state.members):
        bits[:, number] &= all_within(results.times, results.parts, member.ranges)
    table = columns(results.table, state.program.selected_schema)
    return replace(results, words=pack(bits), table=table).take(np.flatnonzero(bits.any(axis=1)))


def _fitted_pairs(pairs: Pairs, chain: Chain) -> Pairs:
    """Pairs of another version with the places and columns that they have in a chain."""
    own_pairs = placed(pairs, chain.windows)
    return replace(own_pairs, table=columns(own_pairs.table, chain.program.selected_schema))
