"""The stage of windows, where its laws alone would find a mistake only now and then."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

import weft
from support.contract_cases import CaseRun, CaseStep, restored
from support.contract_windows import SCHEMA, STREAM, TIME, define_own
from weft.errors import WeftError
from weft.operators.contract import ArrivedRows, Failed
from weft.operators.late import late_table
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.stage import WindowsStage

Row = tuple[int | None, str | None, float]


def stage(*texts: str, version: int = 1) -> WindowsStage:
    queries = [weft.sql(text)[0].renamed(f"q{number}") for number, text in enumerate(texts)]
    program = compile_plan(weft.plan(queries), SCHEMA, TIME, version=version)
    return WindowsStage("windows:trades", STREAM, program)


def rows(*several: Row) -> ArrivedRows:
    """Rows of time, key and value."""
    columns = {TIME: [r[0] for r in several], "k": [r[1] for r in several], "y": [r[2] for r in several]}
    blank = [1] * len(several)
    return ArrivedRows(
        pa.table({TIME: columns[TIME], "k": columns["k"], "h": blank, "x": blank, "y": columns["y"]}, SCHEMA)
    )


def step(mark: int | None, *tasks: ArrivedRows) -> CaseStep:
    return CaseStep(tuple((STREAM, task) for task in tasks), {STREAM: mark})


SHORT = "SELECT k, sum(x) AS s FROM trades [RANGE '2 us' SLIDE '2 us'] GROUP BY k"
LONG = "SELECT k, sum(x) AS s FROM trades [RANGE '20 us' SLIDE '2 us'] GROUP BY k"


def starts(state: object) -> Sequence[int]:
    (table,) = state.snapshot()  # type: ignore[attr-defined]
    return table.table.column("slice_start").to_pylist()


def test_dead_cells_do_not_come_to_life_for_a_longer_window() -> None:
    run = CaseRun(stage(SHORT), 1)
    alive = [(10, f"key{n}", 1.0) for n in range(20)]
    run.step(step(10, rows((0, "a", 1.0), *alive)))
    (state,) = run.states
    assert state.rows == 21, "one in twenty is not worth the move"
    assert set(starts(state.moved(stage(SHORT, LONG, version=2)))) == {10}


def test_a_state_is_what_is_stored_of_it_to_the_last_bit() -> None:
    define_own()
    mean = stage("SELECT py_mean(y) AS m FROM trades [RANGE '20 us' SLIDE '20 us']")
    steps = [
        step(None, rows((1, "a", 0.1))),
        step(None, rows((2, "a", 0.2)), rows((3, "a", 0.3))),
    ]
    run = CaseRun(mean, 1)
    run.steps(steps)
    loaded = restored(run, [[table for tables in run.fresh[0] for table in tables]])
    end = step(100)
    assert (0.1 + 0.2) + 0.3 != 0.1 + (0.2 + 0.3)
    assert run.step(end) == loaded.step(end)


def test_rows_that_missed_a_window() -> None:
    late = stage(SHORT, LONG)
    arrival = rows((0, "a", 1.0), (None, "b", 1.0), (30, "c", 1.0), (99, "d", 1.0))
    arrival = ArrivedRows(arrival.table, limit=50)
    prepared = late.prepare(STREAM, arrival, {STREAM: 10}, 1, keep_missed=True)
    assert prepared.late.tolist() == [True, False, False, False]
    assert (prepared.seen.rows, prepared.seen.late, prepared.seen.untimed, prepared.seen.ahead) == (
        4,
        1,
        1,
        1,
    )
    assert prepared.missed is not None
    table = late_table(arrival.table, SCHEMA, prepared.missed, 10)
    assert table.column("k").to_pylist() == ["a", "b", "d"]
    first, second, third = table.column("reason").to_pylist()
    assert first == "late for 6 of its 11 windows" and second == "no event time" and "ahead" in third
    assert late.prepare(STREAM, arrival, {STREAM: 10}, 1).missed is None
    in_time = late.prepare(STREAM, rows((30, "c", 1.0)), {STREAM: 10}, 1, keep_missed=True)
    assert in_time.missed is None and not in_time.late.size


def test_a_failing_query_is_named_and_nothing_is_to_be_stored() -> None:
    weft.define_aggregate(
        "breaks",
        lift=lambda x: x,
        combine=_breaking,
        lower=lambda s: s,
        identity=0.0,
        result="double",
        compiled=False,
        samples=[1.0, 2.0],
    )
    both = stage(SHORT, "SELECT breaks(y) AS b FROM trades [RANGE '20 us' SLIDE '20 us']")
    failed: Failed = {}
    pieces = [
        piece
        for value in (1.0, 1000.0)
        for piece in both.prepare(STREAM, rows((1, "a", value)), {STREAM: None}, 1).pieces
    ]
    result = both.state(0, 1).step(pieces, {STREAM: 50}, failed)
    assert list(failed) == ["q1"] and not result.fresh
    with pytest.raises(WeftError, match="q1"):
        both.state(0, 1).step(pieces, {STREAM: 50})


def _breaking(a: float, b: float) -> float:
    if a + b > 500:
        raise ZeroDivisionError("too much")
    return a + b


def test_closing_never_goes_back() -> None:
    both = stage(SHORT, LONG)
    assert both.closing({STREAM: None}, {STREAM: None}) == {STREAM: None}
    assert both.closing({STREAM: 9}, {STREAM: None}) == {STREAM: 28}
    assert both.closing({STREAM: 9}, {STREAM: 40}) == {STREAM: 40}


def test_what_no_query_needs_is_not_translated() -> None:
    by_key, alone = stage(SHORT), stage("SELECT count(*) AS n FROM trades [RANGE '2 us']", version=2)
    run = CaseRun(by_key, 1)
    run.step(step(None, rows((1, "a", 1.0))))
    ((table,),) = run.fresh[0]
    assert alone.translate(by_key.layout, table) is None
    assert alone.needed_until(by_key.layout, table.part, table.newest, table.needed_until) < 0
    assert (
        by_key.needed_until(by_key.layout, table.part, table.newest, table.needed_until) >= table.needed_until
    )


def test_origins_come_back() -> None:
    one = stage(SHORT)
    assert WindowsStage.origins(one.to_data()) == {"q0": one.program.entries[0].origin}
    assert one.exact_from("q0").since is None and one.renumbered(5).version == 5
