"""Windows counted in rows: what they hold, in which order, and that their state survives a restart."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import weft
from weft.errors import QueryError
from weft.model.window import Window
from weft.operators.contract import ArrivedRows
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.program import Axis
from weft.operators.windows.stage import WindowsStage
from weft.operators.windows.state import State
from weft.planning.plan import Plan
from weft.store.log import StateLayer
from weft.store.stage_layers import Attempt, add_layer, load

START = datetime.datetime(2024, 1, 1)


def table(*rows: tuple[int, str, int]) -> pa.Table:
    seconds, keys, values = zip(*rows)
    ts = pa.array([START + datetime.timedelta(seconds=s) for s in seconds], pa.timestamp("us"))
    return pa.table({"ts": ts, "k": pa.array(keys), "x": pa.array(values, pa.int64())})


def values(result: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(result[name].to_pylist() for name in names)))


def asked(text: str, rows: Any, **options: Any) -> list[tuple[Any, ...]]:
    (result,) = weft.run(weft.sql(text), rows, time="ts", **options).values()
    names = [n for n in result.column_names if not n.startswith("window_")]
    return values(result, *names)


#   rows     x  1  2  3  4  5  6  7
#   ROWS 3 SLIDE 2: a window ends with every second row, and holds three
#              [--]
#              [-----)  ...
def test_a_window_ends_with_every_slide_th_row() -> None:
    rows = table(*((i, "a", i) for i in range(1, 8)))
    text = "SELECT sum(x) AS s, count(*) AS n FROM t [ROWS 3 SLIDE 2]"
    assert asked(text, rows) == [(3, 2), (9, 3), (15, 3)]
    assert asked("SELECT sum(x) AS s FROM t [ROWS 3 SLIDE 2 OFFSET 1]", rows) == [(1,), (6,), (12,), (18,)]
    assert asked("SELECT sum(x) AS s FROM t [ROWS 3]", rows) == [(6,), (15,)]
    assert asked("SELECT sum(x) AS s FROM t [ROWS 1 SLIDE 3]", rows) == [(3,), (6,)]


def test_rows_are_counted_per_group_and_only_where_the_predicate_holds() -> None:
    rows = table((1, "a", 1), (2, "b", 10), (3, "a", -5), (4, "b", 20), (5, "a", 3), (6, "a", 4))
    text = "SELECT k, sum(x) AS s FROM t [ROWS 2] WHERE x > 0 GROUP BY k"
    assert sorted(asked(text, rows)) == [("a", 4), ("b", 30)]


def test_the_bounds_are_the_times_of_the_first_and_the_last_row() -> None:
    rows = table((1, "a", 1), (5, "a", 2), (9, "a", 3))
    (result,) = weft.run(weft.sql("SELECT sum(x) AS s FROM t [ROWS 2 SLIDE 1]"), rows, time="ts").values()
    seconds = [
        ((a - START).seconds, (b - START).seconds) for a, b in values(result, "window_start", "window_end")
    ]
    assert seconds == [(1, 1), (1, 5), (5, 9)]


def test_rows_come_in_order_of_time_and_then_of_arrival() -> None:
    rows = table((3, "a", 30), (1, "a", 10), (2, "a", 21), (2, "a", 22))
    text = "SELECT min(x) AS low, max(x) AS high FROM t [ROWS 2]"
    assert asked(text, rows) == [(10, 21), (22, 30)]
    assert asked(text, [rows.slice(i, 1) for i in range(4)], lateness="5 s") == [(10, 21), (22, 30)]


def test_a_row_waits_for_the_watermark_and_is_late_after_it() -> None:
    queries = weft.sql("-- name: q\nSELECT sum(x) AS s FROM t [ROWS 1]")
    first, second = table((1, "a", 1), (4, "a", 4)), table((2, "a", 2), (3, "a", 3), (9, "a", 9))
    run = weft.LocalRun(queries, first.schema, "ts", "1 s")
    assert values(run.step(first)["q"], "s") == [(1,)]  # the watermark is at 3 s
    assert values(run.step(second)["q"], "s") == [(3,), (4,)]
    assert run.seen.late == 1
    assert values(run.close()["q"], "s") == [(9,)]


def test_windows_in_rows_and_in_time_share_the_pass() -> None:
    rows = table(*((i, "ab"[i % 2], i) for i in range(20)))
    mixed = weft.sql(
        """
        SELECT k, sum(x) AS s FROM t [ROWS 4 SLIDE 2] GROUP BY k;
        SELECT k, sum(x) AS s FROM t [ROWS 6 SLIDE 3] GROUP BY k;
        SELECT k, sum(x) AS s FROM t [ROWS 2] WHERE x > 5 GROUP BY k;
        SELECT k, max(x) AS s FROM t [RANGE '4 s'] GROUP BY k;
        """
    )
    program = compile_plan(weft.plan(mixed), rows.schema, "ts")
    assert [g.axis for g in program.groupings] == [Axis.WAITING, Axis.ROWS, Axis.ROWS, Axis.TIME]
    assert [len(tree.queries) for tree in program.trees] == [2, 1, 1]
    together = weft.run(mixed, rows, time="ts")
    for query in mixed:
        assert together[query.name] == weft.run([query], rows, time="ts")[query.name]


def test_a_hand_made_plan_must_keep_them_in_one_tree() -> None:
    made = weft.plan(weft.sql("SELECT sum(x) AS s FROM t [ROWS 4]; SELECT sum(x) AS s FROM t [ROWS 6]"))
    (tree,) = made.trees
    apart = tuple(weft.plan([query]).trees[0] for query in tree.queries)
    with pytest.raises(QueryError, match="must be in one tree"):
        compile_plan(Plan(apart, "own", 1.0), table((1, "a", 1)).schema, "ts")


@pytest.mark.parametrize("technique", ["recompute", "soe", "slickdeque", "daba", "flatfit"])
def test_any_technique_that_fits_answers_them(technique: str) -> None:
    rows = table(*((i, "ab"[i % 2], i) for i in range(50)))
    text = "SELECT k, sum(x) AS s FROM t [ROWS 7 SLIDE 3] GROUP BY k"
    assert asked(text, rows, technique=technique) == asked(text, rows)


def test_layers_hold_what_a_restart_needs_and_no_more(tmp_path: Path) -> None:
    queries = weft.sql("SELECT k, sum(x) AS s, count(*) AS n FROM t [ROWS 10 SLIDE 4] WHERE x > 3 GROUP BY k")
    batches = [table(*((5 * b + i % 7, "abc"[i % 3], i) for i in range(12))) for b in range(60)]
    stage = WindowsStage("windows:", "", compile_plan(weft.plan(queries), batches[0].schema, "ts"))
    (expected,) = weft.run(queries, batches, time="ts", lateness="10 s").values()
    place, layers, found, sizes = str(tmp_path), tuple[StateLayer, ...](), [], []
    marks: dict[str, int | None] = {"": None}
    for seq, batch in enumerate(batches, 1):
        state = load(place, stage, 0, 1, layers, marks)
        made = stage.prepare("", ArrivedRows(batch), marks, 1)
        assert made.seen.max_time is not None
        marks = {"": max(marks[""] or 0, made.seen.max_time - 10_000_000)}
        stepped = state.step(made.pieces, marks)
        layers = add_layer(place, stage, state, stepped.fresh, layers, Attempt(seq, f"t{seq}"), marks)
        found += stepped.answers.values()
        sizes.append(sum(layer.rows for layer in layers))
    state = load(place, stage, 0, 1, layers, marks)
    found += state.step((), {"": 2**62}).answers.values()
    names = ("k", "window_start", "s", "n")
    assert sorted(values(pa.concat_tables(found), *names)) == sorted(values(expected, *names))
    assert max(sizes[30:]) <= 1.5 * max(sizes[15:30]), "the slice store stays small"


def test_a_group_that_is_quiet_for_long_goes_on_counting() -> None:
    queries = weft.sql("-- name: q\nSELECT k, sum(x) AS s FROM t [ROWS 2] GROUP BY k")
    batches = [table((0, "quiet", 1)), *(table((i, "busy", i), (i, "busy", i)) for i in range(1, 50))]
    batches.append(table((60, "quiet", 100)))
    (result,) = weft.run(queries, batches, time="ts").values()
    assert ("quiet", 101) in values(result, "k", "s")
    assert State(compile_plan(weft.plan(queries), batches[0].schema, "ts")).rows == 0


def test_the_plan_says_rows() -> None:
    plan = weft.plan(weft.sql("SELECT count(*) AS n FROM t [ROWS 1000 SLIDE 10]"), rate=500.0)
    assert plan.to_dict()["trees"][0]["queries"][0]["range"] == "1,000 rows"
    assert plan.trees[0].edge_rate == pytest.approx(50.0)
    assert "1,000 rows / 10 rows" in plan.to_svg()
    assert plan.trees[0].queries[0].window == Window(1000, 10, 0, rows=True)
