"""Carrying state over from one version of a stream's queries to another, by name.

Signatures get the bits of the new numbers (new predicates 0), parts that are still needed are kept, new ones
begin as identity, and what no query needs is dropped. What begins as identity is never read: the windows of
a query that came later are answered from ``Origin.since`` on (see ``history``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from weft.errors import AggregateError
from weft.operators.blame import Where
from weft.operators.predicates.signature import pack, unpack
from weft.operators.windows.layout import WindowLayout
from weft.operators.windows.pieces import WindowPiece
from weft.operators.windows.program import Axis, WindowProgram
from weft.operators.windows.state import BucketCells, Cells, CountWindowCells, GroupingState
from weft.slicing import Progression, align


class WindowCarryOver:
    """Carry-over of state from an old layout to a program."""

    def __init__(self, old: WindowLayout, program: WindowProgram) -> None:
        self.old, self.program = old, program
        bits = {text: bit for bit, text in enumerate(old.predicates)}
        self._bits = np.array([bits.get(text, -1) for text in program.layout.predicates], dtype=np.int64)
        numbers = {shape.name: number for number, shape in enumerate(program.layout.groupings)}
        self.numbers = [numbers.get(shape.name) for shape in old.groupings]
        """The new number of each old grouping, None where it is gone."""

    def piece(self, piece: WindowPiece) -> WindowPiece | None:
        """Partials of the old layout as partials of the new."""
        number = self.numbers[piece.grouping]
        if number is None:
            return None
        grouping, table = self.program.groupings[number], piece.table
        width = len(grouping.keys)
        encoded = table.column(width + 2)
        if not pa.types.is_dictionary(encoded.type):
            encoded = encoded.dictionary_encode()
        bitmaps = self._bitmaps(encoded.dictionary.to_pylist())
        signature = pa.DictionaryArray.from_arrays(encoded.indices, pa.array(pack(bitmaps), pa.binary()))
        starts, ends = table.columns[width : width + 2]
        if grouping.axis is Axis.ROWS:
            starts, ends = map(pa.array, _recut(grouping.progressions, starts.to_numpy()))
        columns = [*zip((f"key.{k}" for k in grouping.keys), table.columns[:width])]
        columns += [("slice_start", starts), ("slice_end", ends), ("signature", signature)]
        old_columns = self.old.groupings[piece.grouping].columns
        for part, (name, _) in zip(grouping.parts, self.program.layout.groupings[number].parts):
            if name in old_columns:
                columns += zip(part.column_names, (table.column(c) for c in old_columns[name]))
            else:
                columns += part.columns(part.neutral(table.num_rows))
        carried = pa.RecordBatch.from_arrays([a for _, a in columns], names=[n for n, _ in columns])
        needed = np.any(bitmaps[:, grouping.predicates], axis=1)
        if not needed.all():
            carried = carried.filter(pa.array(needed[encoded.indices.to_numpy(zero_copy_only=False)]))
        return WindowPiece(piece.bucket, number, carried)

    def state(self, old: BucketCells) -> BucketCells:
        """A state of the old layout as one of the new; the old one must not be used any more."""
        new = BucketCells(self.program, old.bucket)
        new.answered = old.answered
        for number, held in enumerate(old.groupings):
            to = self.numbers[number]
            if to is None or not held.rows:
                continue
            if isinstance(held, GroupingState) and not isinstance(held, CountWindowCells):
                new.groupings[to] = self._cells(held, number, to)
            else:
                piece = self.piece(WindowPiece(old.bucket, number, held.table()))
                assert piece is not None
                new.absorb(piece)
            if isinstance(held, GroupingState):
                new.inherit(self._failed(held, number, to))
        return new

    def _failed(self, held: GroupingState, number: int, to: int) -> dict[Where, AggregateError]:
        """Return what has failed on the old states, where it is still needed."""
        places = {name: at for at, (name, _) in enumerate(self.program.layout.groupings[to].parts)}
        named = [(self.old.groupings[number].parts[at][0], bit, e) for (at, bit), e in held.failed.items()]
        return {
            (to, places[name], predicate): error
            for name, bit, error in named
            if name in places
            for predicate in np.flatnonzero(self._bits == bit).tolist()
        }

    def _cells(self, held: GroupingState, number: int, to: int) -> GroupingState:
        """As ``piece``, but only signatures and parts that changed are touched."""
        grouping = self.program.groupings[to]
        new = GroupingState(grouping, len(self._bits))
        new.keys, new.starts, new.ends = held.keys, held.starts, held.ends
        bitmaps = self._bitmaps(list(held.packed))
        numbers = [new.packed.setdefault(bits, len(new.packed)) for bits in pack(bitmaps)]
        signatures = np.array(numbers, dtype=np.int64)
        needed = np.any(bitmaps[:, grouping.predicates], axis=1)
        places = {name: at for at, (name, _) in enumerate(self.old.groupings[number].parts)}
        old_places = [places.get(name) for name, _ in self.program.layout.groupings[to].parts]
        runs = []
        for cells in (held.cells, *held.pending):
            parts = [
                part.neutral(len(cells)) if at is None else cells.parts[at]
                for part, at in zip(grouping.parts, old_places)
            ]
            carried = Cells(cells.group, cells.slice, signatures[cells.signature], parts)
            runs.append(carried if needed.all() else carried.take(np.flatnonzero(needed[cells.signature])))
        if len(new.packed) == len(held.packed):
            new.cells, new.pending = runs[0], runs[1:]
        else:
            # Cells that differed only in what is gone are one now; they are put in order when next needed.
            new.pending = [cells for cells in runs if len(cells)]
        return new

    def _bitmaps(self, packed: Sequence[bytes]) -> np.ndarray:
        """Old signatures as one row of booleans each, one column per new predicate."""
        before = unpack(packed, len(self.old.predicates))
        no_predicate = np.zeros((len(before), 1), dtype=np.bool_)
        return np.hstack([before, no_predicate])[:, self._bits]


class LatestCarryOver:
    """The carry-over to a program, kept from one table to the next of the same layout.

    A stage is asked table by table, and a layout of thousands of queries takes time to read.
    """

    def __init__(self, program: WindowProgram) -> None:
        self.program = program
        self._latest: tuple[Mapping[str, Any], WindowCarryOver] | None = None

    def of(self, layout: Mapping[str, Any]) -> WindowCarryOver:
        """Return the carry-over from a layout, given as plain data."""
        latest = self._latest
        if latest is None or latest[0] is not layout:
            latest = self._latest = layout, WindowCarryOver(WindowLayout.from_dict(layout), self.program)
        return latest[1]


def _recut(progressions: Sequence[Progression], starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The slices that these now are in: rows are never cut anew at other edges, only at fewer."""
    ends = [starts + 1 + (p.residue - starts - 1) % p.period for p in progressions]
    return align(progressions, starts), np.min(ends, axis=0)
