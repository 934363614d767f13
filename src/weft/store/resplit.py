"""State split again: what a checkpoint holds, brought into other buckets, or split by another hash.

Done once, by the driver, before the first step of a run. New files are written beside the old ones, and the
manifest that names them is the one of that first step: until it is committed, nothing has happened. Partials
keep the layout that they have; only one grouping is in memory at a time.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import JobError
from weft.expr.hashing import NAME
from weft.model.instants import BEGINNING_OF_TIME
from weft.operators.keys import KeyIndex
from weft.operators.windows.layout import ShapeName
from weft.operators.windows.program import Axis, Program
from weft.operators.windows.state import Piece
from weft.store.layers import read_file, write_file
from weft.store.manifest import Layer, Manifest, SliceFile
from weft.store.slice_store import SliceStore


def split_again(store: SliceStore, last: Manifest, program: Program) -> Manifest:
    """Return the last step as if it had been made in the program's buckets, by today's hash; not committed.

    Its token is new, so that no worker takes a state that it still holds for one of these.
    """
    token = uuid.uuid4().hex[:12]
    copies = _copies(program, last.buckets)
    held: dict[tuple[int, int], list[tuple[int, SliceFile]]] = {}
    first, until = last.seq, dict[int, int]()
    for bucket, layer in ((b, layer) for b, layers in enumerate(last.layers) for layer in layers):
        first = min(first, layer.first)
        until[layer.version] = max(layer.needed_until, until.get(layer.version, BEGINNING_OF_TIME))
        for file in layer.files:
            held.setdefault((layer.version, file.grouping), []).append((bucket, file))
    files: list[dict[int, list[SliceFile]]] = [{} for _ in range(program.buckets)]
    for (version, grouping), placed in sorted(held.items()):
        shape = store.layout(version).groupings[grouping]
        if shape.name not in copies:
            continue  # no query needs it any more
        if shape.keys:
            whole = _read(store.place, (file for _, file in placed))
            keys = KeyIndex(whole.schema.types[: len(shape.keys)])
            group = keys.encode(whole.columns[: len(shape.keys)])
            pieces = Piece(0, grouping, whole).by_bucket(keys, group, program.buckets)
        else:
            pieces = [
                Piece(bucket, grouping, _read(store.place, (file for b, file in placed if b == old)))
                for bucket, old in copies[shape.name].items()
                if any(b == old for b, _ in placed)
            ]
        for piece in pieces:
            named = (last.seq + 1, piece.bucket, grouping, f"{token}-{version}")
            newest = pc.max(piece.table.column("slice_start")).as_py()
            files[piece.bucket].setdefault(version, []).append(
                write_file(store.place, piece.table, named, newest)
            )
    split = tuple(
        tuple(Layer(first, last.seq, until[v], tuple(parts), v) for v, parts in sorted(versions.items()))
        for versions in files
    )
    return replace(last, token=token, buckets=program.buckets, hash=NAME, layers=split)


def _copies(program: Program, before: int) -> dict[ShapeName, dict[int, int]]:
    """For each grouping, the buckets that have it whole, and the bucket that each takes it over from.

    Of a grouping without keys, every bucket that answers a query of it has a copy of its own, from when the
    first of these queries came. Where several become one, it must be one that has everything.
    """
    olds: dict[ShapeName, dict[int, dict[int, bool]]] = {s.name: {} for s in program.layout.groupings}
    for entry in program.entries:
        if entry.origin.bucket is None or entry.bucket is None:
            continue
        old, complete = entry.origin.bucket % before, entry.origin.since == BEGINNING_OF_TIME
        for number in (entry.grouping, program.groupings[entry.grouping].fed_by):
            if number is not None:
                copies = olds[program.layout.groupings[number].name].setdefault(entry.bucket, {})
                # Queries that count rows in one grouping came together.
                copies[old] = (
                    complete or copies.get(old, False) or program.groupings[number].axis is Axis.ROWS
                )
    return {
        name: {bucket: _one_of(copies, program) for bucket, copies in by_bucket.items()}
        for name, by_bucket in olds.items()
    }


def _one_of(olds: dict[int, bool], program: Program) -> int:
    """The one of several copies that has everything, or the only one."""
    for old, complete in olds.items():
        if complete or len(olds) == 1:
            return old
    raise JobError(
        f"queries without GROUP BY that came while the stream ran have their state in buckets "
        f"{', '.join(map(str, sorted(olds)))}, none of which has all of it, so that they cannot be brought "
        f"together in {program.buckets}; leave buckets= out, or give more"
    )


def _read(place: str, files: Iterable[SliceFile]) -> pa.RecordBatch:
    """Files of one grouping, in order, as one."""
    tables = [pa.Table.from_batches([read_file(place, file)]) for file in files]
    return pa.concat_tables(tables).combine_chunks().to_batches()[0]
