"""Predicates taken together: rows fall into classes that no predicate tells apart, found in few passes.

A predicate is cut at its ANDs. A conjunct that only compares one expression (a column, ``price * volume``)
with constants joins all others of that expression, and one search among their constants answers them all;
every other conjunct is a test, evaluated once however many predicates have it. A class has a bitmap with a
bit for each predicate: 0 where a conjunct is not TRUE. A row's signature is the AND of the bitmaps of its
classes. What reads but one column with a dictionary can be asked of the dictionary's values alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from weft.engine.constants import Constants, sort_constants
from weft.expr import Evaluator
from weft.expr.check import Compiler
from weft.expr.kernels.logic import Value
from weft.expr.node import Node
from weft.query import Expr

COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">=", "<=>"))
SEARCHED = frozenset(("bigint", "double", "timestamp", "date", "string"))
TOGETHER = 8
"""Tests whose outcomes make one class."""
ENCODED = 4
"""With so many conjuncts over it, a string column is worth encoding, and its constants are worth sorting."""

Uses: TypeAlias = dict[Node, list[int]]
"""The predicates that use each node."""


@dataclass(frozen=True, slots=True)
class Search:
    """All conjuncts that compare one expression with constants."""

    subject: Node
    constants: Constants
    classes: np.ndarray
    """The class of each place among the constants."""
    bitmaps: np.ndarray
    uses: Uses

    @property
    def reads(self) -> Iterable[tuple[Node, Iterable[int]]]:
        """What is evaluated over the rows, and the predicates that use it."""
        return [(self.subject, chain.from_iterable(self.uses.values()))]

    def classify(self, rows: Evaluator) -> np.ndarray:
        """The class of each row."""
        return self.constants.find(rows.values(self.subject), self.classes)


@dataclass(frozen=True, slots=True)
class Tests:
    """A few conjuncts of any kind: the class has a bit for each that is TRUE."""

    bitmaps: np.ndarray
    uses: Uses

    @property
    def reads(self) -> Iterable[tuple[Node, Iterable[int]]]:
        """What is evaluated over the rows, and the predicates that use it."""
        return self.uses.items()

    def classify(self, rows: Evaluator) -> np.ndarray:
        """The class of each row."""
        classes = np.zeros(rows.batch.num_rows, dtype=np.uint8)
        for place, node in enumerate(self.uses):
            classes |= rows.truth(node).view(np.uint8) << np.uint8(place)
        return classes.astype(np.int32)


Part: TypeAlias = Search | Tests


@dataclass(frozen=True, slots=True)
class Grouped:
    """Predicates as parts, those that read a single column under its name; ``encoded`` is worth encoding."""

    words: int
    parts: dict[str | None, list[Part]]
    encoded: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Same:
    """Predicates that are equal only if they are the same objects: comparing trees would walk them."""

    names: tuple[int, ...]
    predicates: tuple[Expr | None, ...] = field(compare=False)


def group(predicates: Sequence[Expr | None], compiler: Compiler) -> Grouped:
    """The predicates as parts; kept, since the same predicates come back with every batch.

    >>> from weft.expr.check import compiler_for
    >>> from weft.query import Call, Column, Literal
    >>> over = [Call(">", (Column("n"), Literal(limit, "bigint"))) for limit in range(1000)]
    >>> [(part,)] = group(over, compiler_for(pa.schema({"n": pa.int64()}))).parts.values()
    >>> part.bitmaps.shape  # 1001 classes, a bit for each predicate
    (1001, 16)
    """
    return _group(_Same(tuple(map(id, predicates)), tuple(predicates)), compiler)


@lru_cache(maxsize=32)
def _group(same: _Same, compiler: Compiler) -> Grouped:
    searched: dict[Node, Uses] = {}
    tests: dict[str | None, Uses] = {}
    for number, predicate in enumerate(same.predicates):
        node = None if predicate is None else compiler.compile(predicate)
        for conjunct in () if node is None else node.args if node.function == "and" else (node,):
            subject = _subject(conjunct)
            uses = (
                tests.setdefault(_column(conjunct), {})
                if subject is None
                else searched.setdefault(subject, {})
            )
            uses.setdefault(conjunct, []).append(number)
    for subject in [s for s, uses in searched.items() if s.type == "string" and len(uses) < ENCODED]:
        tests.setdefault(_column(subject), {}).update(searched.pop(subject))
    words = -(-len(same.predicates) // 64)
    parts: dict[str | None, list[Part]] = {}
    for subject, uses in searched.items():
        parts.setdefault(_column(subject), []).append(_search(subject, uses, words, compiler))
    for column, uses in tests.items():
        waiting = iter(uses.items())
        while few := dict(islice(waiting, TOGETHER)):
            parts.setdefault(column, []).append(_tests(few, words))
    return Grouped(words, parts, frozenset(_often_read(searched, tests)))


def _often_read(searched: dict[Node, Uses], tests: dict[str | None, Uses]) -> Iterator[str]:
    """Columns that enough conjuncts read."""
    count = {column: len(uses) for column, uses in tests.items()}
    for subject, uses in searched.items():
        count[_column(subject)] = count.get(_column(subject), 0) + len(uses)
    return (column for column, often in count.items() if column is not None and often >= ENCODED)


def _column(node: Node) -> str | None:
    """The column that a node reads, if it is but one."""
    return next(iter(node.columns)) if len(node.columns) == 1 else None


def _subject(conjunct: Node) -> Node | None:
    """The one expression that a conjunct compares with constants, if it does nothing else."""
    subjects = {subject for subject, _ in _comparisons(conjunct)}
    subject = subjects.pop() if len(subjects) == 1 else None
    return subject if subject is not None and subject.type in SEARCHED and subject.columns else None


def _comparisons(conjunct: Node) -> Iterator[tuple[Node, pa.Array | None]]:
    """What is compared with which constants; what is no comparison with constants, with None."""
    waiting = [conjunct]
    while waiting:
        node = waiting.pop()
        if node.function in ("and", "or", "not"):
            waiting += node.args
        elif node.function in COMPARISONS and any(a.is_literal for a in node.args):
            literal, subject = sorted(node.args, key=lambda a: not a.is_literal)
            yield subject, pa.repeat(literal.param, 1)
        elif node.function == "in":
            yield node.args[0], node.param.array
        elif node.function == "isnan":
            yield node.args[0], pa.array([float("nan")])
        elif node.function == "is_null":
            yield node.args[0], None
        elif not node.is_literal:
            yield node, None


def _search(subject: Node, uses: Uses, words: int, compiler: Compiler) -> Search:
    found = [array for node in uses for _, array in _comparisons(node) if array is not None]
    constants = sort_constants(subject.arrow, found)
    examples = constants.examples
    # The conjuncts are evaluated as ever, but over one value of each place instead of the rows.
    batch = pa.record_batch({name: pa.nulls(len(examples)) for name in subject.columns})
    rows = Evaluator(batch, compiler=compiler, known={subject: Value(examples)})
    bitmaps, classes = np.unique(_held(uses, rows, words), axis=0, return_inverse=True)
    return Search(subject, constants, classes.ravel().astype(np.int32), bitmaps, uses)


def _held(uses: Uses, rows: Evaluator, words: int) -> np.ndarray:
    """Which predicates each row leaves open, a bit for each."""
    conjuncts: dict[int, list[Node]] = {}
    for node, numbers in uses.items():
        for number in numbers:
            conjuncts.setdefault(number, []).append(node)
    bitmaps = np.full((rows.batch.num_rows, words), ~np.uint64(0))
    for word in sorted({number // 64 for number in conjuncts}):
        held = np.ones((64, len(bitmaps)), dtype=np.bool_)
        for bit in range(64):
            for node in conjuncts.get(64 * word + bit, ()):
                held[bit] &= rows.truth(node)
        packed = np.packbits(held, axis=0, bitorder="little")
        bitmaps[:, word] = np.ascontiguousarray(packed.T).view(np.uint64)[:, 0]
    return bitmaps


def _tests(uses: Uses, words: int) -> Tests:
    bitmaps = np.full((1, words), ~np.uint64(0))
    for numbers in uses.values():
        bits = np.ones(64 * words, dtype=np.bool_)
        bits[numbers] = False
        bitmaps = np.vstack([bitmaps & np.packbits(bits, bitorder="little").view(np.uint64), bitmaps])
    return Tests(bitmaps, uses)
