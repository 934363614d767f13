"""The queries that are answered from one view, as columns: which are due is a comparison for all at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from weft.model.instants import BEGINNING_OF_TIME

if TYPE_CHECKING:
    from weft.operators.windows.program import CompiledQuery


class Roster:
    """The entries of one tree and grouping, a row each: number, window, predicate, bucket, since when exact.

    ``shape`` is the same for queries that differ in nothing but window and predicate. ``since`` is given
    where the order of states matters, and is then the same for all.
    """

    def __init__(
        self, tree: int, grouping: int, since: int | None, entries: Iterable[tuple[int, CompiledQuery]]
    ) -> None:
        self.tree, self.grouping, self.since = tree, grouping, since
        shapes: dict[object, int] = {}
        numbers, rows = [], []
        for number, entry in entries:
            window, shape = entry.query.window, (entry.answers, entry.query.result_keys)
            bucket = -1 if entry.bucket is None else entry.bucket
            numbers.append(number)
            rows.append(
                (
                    window.range,
                    window.slide,
                    window.offset,
                    entry.predicate,
                    bucket,
                    entry.origin.since,
                    shapes.setdefault(shape, len(shapes)),
                )
            )
        self.numbers = numbers
        table = np.array(rows, dtype=np.int64).T
        self.range, self.slide, self.offset, self.predicate, self._bucket, self._since, self.shape = table

    def of(self, bucket: int) -> np.ndarray:
        """Return the queries that a bucket answers."""
        return np.flatnonzero((self._bucket < 0) | (self._bucket == bucket))

    def due(self, bucket: int, answered: int | None, watermark: int) -> np.ndarray:
        """Of these, those with a window that ends after ``answered`` and not after ``watermark``."""
        own = self.of(bucket)
        if answered is None:
            return own
        slide = self.slide[own]
        last = watermark - (watermark - self.offset[own] - self.range[own]) % slide
        return own[last > answered]

    def after(self, places: np.ndarray, answered: int | None) -> np.ndarray:
        """The instant after which windows are to end: those not answered yet, for which a query is exact."""
        since = self._since[places]
        exact = np.where(since == BEGINNING_OF_TIME, BEGINNING_OF_TIME, since + self.range[places] - 1)
        return exact if answered is None else np.maximum(exact, answered)
