"""The engine against the oracle: whatever the rows, the queries, the batches and their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from support import oracle
from support.engine_driver import drive
from support.oracle import Answers, assert_fail_alone, assert_same, rows_of
from support.strategies import SQL_TYPES, TIME, UNITS, Case, cases, shuffles, splits
from weft.aggregates import FUNCTIONS
from weft.expr.check import check
from weft.final import TECHNIQUES, fits
from weft.local.results import Results
from weft.model.query import Aggregate, Query
from weft.testing.brute_force.aggregates import AGGREGATES

ALWAYS = 100 * 366 * 86_400_000_000
"""A lateness that keeps every window open to the end."""


def run(queries: Sequence[Query], batches: object, lateness: int = 0, **options: object) -> Results:
    return weft.run(queries, batches, time=TIME, lateness=f"{lateness} microseconds", **options)


def assert_agree(
    queries: Sequence[Query], got: Callable[[], Results], expected: Callable[[], Answers]
) -> Results | None:
    """Both give the same answers, or find the same queries whose answers do not fit 64 bits."""
    try:
        answers = expected()
    except oracle.Overflow as overflow:
        assert_fail_alone(queries, got, overflow)
        return None
    results = got()
    for query in queries:
        assert_same(query, results.get(query.name), answers[query.name])
    return results


def test_every_aggregate_has_an_oracle() -> None:
    assert set(FUNCTIONS) <= set(AGGREGATES)


@given(cases())
def test_answers_equal_the_oracle(case: Case) -> None:
    assert_agree(
        case.queries,
        lambda: run(case.queries, case.table),
        lambda: oracle.answer(case.queries, case.rows, TIME, SQL_TYPES),
    )


@pytest.mark.slow
@given(st.data(), cases())
def test_batches_and_order_within_the_lateness_change_nothing(data: st.DataObject, case: Case) -> None:
    lateness = data.draw(st.sampled_from(UNITS).map(lambda unit: unit * 5), "lateness")
    shuffled = data.draw(shuffles(case.table, lateness), "shuffled")
    batches = data.draw(splits(shuffled), "batches")
    pieced = assert_agree(
        case.queries,
        lambda: run(case.queries, iter(batches), lateness),
        lambda: oracle.answer(case.queries, shuffled.to_pylist(), TIME, SQL_TYPES),
    )
    if pieced is not None:
        whole = run(case.queries, shuffled)
        for query in case.queries:
            assert_same(query, pieced.get(query.name), rows_of(whole.get(query.name)), tolerance=1e-12)


@pytest.mark.slow
@given(st.data(), cases())
def test_late_rows_miss_only_what_was_answered(data: st.DataObject, case: Case) -> None:
    lateness = data.draw(st.just(0) | st.sampled_from(UNITS), "lateness")
    batches = data.draw(splits(case.table), "batches")
    assert_agree(
        case.queries,
        lambda: run(case.queries, batches, lateness),
        lambda: (
            oracle.answer_stream(
                case.queries, [batch.to_pylist() for batch in batches], TIME, lateness, SQL_TYPES
            ).answers
        ),
    )


@pytest.mark.slow
@given(st.data(), cases(), st.integers(1, 3), st.booleans())
def test_each_round_answers_what_is_due_and_counts_what_is_late(
    data: st.DataObject, case: Case, buckets: int, forgetful: bool
) -> None:
    lateness = data.draw(st.just(0) | st.sampled_from(UNITS), "lateness")
    batches = data.draw(splits(case.table), "batches")
    try:
        expected = oracle.answer_stream(
            case.queries, [b.to_pylist() for b in batches], TIME, lateness, SQL_TYPES
        )
    except oracle.Overflow:
        return
    driven = drive(case.queries, batches, TIME, lateness, buckets, forgetful)
    assert expected.late <= driven.seen.late <= expected.missing
    assert (driven.seen.rows, driven.seen.untimed) == (case.table.num_rows, expected.untimed)
    for results, answers in zip(driven.rounds, expected.rounds, strict=True):
        for query in case.queries:
            assert_same(query, results.get(query.name), answers[query.name])


@pytest.mark.slow
@given(cases(max_queries=5))
def test_a_query_does_not_notice_the_others(case: Case) -> None:
    try:
        oracle.answer(case.queries, case.rows, TIME, SQL_TYPES)
    except oracle.Overflow:
        return
    together = run(case.queries, case.table)
    for query in case.queries:
        alone = run([query], case.table)
        assert_same(query, together.get(query.name), rows_of(alone.get(query.name)), tolerance=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("technique", sorted(TECHNIQUES))
@settings(max_examples=settings().max_examples // 4)
@given(st.data(), cases())
def test_every_technique_gives_the_same_answers(technique: str, data: st.DataObject, case: Case) -> None:
    queries = [fitted(query, technique, case.table.schema) for query in case.queries]
    lateness = data.draw(st.just(0) | st.sampled_from(UNITS), "lateness")
    batches = data.draw(splits(case.table), "batches")
    assert_agree(
        queries,
        lambda: run(queries, batches, lateness, technique=technique),
        lambda: (
            oracle.answer_stream(
                queries, [batch.to_pylist() for batch in batches], TIME, lateness, SQL_TYPES
            ).answers
        ),
    )


def fitted(query: Query, technique: str, schema: pa.Schema) -> Query:
    """The query with those of its aggregates that the technique can run; a count is always one."""

    def runs(aggregate: Aggregate) -> bool:
        types = tuple(check(arg, schema) for arg in aggregate.args)
        parts = FUNCTIONS[aggregate.function].parts(aggregate.args, types)
        return all(fits(technique, part.monoid) for part in parts)

    kept = tuple(filter(runs, query.aggregates)) or (Aggregate("count_star", (), "n"),)
    if kept == query.aggregates:
        return query
    return replace(query, aggregates=kept, outputs=(), having=None)


@pytest.mark.slow
@given(cases(max_queries=5))
def test_the_order_of_the_queries_does_not_matter(case: Case) -> None:
    try:
        expected = oracle.answer(case.queries, case.rows, TIME, SQL_TYPES)
    except oracle.Overflow:
        return
    # In one thread, which may remember something of the first order when it meets the second.
    for queries in (case.queries, case.queries[::-1]):
        *_, results = drive(queries, [case.table], TIME, lateness=ALWAYS).rounds
        for query in queries:
            assert_same(query, results.get(query.name), expected[query.name])


@pytest.mark.parametrize("library", ["pandas", "polars", "record batches"])
def test_other_libraries_tables_are_as_good(library: str) -> None:
    table = pa.table(
        {
            TIME: pa.array([3, 1, None, 12, 25], pa.int64()).cast(pa.timestamp("us")),
            "x": [1.5, None, 2.5, float("nan"), -4.0],
            "i": [1, 2, 3, 2**60, None],
            "g": ["a", None, "b", "a", ""],
            "b": [True, None, False, True, False],
        }
    )
    convert = {
        "pandas": lambda t: t.to_pandas(types_mapper={pa.int64(): pandas.Int64Dtype()}.get),
        "polars": polars.from_arrow,
        "record batches": lambda t: t.to_batches(),
    }[library]
    queries = weft.sql(
        """
        -- name: numbers
        SELECT g, count(*) AS n, sum(i) AS total, max(b) AS any_b
        FROM rows GROUP BY g, window(ts, '10 microseconds', '5 microseconds');
        -- name: texts
        SELECT min(g) AS least, count(g) AS texts FROM rows GROUP BY window(ts, '20 microseconds')
        """
    )
    expected = run(queries, table)
    got = run(queries, convert(table))
    for query in queries:
        assert rows_of(expected[query.name])
        assert_same(query, got[query.name], rows_of(expected[query.name]))
