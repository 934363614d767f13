"""Three-valued logic, and bad values that count only where a row needed them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest

from support.expr_cases import MAX, MIN, call
from weft.errors import QueryError
from weft.expr.evaluate import Evaluator
from weft.model.expression import Column, Expr

A, B, X, Y = map(Column, "abxy")
TRUTHS = (True, False, None)
PAIRS = list(itertools.product(TRUTHS, TRUTHS))
TABLE = pa.record_batch(
    {"a": pa.array([a for a, _ in PAIRS], pa.bool_()), "b": pa.array([b for _, b in PAIRS], pa.bool_())}
)
#         b:        TRUE   FALSE  NULL
AND = {
    True: (True, False, None),
    False: (False, False, False),
    None: (None, False, None),
}
OR = {
    True: (True, True, True),
    False: (True, False, None),
    None: (True, None, None),
}


def values(expr: Expr, batch: pa.RecordBatch = TABLE) -> list[object]:
    return Evaluator(batch).evaluate(expr).to_pylist()


def test_truth_tables() -> None:
    assert values(call("and", A, B)) == [v for a in TRUTHS for v in AND[a]]
    assert values(call("or", A, B)) == [v for a in TRUTHS for v in OR[a]]
    assert values(call("not", A)) == [None if a is None else not a for a, _ in PAIRS]


@pytest.mark.parametrize("constant", TRUTHS)
def test_truth_tables_with_constants(constant: bool | None) -> None:
    for name, table in (("and", AND), ("or", OR)):
        expected = [table[a][TRUTHS.index(constant)] for a, _ in PAIRS]
        assert values(call(name, A, constant)) == expected
        assert values(call(name, constant, A)) == expected
        assert values(call(name, call(name, A, constant), A)) == [
            table[v][TRUTHS.index(a)] for v, (a, _) in zip(expected, PAIRS)
        ]


def test_comparisons_with_null_are_null() -> None:
    for name in ("=", "<>", "<", "<=", ">", ">="):
        found = values(call(name, A, B))
        assert [v is None for v in found] == [a is None or b is None for a, b in PAIRS]
        assert values(call(name, A, None)) == [None] * 9


def test_null_safe_equality_never_is() -> None:
    assert values(call("<=>", A, B)) == [a is b for a, b in PAIRS]
    assert values(call("<=>", A, None)) == [a is None for a, _ in PAIRS]
    assert values(call("is_null", A)) == [a is None for a, _ in PAIRS]


def test_in_lists_with_null() -> None:
    batch = pa.record_batch({"x": pa.array([1, 2, None])})
    assert values(call("in", X, 1, None), batch) == [True, None, None]
    assert values(call("in", X, 1, 3), batch) == [True, False, None]
    assert values(call("in", X, None), batch) == [None, None, None]
    assert values(call("not", call("in", X, 1, None)), batch) == [False, None, None]


def test_masks_are_true_only_where_the_condition_is() -> None:
    mask = Evaluator(TABLE).mask(A)
    assert mask.dtype == np.bool_
    assert mask.tolist() == [a is True for a, _ in PAIRS]
    assert not Evaluator(TABLE).mask(call("=", A, None)).any()


NUMBERS = pa.record_batch({"x": pa.array([0, 2, None, 0, MAX]), "y": pa.array([1.5, 0.0, 0.0, None, -1.0])})


@pytest.mark.parametrize(
    ("expr", "expected", "bad"),
    [
        (call("/", 1, X), [None, 0.5, None, None, 1 / MAX], 2),
        (call("/", X, Y), [0.0, None, None, None, -float(MAX)], 1),
        (call("%", X, 0), [None] * 5, 4),
        (call("%", Y, 0.0), [None] * 5, 4),
        (call("div", 7, X), [None, 3, None, None, 0], 2),
        (call("+", X, 1), [1, 3, None, 1, None], 1),
        (call("-", call("negate", X), 2), [-2, -4, None, -2, None], 1),
        (call("*", X, X), [0, 4, None, 0, None], 1),
        (call("+", X, 1.0), [1.0, 3.0, None, 1.0, float(MAX) + 1], 0),
        (call("ln", X), [None, math.log(2), None, None, math.log(MAX)], 0),
        (call("cast", "x", "bigint"), [None] * 5, 5),
        (call("/", 1, 0), [None] * 5, 5),
        # A row that does not need a value has none that is bad.
        (call("and", call("<>", X, 0), call(">", call("/", 1, X), 0)), [False, True, None, False, True], 0),
        (call("and", call(">", call("/", 1, X), 0), call("<>", X, 0)), [False, True, None, False, True], 2),
        (call("or", call("=", X, 0), call(">", call("/", 1, X), 0)), [True, True, None, True, True], 0),
        (call("case", call("=", X, 0), 0.0, call("/", 1, X)), [0.0, 0.5, None, 0.0, 1 / MAX], 0),
        (call("case", call("=", X, 2), call("/", 1, X), 9.0), [9.0, 0.5, 9.0, 9.0, 9.0], 0),
        (
            call("case", call(">", X, 2), 1.0, call("=", call("/", 1, X), 0.5), 2.0, 3.0),
            [3.0, 2.0, 3.0, 3.0, 1.0],
            2,
        ),
        (call("if", call("=", X, 0), None, call("/", 1, X)), [None, 0.5, None, None, 1 / MAX], 0),
        (call("coalesce", Y, call("/", 1, X)), [1.5, 0.0, 0.0, None, -1.0], 1),
        (call("coalesce", call("/", 1, X), 5), [5.0, 0.5, 5.0, 5.0, 1 / MAX], 2),
        (call("/", 1, call("nullif", X, 0)), [None, 0.5, None, None, 1 / MAX], 0),
        # The same failed operation twice in a row is one bad value.
        (call("+", call("/", 1, X), call("/", 1, X)), [None, 1.0, None, None, 2 / MAX], 2),
    ],
    ids=str,
)
def test_bad_values_are_null_and_counted(expr: Expr, expected: list[object], bad: int) -> None:
    evaluator = Evaluator(NUMBERS)
    assert evaluator.evaluate(expr).to_pylist() == expected
    assert evaluator.bad == bad
    evaluator.evaluate(expr)
    assert evaluator.bad == bad, "evaluated again, it is not counted again"


def test_only_rows_that_are_used_count() -> None:
    evaluator, ratio = Evaluator(NUMBERS), call("/", 1, X)
    evaluator.evaluate(ratio, where=evaluator.mask(call("<>", X, 0)))
    assert evaluator.bad == 0
    evaluator.evaluate(ratio, where=np.array([True, True, True, False, False]))
    assert evaluator.bad == 1
    strict = Evaluator(NUMBERS, strict=True)
    assert strict.evaluate(ratio, where=strict.mask(call("<>", X, 0))).null_count == 3


def test_strict_raises_with_the_expression() -> None:
    strict = Evaluator(NUMBERS, strict=True)
    with pytest.raises(
        QueryError, match=r"division by zero in \(1 / x\), row 0 of the batch; without strict"
    ):
        strict.evaluate(call("+", call("/", 1, X), 2))
    with pytest.raises(QueryError, match=r"out of the range of bigint in \(x \+ 1\), row 4"):
        strict.mask(call(">", call("+", X, 1), 2))
    guarded = call("case", call("<>", X, 0), call("/", 1, X), None)
    assert strict.evaluate(guarded).null_count == 3


def test_overflow_is_found_at_every_edge() -> None:
    edges = [MIN, MIN + 1, -(2**32), -3, -1, 0, 1, 2, 2**31, 2**32, 3037000500, MAX - 1, MAX, None]
    pairs = list(itertools.product(edges, edges))
    batch = pa.record_batch({"x": pa.array([p[0] for p in pairs]), "y": pa.array([p[1] for p in pairs])})
    for name, exact in (("+", int.__add__), ("-", int.__sub__), ("*", int.__mul__)):
        truth = [None if None in p else exact(*p) for p in pairs]
        fits = [t if t is not None and MIN <= t <= MAX else None for t in truth]
        evaluator = Evaluator(batch)
        assert evaluator.evaluate(call(name, X, Y)).to_pylist() == fits
        assert evaluator.bad == sum(t is not None and f is None for t, f in zip(truth, fits))


def test_constants_fold_and_mix_with_columns() -> None:
    batch = pa.record_batch({"x": [1, 2]})
    assert values(call("*", call("+", 1, 2), 5), batch) == [15, 15]
    assert values(call("and", True, call(">", X, 1)), batch) == [False, True]
    assert values(call("case", True, X, None), batch) == [1, 2]
    assert values(call("coalesce", None, None), batch) == [None, None]


def test_empty_batches() -> None:
    empty = NUMBERS.slice(0, 0)
    for expr in (call("/", X, Y), call("case", call(">", X, 0), 1, 2), call("in", X, 1), call("round", Y, 1)):
        assert values(expr, empty) == []
    assert (
        values(call("/", X, Y), pa.table({"x": pa.array([], pa.int64()), "y": pa.array([], pa.int8())})) == []
    )
    assert Evaluator(empty).mask(call(">", X, 0)).tolist() == []
