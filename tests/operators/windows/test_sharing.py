"""What a batch shares: every way gives the same answers, and the cheaper one is taken."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from support import oracle
from support.oracle import assert_fail_alone, assert_same
from support.predicate_cases import TYPES, random_queries, trades
from support.seeds import seeded_numpy
from support.strategies import SQL_TYPES, TIME, Case, cases
from support.ways import WAYS, forced
from weft.expr.evaluate import Evaluator
from weft.model.query import Query
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.prepare import partial
from weft.operators.windows.shards import SignedRows
from weft.operators.windows.sharing import SharingChoice, estimated_cells


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@given(case=cases())
def test_every_way_gives_the_same_answers(way: str, case: Case) -> None:
    try:
        expected = oracle.answer(case.queries, case.rows, TIME, SQL_TYPES)
    except oracle.Overflow as overflow:
        with forced(way):
            assert_fail_alone(case.queries, lambda: weft.run(case.queries, case.table, time=TIME), overflow)
        return
    with forced(way):
        results = weft.run(case.queries, case.table, time=TIME)
    for query in case.queries:
        assert_same(query, results[query.name], expected[query.name])


@pytest.mark.slow
@given(st.data(), cases())
def test_batches_may_differ_in_what_they_share(data: st.DataObject, case: Case) -> None:
    rows = case.table.num_rows
    cut = data.draw(st.integers(0, rows), "cut")
    try:
        expected = oracle.answer(case.queries, case.rows, TIME, SQL_TYPES)
    except oracle.Overflow:
        return
    run = weft.LocalRun(case.queries, case.table.schema, TIME, "10000 days", threads=1)
    found: dict[str, list[pa.Table]] = {q.name: [] for q in case.queries}
    for part in (case.table.slice(0, cut), case.table.slice(cut)):
        with forced(data.draw(st.sampled_from(WAYS), "way")):
            for name, table in run.step(part).items():
                found[name].append(table)
    for name, table in run.close().items():
        found[name].append(table)
    for query in case.queries:
        tables = found[query.name]
        assert_same(query, pa.concat_tables(tables) if tables else None, expected[query.name])


@pytest.mark.parametrize("count", [1, 2, 10, 100, pytest.param(1000, marks=pytest.mark.slow)])
def test_as_many_queries_as_you_like(count: int) -> None:
    table = trades(400)
    queries = random_queries(count, seed=count)
    expected = oracle.answer(queries, table.to_pylist(), "ts", TYPES)
    results = weft.run(queries, table, time="ts")
    for query in queries:
        assert_same(query, results[query.name], expected[query.name])


def choices(queries: Sequence[Query], table: pa.Table) -> list[SharingChoice]:
    program = compile_plan(weft.plan(queries), table.schema, "ts")
    return partial(table, program, None).choices


def test_few_fragments_are_shared() -> None:
    queries = weft.sql(
        ";".join(
            f"SELECT symbol, sum(price) AS s FROM t [RANGE '60 s'] WHERE volume >= {v} GROUP BY symbol"
            for v in (100, 200, 500)
        )
    )
    (choice,) = choices(queries, trades(20_000))
    assert choice.how == "shared"
    assert (choice.predicates, choice.signatures) == (3, 3)
    assert choice.rows < choice.pairs and choice.shards == choice.partials == 4 * 5 * 3


def test_many_fragments_of_few_slices_are_spread_before_they_travel() -> None:
    queries = weft.sql(
        ";".join(f"SELECT sum(price) AS s FROM t [RANGE '300 s'] WHERE price > {80 + p}" for p in range(40))
    )
    table = trades(20_000)
    (choice,) = choices(queries, table)
    assert choice.how == "shared"  # the signatures of one attribute are one more than its constants
    pairs = [(p, v) for p in range(80, 120, 2) for v in (0, 100, 200, 500)]
    crossed = weft.sql(
        ";".join(
            f"SELECT sum(price) AS s FROM t [RANGE '300 s'] WHERE price > {p} AND hash > {97 * p + v}"
            for p, v in pairs
        )
    )
    table = table.append_column("hash", pa.array(np.arange(20_000) * 7919 % 12_000))
    (choice,) = choices(crossed, table)
    assert choice.how == "spread"
    assert choice.partials <= choice.predicates < choice.shards


def test_rows_with_signatures_of_their_own_are_not_shared() -> None:
    """Many attributes, each tested by one predicate that few rows satisfy: sharing has nothing to share."""
    rows = 50_000
    draw = seeded_numpy(7)
    columns = {f"c{n}": draw.random(rows) for n in range(40)}
    table = pa.table({"ts": trades(rows)["ts"], "k": draw.integers(0, 2, rows), **columns})
    queries = weft.sql(
        ";".join(
            f"SELECT k, sum(c{n}) AS s FROM t [RANGE '300 s'] WHERE c{n} > 0.97 GROUP BY k" for n in range(40)
        )
    )
    (choice,) = choices(queries, table)
    assert choice.how == "unshared"
    assert choice.pairs < 2 * choice.rows and choice.partials <= 80
    whole = weft.run(queries, table, time="ts")
    with forced("shared"):
        shared = weft.run(queries, table, time="ts")
    for name, found in whole.items():
        assert found.select(["k", "window_start"]).equals(shared[name].select(["k", "window_start"]))
        assert np.allclose(found["s"].to_numpy(), shared[name]["s"].to_numpy(), rtol=1e-12)


def group_bys(*sets: str) -> list[Query]:
    return weft.sql(
        ";".join(
            f"SELECT {by}, sum(price) AS s, count(*) AS n FROM t [RANGE '60 s'] GROUP BY {by}" for by in sets
        )
    )


def test_group_bys_share_the_union_of_their_columns_where_it_has_few_groups() -> None:
    found = choices(group_bys("symbol", "volume", "symbol, volume"), trades(100_000))
    assert {c.made_of for c in found} == {("symbol", "volume")}
    assert [c.keys for c in found] == [("symbol",), ("volume",), ("symbol", "volume")]
    many = trades(100_000).append_column("id", pa.array(np.arange(100_000)))
    apart = choices(group_bys("symbol", "volume", "id"), many)
    assert {c.made_of for c in apart if c.keys != ("id",)} == {("symbol", "volume")}
    assert [c.made_of for c in apart if c.keys == ("id",)] == [()]


@settings(max_examples=20)
@given(st.integers(1, 40), st.integers(1, 3000))
def test_the_number_of_cells_is_estimated(slices: int, keys: int) -> None:
    rows = 100_000
    draw = seeded_numpy(3)
    batch = pa.record_batch({"k": pa.array(draw.integers(0, keys, rows))})
    at = draw.integers(0, slices, rows).astype(np.int32)
    nothing = np.zeros(0, np.int32)
    signed = SignedRows(Evaluator(batch), at, at, at, at, nothing, np.ones((1, 1), np.bool_))
    found = estimated_cells(signed, ["k"])
    true = len(np.unique(at * 10_000 + batch.column("k").to_numpy()))
    assert true / 6 < found < 6 * true  # the estimator's bound is sqrt(rows / sample) = 5


def test_families_are_trees_that_have_predicates_in_common() -> None:
    queries = weft.sql(
        """-- name: a
        SELECT count(*) AS n FROM t [RANGE '60 s'] WHERE price > 1;
        -- name: b
        SELECT count(*) AS n FROM t [RANGE '60 s'] WHERE price > 2;
        -- name: c
        SELECT count(*) AS n FROM t [RANGE '70 s'] WHERE price > 2;
        -- name: d
        SELECT count(*) AS n FROM t [RANGE '70 s'] WHERE price > 3;
        -- name: e
        SELECT count(*) AS n FROM t [RANGE '77 s'] WHERE price > 4"""
    )
    plan = weft.plan(queries, strategy="no-share")
    (families,) = compile_plan(plan, trades(1).schema, "ts").families
    assert sorted(families) == [(0,), (1,), (2,), (3,)]
    plan = weft.plan(queries, strategy="share-all")
    (families,) = compile_plan(plan, trades(1).schema, "ts").families
    assert families == ((0, 1, 2, 3),)


def test_a_step_says_what_it_shared() -> None:
    queries = random_queries(5, 1)
    table = trades(100)
    run = weft.LocalRun(queries, table.schema, "ts", threads=1)
    run.step(table)
    assert sum(c.predicates for c in run.choices) >= 5
    assert all(str(c).startswith("by ") for c in run.choices)
