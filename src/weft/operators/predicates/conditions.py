"""A predicate cut into conditions that can be answered apart, and put together again.

NOT is moved inwards until only AND and OR join the conditions. The whole is then TRUE exactly where AND and
OR of "is TRUE" are, so a condition that is FALSE and one that is NULL need not be distinguished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from weft.expr.check import Compiler
from weft.expr.node import Node

COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">=", "<=>"))
SEARCHABLE_TYPES = frozenset(("bigint", "double", "timestamp", "date", "string"))

Formula: TypeAlias = "Node | tuple[np.ufunc, list[Formula]]"
"""A condition, or several under AND or OR."""


def conjuncts(predicate: Node, compiler: Compiler) -> Iterator[Formula]:
    """Return the formulas that must all be TRUE.

    >>> from weft.expr.check import compiler_for
    >>> from weft.model.expression import Call, Column
    >>> a, b, c = (Column(name) for name in "abc")
    >>> compiler = compiler_for(pa.schema({"a": pa.bool_(), "b": pa.bool_(), "c": pa.bool_()}))
    >>> neither = compiler.compile(Call("not", (Call("or", (a, Call("and", (b, c)))),)))
    >>> first, (join, parts) = conjuncts(neither, compiler)
    >>> first.function, join.__name__, [part.function for part in parts]
    ('not', 'bitwise_or', ['not', 'not'])
    """
    yield from _flat(_cut(predicate, False, True, compiler))


def _flat(formula: Formula) -> Iterator[Formula]:
    if isinstance(formula, tuple) and formula[0] is np.bitwise_and:
        for part in formula[1]:
            yield from _flat(part)
    else:
        yield formula


def _cut(node: Node, negated: bool, outermost: bool, compiler: Compiler) -> Formula:
    if node.function == "not":
        return _cut(node.args[0], not negated, outermost, compiler)
    if node.function in ("and", "or"):
        conjunction = (node.function == "and") != negated
        outermost = outermost and conjunction
        # Conditions on one column are left together: they have few answers.
        if outermost or (subject_of(node) is None and len(node.columns) > 1):
            parts = [_cut(a, negated, outermost, compiler) for a in node.args]
            return np.bitwise_and if conjunction else np.bitwise_or, parts
    return compiler.make(node.source, "not", [node], "boolean") if negated else node


def leaves(formula: Formula) -> Iterator[Node]:
    """The conditions of a formula."""
    if isinstance(formula, Node):
        yield formula
    else:
        for part in formula[1]:
            yield from leaves(part)


def holds(formula: Formula, truth: Callable[[Node], np.ndarray]) -> np.ndarray:
    """Return where a formula is TRUE, from where its conditions are, both in bits."""
    if isinstance(formula, Node):
        return truth(formula)
    join, parts = formula
    return reduce(join, (holds(part, truth) for part in parts))


def subject_of(condition: Node) -> Node | None:
    """The one expression that a condition compares with constants, if it does nothing else."""
    subjects = {subject for subject, _ in comparisons(condition)}
    subject = subjects.pop() if len(subjects) == 1 else None
    return subject if subject is not None and subject.type in SEARCHABLE_TYPES and subject.columns else None


def comparisons(condition: Node) -> Iterator[tuple[Node, pa.Array | None]]:
    """Yield what is compared with which constants; what is no comparison with constants, with None."""
    waiting = [condition]
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
