"""Lifetime of partials: until which watermark an open window needs them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from weft.model.instants import BEGINNING_OF_TIME, END_OF_TIME
from weft.operators.contract import Kept
from weft.operators.windows.due import last_ends
from weft.operators.windows.pieces import WindowPiece
from weft.operators.windows.program import Axis, Grouping, WindowProgram


def latest_end(grouping: Grouping, newest: int) -> int:
    """Return a watermark after which no partials are needed whose last slice starts at ``newest``."""
    if grouping.axis is Axis.ROWS:
        return END_OF_TIME
    return newest + (1 if grouping.axis is Axis.WAITING else max(w.range for w in grouping.windows))


def partial_ends(grouping: Grouping, table: pa.RecordBatch) -> np.ndarray:
    """Return the watermark that each partial of a table is needed until."""
    if grouping.axis is Axis.ROWS:
        # Only the state knows how far its groups have counted: it leaves out what is dead when all is merged.
        return np.full(table.num_rows, END_OF_TIME)
    # Many partials, but few slices.
    slices = table.column("slice_start").dictionary_encode()
    starts = slices.dictionary.to_numpy(zero_copy_only=False)
    ends = starts + 1 if grouping.axis is Axis.WAITING else last_ends(grouping.windows, starts)
    return ends[slices.indices.to_numpy(zero_copy_only=False)]


def still_needed(pieces: Iterable[WindowPiece], mark: int | None, program: WindowProgram) -> list[Kept]:
    """Return the tables of pieces without the partials that only windows answered by now needed."""
    tables = []
    for piece in pieces:
        table, ends = piece.table, partial_ends(program.groupings[piece.grouping], piece.table)
        needed = ends > (BEGINNING_OF_TIME if mark is None else mark)
        if not needed.all():
            table, ends = table.filter(pa.array(needed)), ends[needed]
        if table.num_rows:
            tables.append(Kept(piece.part, table, newest_slice(table), int(ends.max())))
    return tables


def newest_slice(table: pa.RecordBatch) -> int:
    """Return the start of the latest slice of partials."""
    return int(np.max(table.column("slice_start").to_numpy(zero_copy_only=False)))
