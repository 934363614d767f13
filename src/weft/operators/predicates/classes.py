"""Predicates taken together: rows fall into classes that no predicate tells apart, found in few passes.

A predicate is cut into conditions. One that only compares an expression (a column, ``price * volume``) with
constants joins all others of that expression, and one search among their constants answers them all; every
other is a test, evaluated once however many predicates have it. A class has a bitmap with a bit for each
predicate: 0 where a condition that the predicate needs is not TRUE. A row's signature is the AND of the
bitmaps of its classes. Conditions under an OR have bits of their own, behind those of the predicates, from
which the predicate follows. What reads but one column with a dictionary is asked of the dictionary's values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numba import njit

from weft.expr.check import Compiler
from weft.expr.evaluate import Evaluator
from weft.expr.kernels.logic import Value
from weft.expr.node import Node
from weft.model.expression import Expr
from weft.operators.predicates.conditions import Formula, comparisons, conjuncts, holds, leaves, subject_of
from weft.operators.predicates.constants import SortedConstants, sort_constants

TESTS_PER_CLASS = 8
"""Tests whose outcomes make one class."""
MIN_CONDITIONS_TO_ENCODE = 4
"""With so many conditions over it, a string column is worth encoding, and its constants are worth sorting."""
MAX_CONDITION_BITS = 8192
"""Bits for conditions under an OR; a predicate that would need more is a test as a whole."""

Uses: TypeAlias = dict[Node, list[int]]
"""The bits that need each condition."""


@dataclass(frozen=True, slots=True)
class Search:
    """All conditions that compare one expression with constants."""

    subject: Node
    constants: SortedConstants
    classes: np.ndarray
    """The class of each place among the constants."""
    bitmaps: np.ndarray
    uses: Uses

    @property
    def reads(self) -> Iterable[tuple[Node, Iterable[int]]]:
        """Return what is evaluated over the rows, and the bits that need it."""
        return [(self.subject, chain.from_iterable(self.uses.values()))]

    def classify(self, rows: Evaluator) -> np.ndarray:
        """The class of each row."""
        return self.constants.find(rows.values(self.subject), self.classes)


@dataclass(frozen=True, slots=True)
class Tests:
    """A few conditions of any kind: the class has a bit for each that is TRUE."""

    bitmaps: np.ndarray
    uses: Uses

    @property
    def reads(self) -> Iterable[tuple[Node, Iterable[int]]]:
        """Return what is evaluated over the rows, and the bits that need it."""
        return self.uses.items()

    def classify(self, rows: Evaluator) -> np.ndarray:
        """The class of each row."""
        classes = np.zeros(rows.batch.num_rows, dtype=np.uint8)
        for place, node in enumerate(self.uses):
            classes |= rows.truth(node).view(np.uint8) << np.uint8(place)
        return classes.astype(np.int32)


ConditionPart: TypeAlias = Search | Tests


@dataclass(frozen=True, slots=True)
class Grouped:
    """Predicates as parts, those that read a single column under its name; ``encoded`` is worth encoding.

    ``needed_by`` has the predicates behind each bit. ``mixed`` are conjuncts whose conditions have the bits
    in ``bits``, with their predicates.
    """

    predicates: int
    parts: dict[str | None, list[ConditionPart]]
    encoded: frozenset[str]
    needed_by: list[list[int]]
    mixed: list[tuple[int, Formula]]
    bits: dict[Node, int]

    def settle(self, bitmaps: np.ndarray) -> np.ndarray:
        """The bitmaps of the predicates alone, those of the mixed conjuncts decided."""
        held = transpose(bitmaps)
        for number, formula in self.mixed:
            held[number] &= holds(formula, lambda node: held[self.bits[node]])
        own = -(-self.predicates // 64)
        held[self.predicates :] = ~np.uint64(0)
        return transpose(held[: 64 * own])[: len(bitmaps)]


@dataclass(frozen=True, slots=True)
class _Same:
    """Predicates that are equal only if they are the same objects: comparing trees would walk them."""

    names: tuple[int, ...]
    predicates: tuple[Expr | None, ...] = field(compare=False)


def group(predicates: Sequence[Expr | None], compiler: Compiler) -> Grouped:
    """The predicates as parts; kept, since the same predicates come back with every batch.

    >>> from weft.expr.check import compiler_for
    >>> from weft.model.expression import Call, Column, Literal
    >>> over = [Call(">", (Column("n"), Literal(limit, "bigint"))) for limit in range(1000)]
    >>> [(part,)] = group(over, compiler_for(pa.schema({"n": pa.int64()}))).parts.values()
    >>> part.bitmaps.shape  # 1001 classes, a bit for each predicate
    (1001, 16)
    """
    return _group(_Same(tuple(map(id, predicates)), tuple(predicates)), compiler)


@lru_cache(maxsize=32)
def _group(same: _Same, compiler: Compiler) -> Grouped:
    needed_by = [[number] for number in range(len(same.predicates))]
    mixed: list[tuple[int, Formula]] = []
    bits: dict[Node, int] = {}
    uses: Uses = {}
    for number, predicate in enumerate(same.predicates):
        if predicate is None:
            continue
        node = compiler.compile(predicate)
        formulas = list(conjuncts(node, compiler))
        fresh = {leaf for c in formulas if not isinstance(c, Node) for leaf in leaves(c)} - bits.keys()
        for conjunct in formulas if len(bits) + len(fresh) <= MAX_CONDITION_BITS else [node]:
            if isinstance(conjunct, Node):
                uses.setdefault(conjunct, []).append(number)
                continue
            mixed.append((number, conjunct))
            for leaf in leaves(conjunct):
                if leaf not in bits:
                    bits[leaf] = len(needed_by)
                    needed_by.append([])
                    uses.setdefault(leaf, []).append(bits[leaf])
                needed_by[bits[leaf]].append(number)
    words = -(-len(needed_by) // 64)
    return Grouped(len(same.predicates), *_parts(uses, words, compiler), needed_by, mixed, bits)


def _parts(
    uses: Uses, words: int, compiler: Compiler
) -> tuple[dict[str | None, list[ConditionPart]], frozenset[str]]:
    """Parts by the column that they read, and the columns that enough conditions read."""
    subjects: dict[Node, Uses] = {}
    tests: dict[str | None, Uses] = {}
    condition_counts = Counter(_column(node) for node in uses)
    for node, numbers in uses.items():
        subject = subject_of(node)
        if subject is None:
            tests.setdefault(_column(node), {})[node] = numbers
        else:
            subjects.setdefault(subject, {})[node] = numbers
    parts: dict[str | None, list[ConditionPart]] = {}
    for subject, own_uses in subjects.items():
        if subject.type == "string" and len(own_uses) < MIN_CONDITIONS_TO_ENCODE:
            tests.setdefault(_column(subject), {}).update(own_uses)
        else:
            parts.setdefault(_column(subject), []).append(_search(subject, own_uses, words, compiler))
    for column, own_uses in tests.items():
        waiting = iter(own_uses.items())
        while own_tests := dict(islice(waiting, TESTS_PER_CLASS)):
            parts.setdefault(column, []).append(_tests(own_tests, words))
    return parts, frozenset(
        c for c, count in condition_counts.items() if c is not None and count >= MIN_CONDITIONS_TO_ENCODE
    )


def _column(node: Node) -> str | None:
    """The column that a node reads, if it is but one."""
    return next(iter(node.columns)) if len(node.columns) == 1 else None


def _search(subject: Node, uses: Uses, words: int, compiler: Compiler) -> Search:
    arrays = [array for node in uses for _, array in comparisons(node) if array is not None]
    constants = sort_constants(subject.arrow, arrays)
    examples = constants.examples
    # The conditions are evaluated as ever, but over one value of each place instead of the rows.
    batch = pa.record_batch({name: pa.nulls(len(examples)) for name in subject.columns})
    rows = Evaluator(batch, compiler=compiler, values={subject: Value(examples)})
    bitmaps, classes = np.unique(_held(uses, rows, words), axis=0, return_inverse=True)
    return Search(subject, constants, classes.ravel().astype(np.int32), bitmaps, uses)


def _held(uses: Uses, rows: Evaluator, words: int) -> np.ndarray:
    """The bitmap of each row."""
    needs: dict[int, list[Node]] = {}
    for node, numbers in uses.items():
        for number in numbers:
            needs.setdefault(number, []).append(node)
    bitmaps = np.full((rows.batch.num_rows, words), ~np.uint64(0))
    for word in sorted({number // 64 for number in needs}):
        held = np.ones((64, len(bitmaps)), dtype=np.bool_)
        for bit in range(64):
            for node in needs.get(64 * word + bit, ()):
                held[bit] &= rows.truth(node)
        bitmaps[:, word] = _pack(held)[:, 0]
    return bitmaps


def _pack(held: np.ndarray) -> np.ndarray:
    """Rows of booleans, a multiple of 64 of them, as columns of bits."""
    packed = np.packbits(held, axis=0, bitorder="little")
    return np.ascontiguousarray(packed.T).view(np.uint64)


def _tests(uses: Uses, words: int) -> Tests:
    bitmaps = np.full((1, words), ~np.uint64(0))
    for numbers in uses.values():
        held = np.ones((64 * words, 1), dtype=np.bool_)
        held[numbers] = False
        bitmaps = np.vstack([bitmaps & _pack(held), bitmaps])
    return Tests(bitmaps, uses)


def transpose(words: np.ndarray) -> np.ndarray:
    """Bit r of word row c, for bit c of word row r; what is missing to a multiple of 64 rows is 0.

    >>> transpose(np.array([[0b110], [0b010]], dtype=np.uint64))[:3, 0].tolist()
    [0, 3, 1]
    """
    turned = np.empty((64 * words.shape[1], -(-len(words) // 64)), dtype=np.uint64)
    _transpose(words, turned)
    return turned


@njit(cache=True, nogil=True)
def _transpose(words, turned):  # type: ignore[no-untyped-def]
    block = np.empty(64, dtype=np.uint64)
    for group in range(turned.shape[1]):
        size = min(64, words.shape[0] - 64 * group)
        for column in range(words.shape[1]):
            block[:] = 0
            for r in range(size):
                block[r] = words[64 * group + r, column]
            # Swap the two squares off the diagonal, then within each quarter, down to single bits.
            side, low = 32, np.uint64(0xFFFFFFFF)
            while side:
                shift = np.uint64(side)
                for r in range(64):
                    if not r & side:
                        swapped = (block[r] >> shift ^ block[r + side]) & low
                        block[r] ^= swapped << shift
                        block[r + side] ^= swapped
                side >>= 1
                low ^= low << np.uint64(side)
            for c in range(64):
                turned[64 * column + c, group] = block[c]
