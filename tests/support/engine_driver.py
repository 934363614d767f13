"""Drives ``partial`` and ``final`` by hand, as a runner with several buckets and a slice store would."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

import weft
from weft.model.instants import END_OF_TIME
from weft.model.query import Query
from weft.operators.times import Seen
from weft.operators.windows.answer import final
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.prepare import partial
from weft.operators.windows.program import WindowProgram
from weft.operators.windows.state import Piece, State, merge_pieces


@dataclass
class Driven:
    """The counts, and the results and the rows of state after each batch (the last: at the end)."""

    seen: Seen
    rounds: list[dict[str, pa.Table]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)


def drive(
    queries: Sequence[Query],
    batches: Sequence[pa.Table],
    time: str,
    lateness: int = 0,
    buckets: int = 1,
    forgetful: bool = False,
) -> Driven:
    """Answer the batches one by one; ``forgetful`` buckets live only as Parquet files between batches."""
    program = compile_plan(weft.plan(queries), batches[0].schema, time)
    states = [State(program, bucket) for bucket in range(buckets)]
    watermark: int | None = None
    driven: Driven | None = None
    for batch in [*batches, None]:
        pieces: list[Piece] = []
        if batch is None:
            upto: int | None = END_OF_TIME
        else:
            made = partial(batch, program, watermark, buckets)
            seen, pieces = made.seen, merge_pieces(made.pieces, program)
            if driven is None:
                driven = Driven(seen)
            else:
                driven.seen += seen
            if seen.max_time is not None:
                reached = seen.max_time - lateness
                watermark = reached if watermark is None else max(watermark, reached)
            upto = watermark
        assert driven is not None
        results: dict[str, list[pa.Table]] = {}
        for bucket, state in enumerate(states):
            mine = [_stored(piece) if forgetful else piece for piece in pieces if piece.bucket == bucket]
            states[bucket], tables = final(state, mine, upto, program)
            if forgetful and upto != END_OF_TIME:
                states[bucket] = _reborn(states[bucket], upto, program)
            for name, table in tables.items():
                assert table.num_rows, "only results with rows are given"
                results.setdefault(name, []).append(table)
        driven.rounds.append({name: pa.concat_tables(tables) for name, tables in results.items()})
        driven.sizes.append(sum(state.rows for state in states))
    assert driven is not None
    if not program.counts_rows:
        assert driven.sizes[-1] == 0, "a closed stream keeps no state"
    return driven


def _reborn(state: State, watermark: int | None, program: WindowProgram) -> State:
    """The state as another process finds it: from its stored pieces and the watermark."""
    again = State(program, state.bucket)
    for piece in state.snapshot():
        again.absorb(_stored(piece))
    if watermark is not None:
        again.advance(watermark)
    return again


def _stored(piece: Piece) -> Piece:
    """The piece as it comes back from a Parquet file, where dictionaries are plain columns."""
    columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in piece.table.columns]
    file = io.BytesIO()
    pq.write_table(pa.table(columns, piece.table.schema.names), file)
    (batch,) = pq.read_table(io.BytesIO(file.getvalue())).combine_chunks().to_batches()
    return Piece(piece.bucket, piece.grouping, batch)
