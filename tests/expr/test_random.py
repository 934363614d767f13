"""Random expressions over random rows: the vectorised evaluator against the row-by-row oracle."""

from __future__ import annotations

import datetime as dt
import math
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.expr_cases import POOLS, SCHEMA, TYPES, batch_of, expression, rows
from support.seeds import seeded_random
from weft.expr.check import check
from weft.expr.evaluate import Evaluator
from weft.model.expression import Call, Expr, Literal
from weft.testing.brute_force.expressions import evaluate_row


def same(ours: Any, truth: Any) -> bool:
    """Equal values, with NaN equal to NaN and timestamps equal where they are the same instant."""
    if isinstance(ours, float) and isinstance(truth, (float, int)) and not isinstance(truth, bool):
        return ours == truth or (math.isnan(ours) and math.isnan(truth))
    if isinstance(ours, dt.datetime) and isinstance(truth, dt.datetime):
        return instant(ours) == instant(truth)
    return type(ours) is type(truth) and ours == truth


def instant(value: dt.datetime) -> dt.datetime:
    return value if value.tzinfo else value.replace(tzinfo=dt.UTC)


def has_null(expr: Expr) -> bool:
    if isinstance(expr, Call):
        return any(has_null(a) for a in expr.args)
    return isinstance(expr, Literal) and expr.value is None


def assert_agrees(
    expr: Expr, data: list[dict[str, Any]], batch: pa.RecordBatch | pa.Table, zone: str = "UTC"
) -> None:
    evaluator = Evaluator(batch, zone=zone)
    ours, failures = evaluator.evaluate(expr).to_pylist(), 0
    for row, value in zip(data, ours, strict=True):
        bad: set[Expr] = set()
        truth = evaluate_row(expr, row, TYPES, bad, zone)
        failures += len(bad)
        assert same(value, truth), f"{expr}\n{row}\ngives {value!r}, not {truth!r}"
    if not has_null(expr):  # NULL makes constants of calls, and what is never evaluated is never bad
        assert evaluator.bad <= failures  # two spellings of one operation are one here
        assert (evaluator.bad > 0) == (failures > 0), str(expr)


@pytest.mark.slow
@settings(max_examples=1500, deadline=None)
@given(
    st.sampled_from(sorted(POOLS)), st.integers(1, 4), st.integers(0, 30), st.randoms(use_true_random=False)
)
def test_random_expressions_equal_the_oracle(kind: str, depth: int, count: int, rng: random.Random) -> None:
    expr, data = expression(rng, kind, depth), rows(rng, count)
    assert check(expr, SCHEMA) == kind
    assert_agrees(expr, data, batch_of(data))


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(("Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kolkata")),
    st.sampled_from(sorted(POOLS)),
    st.randoms(use_true_random=False),
)
def test_random_expressions_in_any_zone_equal_the_oracle(zone: str, kind: str, rng: random.Random) -> None:
    expr, data = expression(rng, kind, 3), rows(rng, 20)
    assert_agrees(expr, data, batch_of(data), zone)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(POOLS)), st.randoms(use_true_random=False))
def test_slices_chunks_and_plain_strings_give_the_same(kind: str, rng: random.Random) -> None:
    expr, data = expression(rng, kind, 3), rows(rng, 20)
    whole = batch_of(data)
    assert_agrees(expr, data[3:17], whole.slice(3, 14))
    assert_agrees(expr, data, pa.Table.from_batches([whole.slice(0, 7), whole.slice(7)]))
    plain = whole.schema.set(whole.schema.get_field_index("k"), pa.field("k", pa.large_string()))
    assert_agrees(expr, data, pa.table(whole).cast(plain))


def test_masks_leave_out_false_and_null() -> None:
    rng = seeded_random(7)
    data = rows(rng, 200)
    evaluator = Evaluator(batch_of(data))
    for _ in range(50):
        expr = expression(rng, "boolean", 3)
        assert evaluator.mask(expr).tolist() == [evaluate_row(expr, r, TYPES) is True for r in data]
