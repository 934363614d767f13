"""Signatures: which predicates each row satisfies, as a small number per row and a bitmap per number.

Krishnamurthy, Wu, Franklin, SIGMOD 2006, section 4: only signatures that occur are ever created.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np
from numba import njit

from weft.expr.arrays import take
from weft.expr.evaluate import Evaluator
from weft.expr.kernels.logic import Bad, merge_bad
from weft.model.expression import Expr
from weft.operators.cells import factorize
from weft.operators.predicates.classes import ConditionPart, group

ONE_SIGNATURE = np.zeros(0, dtype=np.int32)
"""The numbers of rows that all have signature 0."""

Classes: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Each row's class, and the bitmap of each class: a bit for each predicate, 64 to a word."""


def signatures(
    predicates: Sequence[Expr | None], evaluator: Evaluator, rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Each row's signature number, and one row of booleans per signature, one column per predicate.

    The numbers are an empty array where every row has signature 0.

    >>> import pyarrow as pa
    >>> from weft.model.expression import Call, Column, Literal
    >>> over = [Call(">", (Column("n"), Literal(limit, "bigint"))) for limit in (1, 3)]
    >>> numbers, bitmaps = signatures(over, Evaluator(pa.record_batch({"n": [5, 2, 4]})), 3)
    >>> bitmaps[numbers].tolist()
    [[True, True], [True, False], [True, True]]
    """
    grouped = group(predicates, evaluator.compiler)
    if not grouped.parts:
        return ONE_SIGNATURE, np.ones((1, len(predicates)), dtype=np.bool_)
    failed: set[int] = set()
    bad: Bad = {}
    classes: list[Classes] = []
    for column, parts in grouped.parts.items():
        inner = None if column is None else evaluator.dictionary(column, column in grouped.encoded)
        rows_or_values, places = (evaluator, None) if inner is None else inner
        own_classes = [(part.classify(rows_or_values), part.bitmaps) for part in parts]
        for part in parts:
            _note_failures(part, rows_or_values, places, failed, bad)
        if places is None:
            classes += own_classes
        else:
            numbers, bitmaps = _meet_all(own_classes)
            classes.append((numbers[places], bitmaps))
    if failed:
        numbered = sorted({number for bit in failed for number in grouped.needed_by[bit]})
        evaluator.count_bad([e for e in map(predicates.__getitem__, numbered) if e is not None], bad)
    numbers, words = _meet_all(classes)
    if grouped.mixed:
        numbers, words = _meet_all([(numbers, grouped.settle(words))])
    bits = np.unpackbits(words.view(np.uint8), axis=1, count=len(predicates), bitorder="little")
    return ONE_SIGNATURE if len(bits) == 1 else numbers, bits.view(np.bool_)


def _note_failures(
    part: ConditionPart, rows: Evaluator, places: np.ndarray | None, failed: set[int], bad: Bad
) -> None:
    """Note which bits may have bad values to count, and in which rows.

    A bad value is NULL, so the classes are right. But it counts only in a row where its predicate needs it.
    """
    for node, numbers in part.reads:
        failures = rows.value(node).bad
        if failures:
            failed.update(numbers)
            merge_bad(
                bad, failures if places is None else {n: take(mask, places) for n, mask in failures.items()}
            )


def _meet_all(parts: list[Classes]) -> Classes:
    """The classes of rows that have equal bitmaps in the end; only those that occur."""
    if len(parts) == 1:
        ((numbers, bitmaps),) = parts
        parts = [(np.zeros_like(numbers), np.full_like(bitmaps[:1], ~np.uint64(0))), *parts]
    return reduce(_meet, sorted(parts, key=lambda classes: len(classes[1])))


def _meet(left: Classes, right: Classes) -> Classes:
    """Classes of both at once, those with equal bitmaps as one."""
    (numbers, bitmaps), (others, more) = left, right
    many = len(bitmaps) * len(more)
    dense = many <= max(2 * numbers.size, 1 << 16)
    codes = np.empty(numbers.size, dtype=np.int32 if dense else np.int64)
    seen = np.zeros(many if dense else 0, dtype=np.bool_)
    _pair(numbers, others, len(more), codes, seen)
    if dense:
        distinct = np.flatnonzero(seen)
    else:
        codes, distinct = factorize(codes)
    words = np.empty((len(distinct), bitmaps.shape[1]), dtype=np.uint64)
    same = np.empty(len(distinct), dtype=np.int32)
    table = np.full(1 << max(4, int(2 * len(distinct) - 1).bit_length()), -1, dtype=np.int32)
    count = _intersect(bitmaps, more, *np.divmod(distinct, len(more)), table, words, same)
    if dense:
        named = np.empty(many, dtype=np.int32)
        named[distinct] = same
    else:
        named = same
    _rename(codes, named)
    return codes, words[:count]


@njit(cache=True, nogil=True)
def _pair(numbers, others, count, codes, seen):  # type: ignore[no-untyped-def]
    for i in range(numbers.size):
        code = np.int64(numbers[i]) * count + others[i]
        codes[i] = code
        if seen.size:
            seen[code] = True


@njit(cache=True, nogil=True)
def _rename(codes, named):  # type: ignore[no-untyped-def]
    for i in range(codes.size):
        codes[i] = named[codes[i]]


@njit(cache=True, nogil=True)
def _intersect(left, right, first, second, table, words, same):  # type: ignore[no-untyped-def]
    """words := the distinct ones of left[first] & right[second], same := which; returns how many."""
    mask = np.uint64(table.size - 1)
    count = 0
    for i in range(first.size):
        code = np.uint64(0)
        for w in range(words.shape[1]):
            word = left[first[i], w] & right[second[i], w]
            words[count, w] = word
            code = (code ^ word) * np.uint64(0x9E3779B97F4A7C15)
            code ^= code >> np.uint64(32)
        slot = code & mask
        while True:
            at = table[slot]
            if at < 0:
                table[slot] = count
                at = count
                count += 1
                break
            equal = True
            for w in range(words.shape[1]):
                if words[at, w] != words[count, w]:
                    equal = False
                    break
            if equal:
                break
            slot = (slot + np.uint64(1)) & mask
        same[i] = at
    return count


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
