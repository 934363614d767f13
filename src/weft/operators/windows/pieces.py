"""Pieces of windows: partials of one grouping on their way to one bucket."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from weft.operators.cells import order_by
from weft.operators.contract import Piece
from weft.operators.keys import KeyIndex


class WindowPiece(Piece):
    """Partials of one grouping for one bucket: the contract's piece, whose part is the grouping's number.

    >>> piece = WindowPiece(2, 1, pa.record_batch({"slice_start": [0]}))
    >>> piece.part, piece.grouping, WindowPiece.of(Piece(2, "1", piece.table)) == piece
    ('1', 1, True)
    """

    __slots__ = ()

    def __init__(self, bucket: int, grouping: int, table: pa.RecordBatch) -> None:
        super().__init__(bucket, str(grouping), table)

    @classmethod
    def of(cls, piece: Piece) -> WindowPiece:
        """Return a piece as one of windows."""
        return piece if isinstance(piece, cls) else cls(piece.bucket, int(piece.part), piece.content)

    @property
    def grouping(self) -> int:
        """Return the number of the grouping."""
        return int(self.part)

    @property
    def table(self) -> pa.RecordBatch:
        """The partials."""
        return self.content

    def by_bucket(self, keys: KeyIndex, group: np.ndarray, buckets: int) -> list[WindowPiece]:
        """A piece for each of so many buckets that has a partial; ``group`` are their groups in ``keys``."""
        bucket = keys.buckets(group, buckets)
        order = order_by((bucket, buckets))
        bounds = np.cumsum([0, *np.bincount(bucket, minlength=buckets)])
        whole = self.table.take(pa.array(order))
        return [
            WindowPiece(b, self.grouping, whole.slice(low, high - low))
            for b, (low, high) in enumerate(pairwise(bounds))
            if high > low
        ]
