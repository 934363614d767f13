"""Signatures: predicates taken together against the dumbest way, one mask for each predicate."""

from __future__ import annotations

import datetime as dt
import math
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from support.expr_cases import POOLS, SCHEMA, TYPES, batch_of, call, expression, rows
from support.seeds import seeded_random
from weft.errors import QueryError
from weft.expr.check import compiler_for
from weft.expr.evaluate import Evaluator
from weft.model.expression import Column, Expr, Literal
from weft.operators.predicates import classes as grouped
from weft.operators.predicates.classes import Search, group
from weft.operators.predicates.constants import sort_constants
from weft.operators.predicates.signature import signatures

SUBJECTS: dict[str, tuple[Any, ...]] = {
    **{kind: tuple(Column(n) for n, k in TYPES.items() if k == kind) for kind in POOLS},
    "bigint": (Column("i"), Column("j"), call("*", Column("i"), Column("j")), call("length", Column("s"))),
    "double": (Column("x"), Column("y"), call("/", 1.0, Column("x")), call("abs", Column("x")), Column("i")),
    "string": (
        Column("s"),
        Column("k"),
        call("upper", Column("s")),
        call("concat", Column("s"), Column("k")),
    ),
}


def one_by_one(
    predicates: list[Expr | None], batch: pa.RecordBatch, strict: bool = False
) -> tuple[np.ndarray, Evaluator]:
    """Which predicates each row satisfies, as booleans, and the evaluator that said so."""
    evaluator = Evaluator(batch, strict=strict)
    masks = [
        np.ones(batch.num_rows, np.bool_) if predicate is None else evaluator.mask(predicate)
        for predicate in predicates
    ]
    return np.array(masks, dtype=np.bool_).reshape(len(masks), -1).T, evaluator


def assert_same(predicates: list[Expr | None], batch: pa.RecordBatch) -> None:
    truth, expected = one_by_one(predicates, batch)
    evaluator = Evaluator(batch)
    numbers, bitmaps = signatures(predicates, evaluator, batch.num_rows)
    assert bitmaps.dtype == np.bool_
    assert numbers.dtype == np.int32
    assert bitmaps.shape[1] == len(predicates)
    assert len({row.tobytes() for row in bitmaps}) == len(bitmaps)
    if numbers.size or not batch.num_rows:
        assert set(numbers.tolist()) == set(range(len(bitmaps))) or not batch.num_rows
        found = bitmaps[numbers]
    else:
        assert len(bitmaps) == 1
        found = np.repeat(bitmaps, batch.num_rows, axis=0)
    np.testing.assert_array_equal(found, truth)
    assert evaluator.bad == expected.bad
    assert strict_error(lambda: one_by_one(predicates, batch, strict=True)) == strict_error(
        lambda: signatures(predicates, Evaluator(batch, strict=True), batch.num_rows)
    )


def strict_error(work: Any) -> str | None:
    try:
        work()
    except QueryError as error:
        return str(error)
    return None


def comparison(rng: random.Random) -> Expr:
    """A comparison of some expression with constants: =, <, IN, IS NULL, BETWEEN, LIKE..."""
    kind = rng.choice(tuple(SUBJECTS))
    subject = rng.choice(SUBJECTS[kind])

    def constant() -> Any:
        # A double met by a bigint column, a date by a timestamp: the comparison is of a cast then.
        return rng.choice(POOLS["double" if kind == "bigint" and rng.random() < 0.2 else kind])

    shape = rng.randrange(10)
    if shape < 5:
        sides = [subject, constant()]
        rng.shuffle(sides)
        return call(rng.choice(("=", "<>", "<", "<=", ">", ">=", "<=>")), *sides)
    if shape == 5:
        return call("in", subject, *(constant() for _ in range(3)), *([None] if rng.random() < 0.3 else []))
    if shape == 6:
        return call("and", call(">=", subject, constant()), call("<=", subject, constant()))
    if shape == 7 and kind == "string":
        return call("like", subject, rng.choice(("a%", "%b%", "_", "%")))
    if shape == 7 and kind == "double":
        return call("isnan", subject)
    return call("is_null", subject)


def condition(rng: random.Random, depth: int) -> Expr:
    """Comparisons under AND, OR and NOT; now and then any condition at all, or a constant one."""
    chance = rng.random()
    if chance < 0.08:
        return expression(rng, "boolean", 2)
    if chance < 0.12:
        return rng.choice((Literal(True, "boolean"), Literal(False, "boolean"), Literal(None, "null")))
    if depth == 0 or chance < 0.4:
        return comparison(rng)
    if chance < 0.55:
        return call("not", condition(rng, depth - 1))
    name = "or" if chance < 0.7 else "and"
    return call(name, *(condition(rng, depth - 1) for _ in range(rng.randint(2, 3))))


@st.composite
def asked(draw: st.DrawFn) -> tuple[list[Expr | None], pa.RecordBatch]:
    """Predicates, some of them twice and some None, and a batch of 0 to 60 rows."""
    rng = seeded_random(draw(st.integers(0, 2**32)))
    count = draw(st.sampled_from((1, 2, 5, 20, 63, 64, 65, 130)))
    predicates: list[Expr | None] = [condition(rng, draw(st.integers(0, 2))) for _ in range(count)]
    for place in range(count):
        if rng.random() < 0.05:
            predicates[place] = rng.choice([None, *predicates])
    batch = batch_of(rows(rng, draw(st.sampled_from((0, 1, 7, 60)))))
    if draw(st.booleans()):
        batch = encoded(batch)
    return predicates, batch


def encoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Every column that can be, with a dictionary."""
    return pa.record_batch(
        {
            name: column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            for name, column in zip(batch.schema.names, batch.columns)
        }
    )


@given(asked())
def test_any_predicates_as_one_by_one(case):
    assert_same(*case)


@settings(max_examples=5)
@given(st.integers(0, 2**32))
def test_a_thousand_predicates(seed):
    rng = seeded_random(seed)
    assert_same([condition(rng, 1) for _ in range(1000)], batch_of(rows(rng, 500)))


EDGES = {
    "double": (
        math.nan,
        math.inf,
        -math.inf,
        0.0,
        -0.0,
        5e-324,
        -5e-324,
        1.0,
        math.nextafter(1.0, 2.0),
        1e308,
    ),
    "bigint": (-(2**63), -(2**63) + 1, -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1),
    "string": ("", "\0", "a", "a\0", "a\0\0", "b", "aa", "é", "\U0001f600", "\uffff"),
    "date": (dt.date(1970, 1, 1), dt.date(1970, 1, 2), dt.date(1, 1, 1), dt.date(9999, 12, 31)),
}
TYPED = {"double": pa.float64(), "bigint": pa.int64(), "string": pa.string(), "date": pa.date32()}


@pytest.mark.parametrize("kind", EDGES)
@pytest.mark.parametrize("constants", [1, 2, 99])
def test_every_comparison_with_every_neighbour(kind, constants):
    """Constants that nothing lies between, and values at the ends of their type."""
    values = [*EDGES[kind], None]
    batch = pa.record_batch({"v": pa.array(values * 3, TYPED[kind])})
    for first in range(len(EDGES[kind])):
        predicates = [
            call(name, Column("v"), value)
            for value in EDGES[kind][first : first + constants]
            for name in ("=", "<>", "<", "<=", ">", ">=", "<=>")
        ]
        assert_same(predicates, batch)


@pytest.mark.parametrize(
    "dtype", [pa.int64(), pa.float64(), pa.string(), pa.date32(), pa.timestamp("us", "UTC")]
)
def test_without_constants_there_is_a_place_for_values_and_one_for_null(dtype):
    constants = sort_constants(dtype, [])
    assert len(constants.examples) == 2
    assert constants.examples[0].is_valid
    values = pa.array([None, constants.examples[0].as_py()], dtype)
    assert constants.find(values, np.arange(2)).tolist() == [1, 0]


def where(text: str) -> Expr:
    (query,) = weft.sql(f"SELECT count(*) FROM t [RANGE '1 s'] WHERE {text}")
    assert query.predicate is not None
    return query.predicate


def test_a_thousand_comparisons_are_one_search_and_nothing_else():
    texts = [
        f"x > {n} AND x <= {n + 3}" if n % 2 else f"x NOT IN ({n}, {n + 1}.5, NULL)" for n in range(1000)
    ]
    (parts,) = group([where(t) for t in texts], compiler_for(SCHEMA)).parts.values()
    (search,) = parts
    assert isinstance(search, Search)
    assert search.bitmaps.shape[1] == 16


def test_the_same_predicates_are_grouped_once():
    predicates = [where("x > 1"), where("s LIKE 'a%'"), None]
    compiler = compiler_for(SCHEMA)
    assert group(predicates, compiler) is group(tuple(predicates), compiler)
    assert group([where("x > 1"), *predicates[1:]], compiler) is not group(predicates, compiler)


def test_what_a_predicate_did_not_need_is_not_bad():
    batch = pa.record_batch({"x": [0.0, 2.0, 0.0, None], "n": [1, 1, 0, 1]})
    predicates = [where("x <> 0 AND 1 / x > 0.1"), where("n = 1 AND 1 / x > 0.4"), where("n < 5")]
    evaluator = Evaluator(batch)
    numbers, bitmaps = signatures(predicates, evaluator, 4)
    only_last = [False, False, True]
    assert bitmaps[numbers].tolist() == [only_last, [True, True, True], only_last, only_last]
    assert evaluator.bad == 1
    with pytest.raises(QueryError, match=r"division by zero.*row 0 of the batch"):
        signatures(predicates, Evaluator(batch, strict=True), 4)
    guarded = Evaluator(batch, strict=True)
    signatures(predicates[:1], guarded, 4)
    assert guarded.bad == 0


def test_every_predicate_that_shares_a_bad_condition_counts():
    batch = pa.record_batch({"x": [0.0, 2.0], "n": [1, 1]})
    texts = ["x = 0 OR n = 7 OR 1 / x > 0.4", "n = 7 OR 1 / x > 0.4", "NOT (n = 7 OR 1 / x > 0.4)"]
    for chosen, bad in ((texts[:1], 0), (texts[:2], 1), (texts, 1), (texts[2:], 1)):
        predicates = [where(text) for text in chosen]
        evaluator = Evaluator(batch)
        signatures(predicates, evaluator, 2)
        assert evaluator.bad == bad
        assert_same(predicates, batch)


@pytest.mark.parametrize("most", [0, 5])
def test_a_predicate_with_too_many_conditions_under_or_is_a_test(monkeypatch, most):
    monkeypatch.setattr(grouped, "MAX_CONDITION_BITS", most)
    rng = seeded_random(most)
    predicates = [condition(rng, 2) for _ in range(60)]
    assert len(group(predicates, compiler_for(SCHEMA)).bits) <= most
    assert_same(predicates, batch_of(rows(rng, 200)))


def test_no_predicates_that_choose_are_one_signature():
    batch = pa.record_batch({"x": [1.0, 2.0]})
    numbers, bitmaps = signatures([None, None], Evaluator(batch), 2)
    assert (numbers.size, bitmaps.tolist()) == (0, [[True, True]])
    numbers, bitmaps = signatures([where("x > 0"), None], Evaluator(batch), 2)
    assert (numbers.size, bitmaps.tolist()) == (0, [[True, True]])


def test_from_several_threads():
    rng = seeded_random(5)
    predicates = [condition(rng, 1) for _ in range(200)]
    batches = [batch_of(rows(rng, 300)) for _ in range(8)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda batch: assert_same(predicates, batch), batches))
