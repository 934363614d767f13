"""Cells: numbering (slice, signature, group) triples, and ordering runs of them, all compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from weft.aggregates.cached import read_only


class NumberedCells(NamedTuple):
    """The cell of each row (-1: none), and slice, signature, group and row count of every cell."""

    cells: np.ndarray
    slices: np.ndarray
    signatures: np.ndarray
    groups: np.ndarray
    rows: np.ndarray


@njit(cache=True, nogil=True)
def _factorize(codes, table, numbers, firsts):  # type: ignore[no-untyped-def]
    """Open addressing: numbers[i] := number of codes[i] in order of appearance; returns how many."""
    mask = table.size - 1
    count = 0
    for i in range(codes.size):
        code = codes[i]
        if code < 0:
            numbers[i] = -1
            continue
        slot = (code * np.int64(-7046029254386353131)) >> 20 & mask
        while True:
            at = table[slot]
            if at < 0:
                table[slot] = count
                firsts[count] = code
                numbers[i] = count
                count += 1
                break
            if firsts[at] == code:
                numbers[i] = at
                break
            slot = (slot + 1) & mask
    return count


def factorize(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the codes in order of appearance (-1 stays -1), and the distinct codes.

    >>> numbers, distinct = factorize(np.array([7, -1, 3, 7]))
    >>> numbers.tolist(), distinct.tolist()
    ([0, -1, 1, 0], [7, 3])
    """
    size = 1 << max(4, int(2 * codes.size - 1).bit_length())
    table = np.full(size, -1, dtype=np.int32)
    numbers, firsts = np.empty(codes.size, dtype=np.int32), np.empty(codes.size, dtype=np.int64)
    count = _factorize(codes, table, numbers, firsts)
    return numbers, firsts[:count].copy()


def appearing(codes: np.ndarray, size: int) -> np.ndarray:
    """The distinct codes in order of appearance, all of them from 0 to below ``size``.

    >>> appearing(np.array([7, 3, 7, 4]), 8).tolist()
    [7, 3, 4]
    """
    order = np.empty(min(size, codes.size), dtype=np.int64)
    return order[: _appearing(read_only(codes), np.zeros(size, dtype=np.bool_), order)].copy()


@njit(cache=True, nogil=True)
def _appearing(codes, seen, order):  # type: ignore[no-untyped-def]
    count = 0
    for i in range(codes.size):
        code = codes[i]
        if not seen[code]:
            seen[code] = True
            order[count] = code
            count += 1
    return count


@njit(cache=True, nogil=True)
def _dense(slices, signatures, groups, signature_count, group_count, out):  # type: ignore[no-untyped-def]
    for i in range(slices.size):
        s = slices[i]
        if s < 0:
            out[i] = -1
        elif signatures.size:
            out[i] = (s * signature_count + signatures[i]) * group_count + groups[i]
        else:
            out[i] = s * group_count + groups[i]


def number_cells(
    slices: np.ndarray,
    signatures: np.ndarray,
    groups: np.ndarray,
    counts: tuple[int, int, int],
) -> NumberedCells:
    """Number the cells of slice, signature and group that occur.

    ``signatures`` may be empty where there is but one. Direct addressing where the triples are not many
    more than the rows, hashing otherwise; cells come ordered by (slice, signature, group) in the first case.
    """
    slice_count, signature_count, group_count = counts
    many = slice_count * signature_count * group_count
    dense = many <= max(2 * slices.size, 1 << 16)
    codes = np.empty(slices.size, dtype=np.int32 if dense else np.int64)
    _dense(slices, signatures, groups, signature_count, group_count, codes)
    if dense:
        rows = np.zeros(many, dtype=np.int64)
        count_rows(codes, rows)
        cells, distinct = codes, np.flatnonzero(rows)
        if len(distinct) < many:
            place = np.full(many, -1, dtype=np.int32)
            place[distinct] = np.arange(len(distinct), dtype=np.int32)
            _replace(cells, place)
            rows = rows[distinct]
    else:
        cells, distinct = factorize(codes)
        rows = np.zeros(len(distinct), dtype=np.int64)
        count_rows(cells, rows)
    rest, group = np.divmod(distinct, group_count)
    at, signature = np.divmod(rest, signature_count)
    return NumberedCells(cells, at, signature, group, rows)


def one_each(slices: np.ndarray, signatures: np.ndarray, groups: np.ndarray) -> NumberedCells:
    """Number cells as ``number_cells``, but one for every row that has a slice, in the order of the rows.

    >>> one_each(np.array([4, -1, 4]), np.zeros(0, int), np.array([7, 8, 9]))[0].tolist()
    [0, -1, 1]
    """
    rows = np.flatnonzero(slices >= 0)
    cells = np.full(len(slices), -1, dtype=np.int32)
    cells[rows] = np.arange(len(rows), dtype=np.int32)
    signature = signatures[rows] if signatures.size else np.zeros(len(rows), dtype=np.int32)
    return NumberedCells(cells, slices[rows], signature, groups[rows], np.ones(len(rows), dtype=np.int64))


@njit(cache=True, nogil=True)
def count_rows(cells, rows):  # type: ignore[no-untyped-def]
    """rows[c] += how many of the cells are c."""
    for i in range(cells.size):
        if cells[i] >= 0:
            rows[cells[i]] += 1


@njit(cache=True, nogil=True)
def _replace(cells, place):  # type: ignore[no-untyped-def]
    for i in range(cells.size):
        if cells[i] >= 0:
            cells[i] = place[cells[i]]


def compact(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers that occur, in order, and the place of each among them.

    >>> [array.tolist() for array in compact(np.array([7, 3, 7]))]
    [[3, 7], [1, 0, 1]]
    """
    seen = np.zeros(int(numbers.max(initial=-1)) + 1, dtype=np.bool_)
    seen[numbers] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[numbers]


@njit(cache=True, nogil=True)
def _counting_pass(keys, starts, order, out):  # type: ignore[no-untyped-def]
    for i in range(keys.size):
        starts[keys[i] + 1] += 1
    for k in range(1, starts.size):
        starts[k] += starts[k - 1]
    for i in range(order.size):
        j = order[i]
        out[starts[keys[j]]] = j
        starts[keys[j]] += 1


def order_by(*keys: tuple[np.ndarray, int]) -> np.ndarray:
    """The stable order by several small-integer keys, most important first, by counting, in linear time.

    >>> order_by((np.array([1, 0, 1, 0]), 2), (np.array([1, 1, 0, 0]), 2)).tolist()
    [3, 1, 2, 0]
    """
    order = np.arange(len(keys[0][0]), dtype=np.int64)
    for values, count in reversed(keys):
        if count > 1:
            out = np.empty_like(order)
            _counting_pass(values, np.zeros(count + 1, dtype=np.int64), order, out)
            order = out
    return order


@njit(cache=True, nogil=True)
def run_targets(order, group, at, signature, target):  # type: ignore[no-untyped-def]
    """target[k] := the run of order[k], a run being equal (group, at, signature); returns how many."""
    runs = -1
    for k in range(order.size):
        j = order[k]
        if k == 0:
            runs = 0
        else:
            i = order[k - 1]
            if group[i] != group[j] or at[i] != at[j] or (signature.size and signature[i] != signature[j]):
                runs += 1
        target[k] = runs
    return runs + 1
