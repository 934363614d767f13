"""Layers of partials in Parquet files: a bucket's state is what its layers hold together.

Each step adds a layer with what is new and still needed. A layer that no open window needs is dropped
whole. When layers get many, the newest are merged into one, as far back as that at most trebles the work
of writing (the logarithmic method: O'Neil et al., "The log-structured merge-tree", 1996).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weft.errors import CheckpointError
from weft.io.filesystem import join, resolve, write_atomically
from weft.model.instants import BEGINNING_OF_TIME, END_OF_TIME
from weft.operators.windows.carry_over import WindowCarryOver
from weft.operators.windows.due import last_ends
from weft.operators.windows.program import Axis, Grouping, Program
from weft.operators.windows.state import Piece, State, merge_pieces
from weft.store.manifest import Layer, SliceFile
from weft.store.versions import read_version

MAX_LAYERS = 16
SLICES = "slices"


def rebuild(
    place: str, layers: Iterable[Layer], bucket: int, watermark: int | None, program: Program
) -> State:
    """The state that a bucket's layers hold, answered up to the watermark."""
    state = State(program, bucket)
    catch_up(place, state, layers, watermark)
    return state


def catch_up(place: str, state: State, layers: Iterable[Layer], watermark: int | None) -> None:
    """Bring a state up to date with layers that it has not absorbed yet."""
    for layer in layers:
        for piece in read_layer(place, layer, state.bucket, state.program):
            state.absorb(piece)
    state.advance(watermark)


def add_layer(
    place: str,
    layers: Sequence[Layer],
    pieces: Sequence[Piece],
    state: State,
    step: tuple[int, str],
    watermark: int | None,
    program: Program,
) -> tuple[Layer, ...]:
    """Write ``pieces`` and return the bucket's layers after a step (its seq and token), without dead ones.

    ``state`` is the bucket's state after the step; it saves reading where everything is merged.
    """
    seq, token = step
    live = [layer for layer in layers if watermark is None or layer.needed_until > watermark]
    fresh = _live(pieces, watermark, program)
    first = seq
    if len(live) >= MAX_LAYERS:
        taken = layers_to_merge(live, sum(p.table.num_rows for p in fresh))
        merged, live = live[len(live) - taken :], live[: len(live) - taken]
        if merged:
            first = merged[0].first
            if live:
                old = [p for layer in merged for p in read_layer(place, layer, state.bucket, program)]
                fresh = _live(merge_pieces([*old, *fresh], program), watermark, program)
            else:
                fresh = state.snapshot()
    if not fresh:
        return tuple(live)
    files = tuple(_write(place, piece, seq, token) for piece in fresh)
    until = max(_needed_until(p, program) for p in fresh)
    return (*live, Layer(first, seq, until, files, program.version))


def read_layer(place: str, layer: Layer, bucket: int, program: Program) -> list[Piece]:
    """The partials of a layer, laid out for a program; CheckpointError where a file is missing or damaged."""
    pieces = [Piece(bucket, file.grouping, read_file(place, file)) for file in layer.files]
    if layer.version == program.version:
        return pieces
    migration = WindowCarryOver(read_version(place, layer.version).layout, program)
    return [p for p in map(migration.piece, pieces) if p is not None]


def needed_anew(layer: Layer, migration: WindowCarryOver) -> Layer:
    """The layer, kept as long as the queries of another version may need it."""
    until = BEGINNING_OF_TIME
    for file in layer.files:
        number = migration.numbers[file.grouping]
        if number is not None:
            until = max(until, _latest_end(migration.program.groupings[number], file.newest))
    return replace(layer, needed_until=until)


def _latest_end(grouping: Grouping, newest: int) -> int:
    """No watermark after this needs partials whose last slice starts at ``newest``."""
    if grouping.axis is Axis.ROWS:
        return END_OF_TIME
    return newest + (1 if grouping.axis is Axis.WAITING else max(w.range for w in grouping.windows))


def layers_to_merge(layers: Sequence[Layer], rows: int) -> int:
    """Return the number of the newest layers to merge with so many new rows."""
    taken = 0
    for layer in reversed(layers):
        if taken and layer.rows > 2 * rows:
            break
        rows += layer.rows
        taken += 1
    return taken


def _ends(piece: Piece, program: Program) -> np.ndarray:
    """The watermark that each partial is needed until."""
    grouping = program.groupings[piece.grouping]
    if grouping.axis is Axis.ROWS:
        # Only the state knows how far its groups have counted: it leaves out what is dead when all is merged.
        return np.full(piece.table.num_rows, END_OF_TIME)
    # Many partials, but few slices.
    slices = piece.table.column("slice_start").dictionary_encode()
    starts = slices.dictionary.to_numpy(zero_copy_only=False)
    ends = starts + 1 if grouping.axis is Axis.WAITING else last_ends(grouping.windows, starts)
    return ends[slices.indices.to_numpy(zero_copy_only=False)]


def _needed_until(piece: Piece, program: Program) -> int:
    return int(_ends(piece, program).max())


def _live(pieces: Iterable[Piece], watermark: int | None, program: Program) -> list[Piece]:
    """Without the partials that only answered windows needed."""
    alive = []
    for piece in pieces:
        needed = _ends(piece, program) > (np.iinfo(np.int64).min if watermark is None else watermark)
        if needed.all():
            alive.append(piece)
        elif needed.any():
            alive.append(Piece(piece.bucket, piece.grouping, piece.table.filter(pa.array(needed))))
    return [p for p in alive if p.table.num_rows]


def _write(place: str, piece: Piece, seq: int, token: str) -> SliceFile:
    newest = int(np.max(piece.table.column("slice_start").to_numpy(zero_copy_only=False)))
    return write_file(place, piece.table, (seq, piece.bucket, piece.grouping, token), newest)


def write_file(place: str, table: pa.RecordBatch, named: tuple[int, int, int, str], newest: int) -> SliceFile:
    """Write a file, named by step, bucket, grouping and attempt."""
    seq, bucket, grouping, token = named
    name = f"{seq:010}-{bucket:04}-{grouping:03}-{token}.parquet"
    sink = pa.BufferOutputStream()
    # Parquet cannot take null as a value of a dictionary; it makes dictionaries of its own.
    plain = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in table.columns]
    pq.write_table(pa.table(plain, names=table.schema.names), sink)
    data = sink.getvalue()
    system, path = resolve(join(place, SLICES, name))
    try:
        write_atomically(system, path, data)
    except OSError as error:
        raise CheckpointError(f"cannot write '{path}': {error}; state could not be saved") from error
    return SliceFile(name, grouping, table.num_rows, data.size, zlib.crc32(data), newest)


def read_file(place: str, file: SliceFile) -> pa.RecordBatch:
    """The content of a file; CheckpointError where it is missing or damaged."""
    system, path = resolve(join(place, SLICES, file.name))
    remedy = "restore the file from a backup, or start again with an empty checkpoint directory"
    try:
        with system.open_input_file(path) as source:
            data = source.read_buffer()
    except OSError as error:
        raise CheckpointError(f"a slice file of this checkpoint is missing, '{path}'; {remedy}") from error
    if data.size != file.bytes or zlib.crc32(data) != file.crc:
        raise CheckpointError(f"a slice file of this checkpoint is damaged, '{path}'; {remedy}")
    table = pq.read_table(pa.BufferReader(data), use_threads=False).combine_chunks()
    return table.to_batches()[0]
