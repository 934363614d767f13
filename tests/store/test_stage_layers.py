"""Layers of a stage's state: what is written and when, and that a state can be had of them at any time."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from weft.errors import CheckpointError
from weft.operators.contract import ArrivedRows, Kept, Marks
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.stage import WindowsStage
from weft.store.checkpoint import Checkpoint
from weft.store.log import Entry, StageState, StateLayer
from weft.store.stage_layers import (
    MAX_LAYERS,
    Attempt,
    add_layer,
    catch_up,
    layers_for,
    load,
    read_layer,
)
from weft.store.version_file import QueryVersion, StageVersion

START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
MINUTE = 60_000_000
SHORT = "SELECT k, sum(x) AS s FROM t [RANGE '2 min' SLIDE '1 min'] GROUP BY k"
LONG = "SELECT max(x) AS m FROM t [RANGE '30 min' SLIDE '10 min']"
LONGER = "SELECT max(x) AS m FROM t [RANGE '60 min' SLIDE '10 min']"


def batch(minute: int, rows: int = 20) -> pa.Table:
    """Rows of one minute, with a null among the keys."""
    ts = [START + datetime.timedelta(minutes=minute, seconds=i) for i in range(rows)]
    return pa.table({"ts": ts, "k": ["a", None, "b", "c"] * (rows // 4), "x": range(minute, minute + rows)})


def stage_of(version: int = 1, **queries: str) -> WindowsStage:
    text = ";\n".join(f"-- name: {name}\n{query}" for name, query in queries.items())
    program = compile_plan(weft.plan(weft.sql(text)), batch(0).schema, "ts", version=version)
    return WindowsStage("windows:t", "t", program)


@pytest.fixture(scope="module")
def stage() -> WindowsStage:
    return stage_of(short=SHORT, long=LONG)


def marks_of(minute: int | None) -> Marks:
    return {"t": None if minute is None else int(START.timestamp() * 1e6) + minute * MINUTE}


NO_MARKS: Marks = {"t": None}


def fresh_of(minute: int, stage: WindowsStage, marks: Marks = NO_MARKS) -> Sequence[Kept]:
    pieces = stage.prepare("t", ArrivedRows(batch(minute)), NO_MARKS, 1).pieces
    return stage.state(0, 1).step(pieces, marks).fresh


def test_a_long_run_keeps_few_files_and_every_state_can_be_rebuilt(
    tmp_path: Path, stage: WindowsStage
) -> None:
    place = str(tmp_path)
    checkpoint = Checkpoint(place)
    checkpoint.claim()
    state, layers, most = stage.state(0, 1), tuple[StateLayer, ...](), 0
    for seq in range(1, 121):
        before, marks = marks_of(None if seq == 1 else seq - 1), marks_of(seq)
        pieces = stage.prepare("t", ArrivedRows(batch(seq)), before, 1).pieces
        stepped = state.step(pieces, marks)
        if seq % 7 == 1 or seq > 110:
            rebuilt = load(place, stage, 0, 1, layers, before)
            assert rebuilt.step(pieces, marks).answers == stepped.answers
        layers = add_layer(place, stage, state, stepped.fresh, layers, Attempt(seq, f"t{seq}"), marks)
        checkpoint.mark_delivered(seq - 1)
        checkpoint.publish(
            Entry(seq, f"t{seq}", "batch", seq - 1, 1, 1, {stage.name: StageState(marks, (layers,))})
        )
        most = max(most, len(os.listdir(tmp_path / "slices")))
    assert most <= 3 * 2 * MAX_LAYERS + 2 * 10, "and those of ten steps that a stream can go back to"
    assert sum(layer.rows for layer in layers) <= 3 * state.rows
    assert all(a.last < b.first for a, b in pairwise(layers))


def test_layers_that_nobody_needs_are_dropped(tmp_path: Path, stage: WindowsStage) -> None:
    place, state = str(tmp_path), stage.state(0, 1)
    layers = add_layer(place, stage, state, fresh_of(0, stage), (), Attempt(1, "a"), NO_MARKS)
    assert layers[0].needed_until == marks_of(30)["t"]
    assert add_layer(place, stage, state, [], layers, Attempt(2, "b"), marks_of(29)) == layers
    assert add_layer(place, stage, state, [], layers, Attempt(2, "b"), marks_of(30)) == ()
    assert add_layer(place, stage, state, [], layers, Attempt(2, "b"), {"t": None}) == layers


def test_what_is_answered_at_once_is_never_written(tmp_path: Path, stage: WindowsStage) -> None:
    place, state = str(tmp_path), stage.state(0, 1)
    fresh = fresh_of(0, stage)
    assert add_layer(place, stage, state, fresh, (), Attempt(1, "a"), marks_of(30)) == ()
    (layer,) = add_layer(place, stage, state, fresh, (), Attempt(1, "a"), marks_of(5))
    assert {file.part for file in layer.files} == {"1"}, "only the long window is still open"
    assert layer.files[0].name == "0000000001-0000-windows_3at-1-a.0.parquet"


def test_catching_up_is_as_rebuilding(tmp_path: Path, stage: WindowsStage) -> None:
    place, layers = str(tmp_path), tuple[StateLayer, ...]()
    old = stage.state(0, 1)
    for seq in range(1, 5):
        layers = add_layer(
            place, stage, stage.state(0, 1), fresh_of(seq, stage), layers, Attempt(seq, "t"), NO_MARKS
        )
        if seq == 2:
            catch_up(place, old, layers, marks_of(2))
    catch_up(place, old, [layer for layer in layers if layer.last > 2], marks_of(3))
    rebuilt = load(place, stage, 0, 1, layers, marks_of(3))
    answers = [state.step([], marks_of(60)).answers for state in (old, rebuilt)]
    assert answers[0].keys() == answers[1].keys() == {"short", "long"}
    for name, table in answers[0].items():
        order = [(column, "ascending") for column in table.column_names]
        assert table.sort_by(order) == answers[1][name].sort_by(order)


def test_layers_of_another_version_are_translated_and_kept_as_long_as_needed(
    tmp_path: Path, stage: WindowsStage
) -> None:
    place = str(tmp_path)
    checkpoint = Checkpoint(place)
    checkpoint.write_version(QueryVersion(1, 1, {}, (), (), {stage.name: StageVersion(stage.layout)}, {}, {}))
    layers = add_layer(place, stage, stage.state(0, 1), fresh_of(0, stage), (), Attempt(1, "a"), NO_MARKS)

    def layout_of(version: int) -> object:
        return checkpoint.layout(version, stage.name)

    longer = stage_of(2, longer=LONGER, short=SHORT)
    ((layer,),) = layers_for(longer, (layers,), layout_of)  # type: ignore[arg-type]
    assert layer.needed_until == marks_of(60)["t"]
    assert {table.part for table in read_layer(place, layer, longer, layout_of)} == {"0", "1"}  # type: ignore[arg-type]
    only_short = stage_of(3, short=SHORT)
    ((layer,),) = layers_for(only_short, (layers,), layout_of)  # type: ignore[arg-type]
    assert layer.needed_until == marks_of(2)["t"]
    (table,) = read_layer(place, layer, only_short, layout_of)  # type: ignore[arg-type]
    assert table.part == "0"
    assert layers_for(stage, (layers,), layout_of) == (layers,)  # type: ignore[arg-type]
    loaded = load(place, only_short, 0, 1, layers, NO_MARKS)
    assert loaded.step([], marks_of(60)).answers["short"].num_rows == 8


def test_tables_of_one_part_do_not_overwrite_each_other(tmp_path: Path, stage: WindowsStage) -> None:
    fresh = [*fresh_of(0, stage), *fresh_of(1, stage)]
    (layer,) = add_layer(str(tmp_path), stage, stage.state(0, 1), fresh, (), Attempt(1, "a"), NO_MARKS)
    assert len({file.name for file in layer.files}) == len(fresh) == 4


def test_files_are_checked(tmp_path: Path, stage: WindowsStage) -> None:
    place = str(tmp_path)
    (layer,) = add_layer(place, stage, stage.state(0, 1), fresh_of(0, stage), (), Attempt(1, "a"), NO_MARKS)
    path = tmp_path / "slices" / layer.files[0].name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=f"damaged, '{path}'"):
        load(place, stage, 0, 1, (layer,), NO_MARKS)
    path.unlink()
    with pytest.raises(CheckpointError, match=f"missing, '{path}'"):
        load(place, stage, 0, 1, (layer,), NO_MARKS)


def test_a_place_that_cannot_be_written_to_is_said(tmp_path: Path, stage: WindowsStage) -> None:
    (tmp_path / "slices").write_text("in the way")
    with pytest.raises(CheckpointError, match=r"cannot write .*; state could not be saved"):
        add_layer(str(tmp_path), stage, stage.state(0, 1), fresh_of(0, stage), (), Attempt(1, "a"), NO_MARKS)


def test_merging_stops_where_queries_fail(
    tmp_path: Path, stage: WindowsStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, layers = str(tmp_path), tuple[StateLayer, ...]()
    for seq in range(1, MAX_LAYERS + 1):
        layers = add_layer(
            place, stage, stage.state(0, 1), fresh_of(seq, stage), layers, Attempt(seq, "t"), NO_MARKS
        )
    big = replace(layers[0], files=tuple(replace(f, rows=10_000) for f in layers[0].files))

    def compact(self: WindowsStage, kept: object, marks: object, failed: dict[str, object]) -> list[Kept]:
        failed["short"] = CheckpointError("cannot")
        return []

    monkeypatch.setattr(WindowsStage, "compact", compact)
    failed: dict[str, weft.errors.WeftError] = {}
    add_layer(
        place,
        stage,
        stage.state(0, 1),
        fresh_of(99, stage),
        (big, *layers[1:]),
        Attempt(99, "t"),
        NO_MARKS,
        failed,
    )
    assert list(failed) == ["short"]
    assert not [name for name in os.listdir(tmp_path / "slices") if name.startswith(f"{99:010}")]
