"""The stage of joins over several buckets: results are those of all combinations, however pieces travel."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import join_cases, multiway_cases
from support.contract_cases import CaseRun, CaseStep, Change, ContractCase, closing_step, restored
from support.contract_joins import COMPILER, FOUR_SIDES, cases, read_join, steps
from support.join_cases import SCHEMA, SECOND, join
from support.join_oracle import as_tuples, oracle, ordered
from weft.operators.contract import ArrivedRows, Note, Piece, Stage, Stepped
from weft.operators.joins.clock import judge_rows
from weft.operators.joins.compile import StreamPosition
from weft.operators.joins.pieces import ReadyRows
from weft.operators.joins.stage import JOINED, LATE_REASON, UNTIMED_REASON, JoinsStage
from weft.operators.late import AHEAD_REASON

Rows = dict[str, list[tuple[Any, ...]]]


def packed(stage: Stage, pieces: Sequence[Piece]) -> list[Piece]:
    return [stage.unpack(piece.bucket, piece.part, stage.pack(piece)) for piece in pieces]


def merged(stage: Stage, pieces: Sequence[Piece]) -> Sequence[Piece]:
    return stage.merge(pieces)


CHANGES: tuple[Change | None, ...] = (None, packed, merged)


def taken(run: CaseRun, step: CaseStep, results: Rows, change: Change | None = None) -> None:
    """Take a step and collect its results."""
    own = run.pieces(step, change)
    collect(run, [state.step(own[state.bucket], step.marks) for state in run.states], step, results)


def collect(run: CaseRun, stepped: Sequence[Stepped], step: CaseStep, results: Rows) -> None:
    """Collect the results of a step, which are in order of time in every bucket."""
    run.stepped(stepped, step.marks)
    for answers in (result.answers for result in stepped):
        for name, table in answers.items():
            rows = as_tuples(table)
            assert [row[0] for row in rows] == sorted(row[0] for row in rows)
            results.setdefault(name, []).extend(rows)


def admitted(stage: JoinsStage, batches: Sequence[CaseStep]) -> dict[str, pa.Table]:
    """The rows of each stream that are not late, in all."""
    rows: dict[str, list[pa.Table]] = {stream: [SCHEMA.empty_table()] for stream in "abc"}
    before = dict.fromkeys(stage.inputs)
    for step in batches:
        for stream, arrival in step.arrivals:
            timed = judge_rows(arrival.table, "ts", before[stream]).rows
            rows[stream].append(pa.Table.from_batches([timed.table]))
        before = dict(step.marks)
    return {stream: pa.concat_tables(tables) for stream, tables in rows.items()}


def closed(run: CaseRun, batches: Sequence[CaseStep], results: Rows) -> None:
    case = ContractCase(run.stage, run.buckets, tuple(batches), 0, run.stage)
    taken(run, closing_step(case, run), results)
    waiting = [state.read(name) for state in run.states for name in run.stage.results]
    assert not any(table.num_rows for table in waiting)


@pytest.mark.slow
@given(data=st.data())
def test_results_are_those_of_all_combinations(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([join_cases, multiway_cases]))
    queries = data.draw(kind.joins(data.draw(st.sampled_from(kind.CONDITIONS))))
    stage = JoinsStage(COMPILER.joins(queries, 1))
    batches = data.draw(steps(stage.joins.streams))
    run = CaseRun(stage, data.draw(st.integers(1, 4)))
    change = data.draw(st.sampled_from(CHANGES))
    results: Rows = {}
    for step in batches:
        taken(run, step, results, change)
        if data.draw(st.booleans(), label="restart"):
            again = restored(run, [[k for lot in fresh for k in lot] for fresh in run.fresh])
            assert [s.rows for s in again.states] == [s.rows for s in run.states]
            run.states = again.states
    closed(run, batches, results)
    rows = admitted(stage, batches)
    for query in queries:
        assert ordered(results.get(query.name, [])) == ordered(oracle(query, rows))


@pytest.mark.slow
@given(case=cases())
def test_joins_that_come_and_go_are_exact_from_when_they_say(case: ContractCase) -> None:
    run, results = CaseRun(case.stage, case.buckets), dict[str, list[tuple[Any, ...]]]()
    before, changed = case.stage, case.changed
    assert isinstance(before, JoinsStage) and isinstance(changed, JoinsStage)
    for step in case.steps[: case.change_after]:
        taken(run, step, results)
    states = [state.moved(changed) for state in run.states]
    run = CaseRun(changed, case.buckets, states, run.marks)
    for step in case.steps[case.change_after :]:
        taken(run, step, results)
    closed(run, case.steps, results)
    rows = admitted(before, case.steps)
    for query in changed.joins.queries:
        if query.name not in changed.results:
            continue
        since = changed.exact_from(query.name).since
        wanted = [row for row in oracle(query, rows) if since is None or row[0] >= since]
        answered = [row for row in results.get(query.name, []) if since is None or row[0] >= since]
        assert ordered(answered) == ordered(wanted)


def stream(first: int, count: int, per_second: int = 1, keys: int = 50) -> pa.Table:
    """Rows in order of time, of so many keys."""
    places = range(first, first + count)
    return pa.table(
        {
            "ts": pa.array([n * SECOND // per_second for n in places], pa.timestamp("us")),
            "k": [str(n % keys) for n in places],
            "x": [n % 7 for n in places],
            "y": [0.0] * count,
            "n": list(places),
        },
        schema=SCHEMA,
    )


def step_of(streams: str, table: pa.Table) -> CaseStep:
    latest = table.column("ts").cast(pa.int64()).to_pylist()[-1]
    return CaseStep(tuple((name, ArrivedRows(table)) for name in streams), dict.fromkeys(streams, latest))


def test_rows_go_to_their_bucket_or_to_all() -> None:
    queries = [join("q0", "a.k = b.k", "", (5, 5)), join("q1", "a.x < b.x", "", (5, 5))]
    stage = JoinsStage(COMPILER.joins(queries, 1))
    pieces = stage.prepare("a", ArrivedRows(stream(0, 40)), {}, 3).pieces
    by_code, by_all = ([p for p in pieces if p.part == part] for part in ("0.0", "1.0"))
    assert sum(len(p.content) for p in by_code) == 40
    assert [len(p.content) for p in by_all] == [40] * 3
    assert len({id(p.content) for p in by_all}) == 1, "all buckets are shown the same rows"
    assert isinstance(by_all[0].content, ReadyRows)


def test_rows_that_missed_are_told_with_their_reasons() -> None:
    stage = JoinsStage(COMPILER.joins([join("q", "a.k = b.k", "", (5, 5))], 1))
    times = pa.array([9, None, 4, 5, 99, 3], pa.timestamp("s")).cast(pa.timestamp("us"))
    table = stream(0, 6).set_column(0, "ts", times)
    rows = ArrivedRows(table, limit=50 * SECOND)
    prepared = stage.prepare("a", rows, {"a": 5 * SECOND}, 1, keep_missed=True)
    assert prepared.missed is not None
    assert prepared.missed.places.tolist() == [1, 2, 4, 5]
    assert prepared.missed.reasons == [UNTIMED_REASON, LATE_REASON, AHEAD_REASON, LATE_REASON]
    assert prepared.late.tolist() == [False, False, True, False, False, True]
    seen = prepared.seen
    assert (seen.rows, seen.late, seen.untimed, seen.ahead) == (6, 2, 1, 1)
    assert (seen.max_time, seen.ahead_time) == (9 * SECOND, 99 * SECOND)
    assert sum(len(piece.content) for piece in prepared.pieces) == 3, "a row ahead of the clock counts"
    quiet = stage.prepare("a", rows, {"a": None}, 1)
    assert quiet.missed is None and not quiet.late.size


def test_results_that_are_aggregated_are_rows_of_a_stream() -> None:
    text = "FROM a [RANGE '3 s'], b [RANGE '3 s'] WHERE a.k = b.k"
    plain = read_join(f"SELECT a.n, b.n AS m {text}", "plain")
    counted = read_join(f"SELECT count(*) AS c, sum(a.x) AS s {text} GROUP BY window('5 s')", "counted")
    alone = JoinsStage(COMPILER.joins([plain], 1))
    assert alone.outputs == {} and alone.marks_out({"a": 1, "b": 1}) == {}
    stage = JoinsStage(COMPILER.joins([plain, counted], 1))
    assert list(stage.results) == ["plain"]
    assert stage.outputs == {JOINED: stage.joins.results.schema}
    assert stage.marks_out({"a": 7, "b": 5}) == {JOINED: 5}
    assert stage.marks_out({"a": 7, "b": None}) == {JOINED: None}
    run, table = CaseRun(stage, 2), stream(0, 30, 2, 3)
    own = run.pieces(step_of("ab", table))
    stepped = [state.step(own[state.bucket], {"a": None, "b": None}) for state in run.states]
    assert not any(result.outputs or result.answers for result in stepped), "they wait"
    stepped = [state.step([], stage.closing({"a": 15 * SECOND, "b": None}, {})) for state in run.states]
    fed = pa.concat_tables([table for result in stepped for table in result.outputs.values()])
    answered = pa.concat_tables([table for result in stepped for table in result.answers.values()])
    assert fed.schema == stage.outputs[JOINED]
    wanted = oracle(plain, {"a": table, "b": table})
    assert ordered(as_tuples(answered)) == ordered(wanted)
    assert sorted(fed.column("ts").cast(pa.int64()).to_pylist()) == sorted(row[0] for row in wanted)


def test_closing_marks_are_the_same_for_all_streams_and_never_go_back() -> None:
    stage = JoinsStage(COMPILER.joins([join("q", "a.k = b.k", "", (5, 5))], 1))
    assert stage.closing({"a": 7, "b": None}, {"a": 3, "b": None}) == {"a": 8, "b": 8}
    assert stage.closing({"a": 7, "b": 2}, {"a": 3, "b": 20}) == {"a": 20, "b": 20}
    assert stage.closing({"a": None, "b": None}, {"a": None, "b": None}) == {"a": None, "b": None}


def noted(run: CaseRun, step: CaseStep, results: Rows) -> list[Note]:
    """Take a step and collect its results; return the notes of all that was done."""
    stage, notes = run.stage, list[Note]()
    prepared = [stage.prepare(name, rows, run.marks, run.buckets) for name, rows in step.arrivals]
    for round_number in range(stage.rounds + 1):
        notes += [result.note for result in prepared]
        pieces = [piece for result in prepared for piece in result.pieces]
        own = [[p for p in pieces if p.bucket == bucket] for bucket in range(run.buckets)]
        if round_number < stage.rounds:
            prepared = [state.relay(own[state.bucket], round_number) for state in run.states]
    stepped = [state.step(own[state.bucket], step.marks, keep=False) for state in run.states]
    collect(run, stepped, step, results)
    return json.loads(json.dumps([*notes, *(result.note for result in stepped)]))


@pytest.mark.parametrize("buckets", [1, 3])
def test_slices_follow_the_rates(buckets: int) -> None:
    """At 1,000 rows a second and one pair in a hundred, slices per range are best; at one row, one slice."""
    queries = [join(f"q{n}", "a.k = b.k", "", (n, n)) for n in (1, 2, 3, 20)]
    stage = JoinsStage(COMPILER.joins(queries, 1), shape="cpu-opt")
    run, tuner, results = CaseRun(stage, buckets), stage.tuner(), dict[str, list[tuple[Any, ...]]]()
    batches = [step_of("ab", stream(first, 20)) for first in range(0, 100, 20)]
    for step in batches:
        tuner.learn(noted(run, step, results))
        tuned = tuner.tuned(run.stage)
        if tuned is not None:
            run = CaseRun(tuned, buckets, [state.moved(tuned) for state in run.states], run.marks)
    (rates,) = tuner.rates().values()
    assert rates.rows == pytest.approx((1.0, 1.0), rel=0.1)
    assert 0 < rates.join < 0.1
    assert len(run.stage.joins.ends[0][0]) < len(stage.joins.ends[0][0])
    assert run.stage.layout == stage.layout
    closed(run, batches, results)
    rows = admitted(stage, batches)
    for query in queries:
        assert ordered(results[query.name]) == ordered(oracle(query, rows))


@pytest.mark.parametrize("buckets", [1, 3])
def test_join_orders_follow_what_is_measured(buckets: int) -> None:
    """All rows of a and b have one key, few of a and c: those of a had better meet c first."""
    query = multiway_cases.join("q", "a.k = b.k AND a.x = c.x", "", (5, 5, 5))
    stage = JoinsStage(COMPILER.joins([query], 1))
    run, tuner, batches = CaseRun(stage, buckets), stage.tuner(), list[CaseStep]()
    results: Rows = {}
    assert tuner.tuned(stage) is None
    for first in range(0, 60, 20):
        rows = stream(first, 20, 2, 1).set_column(2, "x", pa.array(range(first, first + 20), pa.int64()))
        batches.append(step_of("abc", rows))
        notes = noted(run, batches[-1], results)
        tuner.learn(notes)
    assert sum(level[-1] for note in notes for level in note.get("work", ())) > 0
    tuned = tuner.tuned(stage)
    assert tuned is not None and tuned.orders[0] is not None
    assert tuned.orders[0][0] == (2, 1)
    assert tuner.tuned(tuned) is None
    followed = tuned.followed_by(COMPILER.joins([query, join("p", "a.k = b.k", "", (2, 2))], 2, stage.joins))
    assert followed.orders == (tuned.orders[0], None)
    moved = CaseRun(tuned, buckets, [state.moved(tuned) for state in run.states], run.marks)
    closed(moved, batches, results)
    assert ordered(results["q"]) == ordered(oracle(query, admitted(stage, batches)))
    assert all(state.chains[0].orders == tuned.orders[0] for state in moved.states)


@pytest.mark.parametrize("buckets", [1, 2, 4])
def test_joins_that_need_more_rounds_than_others(buckets: int) -> None:
    queries = [
        read_join(FOUR_SIDES, "four"),
        multiway_cases.join("three", "a.k = b.k AND b.x = c.x", "", (3, 2, 1)),
        join("two", "a.x < b.x", "", (2, 2)),
    ]
    stage = JoinsStage(COMPILER.joins(queries, 1))
    assert stage.rounds == 2
    run, results = CaseRun(stage, buckets), dict[str, list[tuple[Any, ...]]]()
    batches = [step_of("abc", stream(first, 8, 2, 3)) for first in (0, 8, 16)]
    for step, change in zip(batches, CHANGES):
        taken(run, step, results, change)
    assert len({state.rows > 0 for state in run.states}) == 1, "every bucket keeps some rows"
    closed(run, batches, results)
    rows = admitted(stage, batches)
    for query in queries:
        assert results[query.name]
        assert ordered(results[query.name]) == ordered(oracle(query, rows))


def test_a_stream_that_no_join_has_read_so_far() -> None:
    first, second = join("q", "a.k = b.k", "", (5, 5)), multiway_cases.join("t", "a.k = b.k", "", (5, 5, 5))
    stage = JoinsStage(COMPILER.joins([first], 1))
    run, results = CaseRun(stage, 2), dict[str, list[tuple[Any, ...]]]()
    taken(run, step_of("ab", stream(0, 20, keys=3)), results)
    at = StreamPosition(19 * SECOND, {**run.marks, "c": None})
    changed = JoinsStage(COMPILER.joins([first, second], 2, stage.joins, at))
    assert list(changed.inputs) == ["a", "b", "c"]
    run = CaseRun(changed, 2, [state.moved(changed) for state in run.states], {**run.marks, "c": None})
    batches = [step_of("abc", stream(20, 20, keys=3))]
    taken(run, batches[0], results)
    closed(run, batches, results)
    rows = {name: stream(0, 40, keys=3) for name in "ab"} | {"c": stream(20, 20, keys=3)}
    assert ordered(results["q"]) == ordered(oracle(first, rows))
    since = changed.exact_from("t").since
    assert since == 24 * SECOND
    wanted = [row for row in oracle(second, rows) if row[0] >= since]
    assert ordered([row for row in results["t"] if row[0] >= since]) == ordered(wanted)
