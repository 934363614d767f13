"""Signatures: which predicates each row satisfies, as a small number per row and a bitmap per number.

Krishnamurthy, Wu, Franklin, SIGMOD 2006, section 4: only signatures that occur are ever created.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.engine.cells import factorize
from weft.expr import Evaluator
from weft.query import Expr

NOTHING = np.zeros(0, dtype=np.int32)
CHUNK = 16


def signatures(
    predicates: Sequence[Expr | None], evaluator: Evaluator, rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Each row's signature number, and one row of booleans per signature, one column per predicate.

    The numbers are an empty array where every row has signature 0.
    """
    if list(predicates) == [None]:
        return NOTHING, np.ones((1, 1), dtype=np.bool_)
    numbers = np.zeros(rows, dtype=np.int64)
    bitmaps = np.zeros((1, 0), dtype=np.bool_)
    for first in range(0, len(predicates), CHUNK):
        chunk = predicates[first : first + CHUNK]
        bits = np.zeros(rows, dtype=np.int64)
        for place, predicate in enumerate(chunk):
            if predicate is None:
                bits |= 1 << place
            else:
                bits |= evaluator.mask(predicate).astype(np.int64) << place
        numbers, distinct = factorize((numbers << CHUNK) | bits)
        numbers = numbers.astype(np.int64)
        fresh = (distinct[:, None] >> np.arange(len(chunk))) & 1
        bitmaps = np.hstack([bitmaps[distinct >> CHUNK], fresh.astype(np.bool_)])
    return numbers.astype(np.int32), bitmaps


def pack(bitmaps: np.ndarray) -> list[bytes]:
    """Bitmaps as bytes, the lowest predicate in the lowest bit of the first byte.

    >>> pack(np.array([[True, False, True]]))
    [b'\\x05']
    """
    return [row.tobytes() for row in np.packbits(bitmaps, axis=1, bitorder="little")]


def unpack(packed: Sequence[bytes], predicates: int) -> np.ndarray:
    """The bitmaps behind ``pack``."""
    if not packed:
        return np.zeros((0, predicates), dtype=np.bool_)
    rows = np.frombuffer(b"".join(packed), dtype=np.uint8).reshape(len(packed), -1)
    return np.unpackbits(rows, axis=1, count=predicates, bitorder="little").astype(np.bool_)
