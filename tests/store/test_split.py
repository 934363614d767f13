"""State split again: nothing is lost or there twice, and which copy goes on of what has no keys."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from support import contract_joins
from support.contract_cases import CaseRun, CaseStep, ContractCase, closing_step
from support.places import GOLDEN
from weft.errors import JobError
from weft.expr import hashing
from weft.operators.contract import ArrivedRows, Stage
from weft.operators.keys import KeyIndex
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.program import Origin
from weft.operators.windows.stage import WindowsStage
from weft.store.checkpoint import Checkpoint
from weft.store.log import Entry, StageState
from weft.store.split import CopyingStage, split_again
from weft.store.stage_layers import Attempt, add_layer, layouts_at, load, read_layer
from weft.store.version_file import QueryVersion, StageVersion

CHECKPOINT = GOLDEN / "checkpoints" / "format-3-windows" / "checkpoint"
TYPES = {
    "ts": pa.timestamp("us", "UTC"),
    "symbol": pa.string(),
    "venue": pa.int32(),
    "level": pa.float64(),
    "day": pa.date32(),
}

QUERIES = """
-- name: a
SELECT count(*) AS n FROM s [RANGE '4 s'];
-- name: b
SELECT sum(x) AS s FROM s [RANGE '6 s'];
-- name: c
SELECT x, count(*) AS n FROM s [RANGE '6 s'] GROUP BY x;
-- name: d
SELECT count(*) AS n FROM s [ROWS 4]
"""
FIRST, CAME = Origin(), Origin(since=50, latest_when_added=40)
SCHEMA = pa.schema({"ts": pa.timestamp("us"), "x": pa.int64()})


def stage_of(buckets: int, **origins: Origin) -> WindowsStage:
    program = compile_plan(weft.plan(weft.sql(QUERIES)), SCHEMA, "ts", buckets=buckets, origins=origins)
    return WindowsStage("windows:", "", program)


def copies(buckets: int, before: int, **origins: Origin) -> dict[str, dict[int, int]]:
    stage = stage_of(buckets, **origins)
    shapes = stage.program.layout.groupings
    return {shapes[int(part)].axis: dict(homes) for part, homes in stage.copies(before).items()}


def at(bucket: int, origin: Origin = FIRST) -> Origin:
    return replace(origin, bucket=bucket)


def test_a_copy_moves_with_its_queries() -> None:
    both = {"a": at(4), "b": at(1), "d": at(2)}
    assert copies(3, 5, **both) == {"time": {1: 4}, "waiting": {2: 2}, "rows": {2: 2}}
    assert copies(8, 5, **both) == {"time": {4: 4, 1: 1}, "waiting": {2: 2}, "rows": {2: 2}}


def test_queries_that_shared_a_bucket_each_take_it_along() -> None:
    # Numbers 1 and 4 were one bucket of three, and are two of five.
    assert copies(5, 3, a=at(4), b=at(1, CAME), d=at(0))["time"] == {4: 1, 1: 1}


def test_of_several_the_one_that_has_everything_goes_on() -> None:
    assert copies(1, 3, a=at(2), b=at(1, CAME), d=at(0))["time"] == {0: 2}
    assert copies(1, 3, a=at(2, CAME), b=at(1), d=at(0))["time"] == {0: 1}


def test_none_has_everything() -> None:
    came = {"a": at(2, CAME), "b": at(1, CAME), "d": at(0)}
    with pytest.raises(
        JobError, match=r"in buckets 1, 2, none of which has all of it.* together in 1; leave"
    ):
        copies(1, 3, **came)
    assert copies(2, 3, **came)["time"] == {0: 2, 1: 1}


def rows_by_part(place: str, stage: Stage, entry: Entry) -> dict[str, list[str]]:
    state = entry.stages[stage.name]
    rows: dict[str, list[str]] = {}
    for bucket, layers in enumerate(state.layers):
        for table in load(place, stage, bucket, entry.buckets, layers, state.marks).snapshot():
            rows.setdefault(table.part, []).extend(map(repr, table.table.to_pylist()))
    return {part: sorted(texts) for part, texts in rows.items()}


@pytest.mark.parametrize("buckets", [1, 2, 3, 5])
def test_what_a_checkpoint_holds_is_all_there_once_and_in_its_bucket(tmp_path: Path, buckets: int) -> None:
    place = str(tmp_path / "checkpoint")
    shutil.copytree(CHECKPOINT, place)
    checkpoint = Checkpoint(place)
    version = checkpoint.version()
    assert version is not None
    last = checkpoint.claim()
    schema = pa.schema({name: TYPES.get(name, pa.int64()) for name in version.streams[""].types})
    origins = WindowsStage.origins(version.stages["windows:"].data)

    def compiled(buckets: int) -> WindowsStage:
        program = compile_plan(
            weft.plan(version.queries), schema, "ts", buckets=buckets, origins=origins, version=1
        )
        return WindowsStage("windows:", "", program)

    files = set((tmp_path / "checkpoint" / "slices").iterdir())
    stage = compiled(buckets)
    split_again(checkpoint, SimpleNamespace(stages=[stage]), buckets)
    made = checkpoint.last
    assert made is not None
    assert (made.buckets, len(made.stages["windows:"].layers), made.hash) == (buckets, buckets, hashing.NAME)
    assert (made.seq, made.token != last.token) == (last.seq, True)
    assert rows_by_part(place, stage, made) == rows_by_part(place, compiled(3), last)
    for bucket, layers in enumerate(made.stages["windows:"].layers):
        tables = [
            t for layer in layers for t in read_layer(place, layer, stage, layouts_at(place, stage.name))
        ]
        for table in tables:
            grouping = stage.program.groupings[int(table.part)]
            if grouping.keys:
                index = KeyIndex(grouping.key_types)
                group = index.encode(table.table.columns[: len(grouping.keys)])
                assert set(index.buckets(group, buckets).tolist()) == {bucket}
    # Nothing is committed, and what was is untouched.
    assert Checkpoint(place).last == last
    assert files <= set((tmp_path / "checkpoint" / "slices").iterdir())
    split_again(checkpoint, SimpleNamespace(stages=[stage]), buckets)
    assert checkpoint.last is made, "it is split already"


def saved(checkpoint: Checkpoint, run: CaseRun, seq: int) -> Entry:
    """Publish the state of a run as a step of one layer in each bucket."""
    layers = tuple(
        add_layer(
            checkpoint.place,
            run.stage,
            state,
            state.snapshot(),
            (),
            Attempt(seq, f"t{seq}"),
            run.marks,
        )
        for state in run.states
    )
    return checkpoint.publish(
        Entry(
            seq,
            f"t{seq}",
            "batch",
            seq - 1,
            run.stage.version,
            run.buckets,
            {run.stage.name: StageState(dict(run.marks), layers)},
        )
    )


def begun(place: str, stage: Stage) -> Checkpoint:
    checkpoint = Checkpoint(place)
    checkpoint.claim()
    if checkpoint.next_version() == 1:
        stages = {stage.name: StageVersion(stage.layout)}
        checkpoint.write_version(QueryVersion(stage.version, 1, {}, (), (), stages, {}, {}))
    return checkpoint


def split_run(checkpoint: Checkpoint, stage: Stage, buckets: int) -> CaseRun:
    """The run that goes on in so many buckets."""
    split_again(checkpoint, SimpleNamespace(stages=[stage]), buckets)
    last = checkpoint.last
    assert last is not None
    state = last.stages[stage.name]
    states = [
        load(checkpoint.place, stage, bucket, buckets, layers, state.marks)
        for bucket, layers in enumerate(state.layers)
    ]
    return CaseRun(stage, buckets, states, state.marks)


FEWER = settings(max_examples=max(5, settings.default.max_examples // 5))


@FEWER
@given(case=contract_joins.cases(), turns=st.lists(st.integers(1, 4), min_size=1, max_size=3), data=st.data())
def test_joins_go_on_in_any_number_of_buckets(
    tmp_path_factory: pytest.TempPathFactory, case: ContractCase, turns: list[int], data: st.DataObject
) -> None:
    place = str(tmp_path_factory.mktemp("checkpoint"))
    assert not isinstance(case.stage, CopyingStage)
    stage = case.stage if case.stage.version else case.stage.renumbered(1)
    quiet, moving = (CaseRun(stage, case.buckets) for _ in range(2))
    bounds = sorted(data.draw(st.integers(0, len(case.steps)), label="cut") for _ in turns)
    pieces = [case.steps[low:high] for low, high in itertools.pairwise([0, *bounds, len(case.steps)])]
    assert quiet.steps(pieces[0]) == moving.steps(pieces[0])
    for number, (buckets, steps) in enumerate(zip(turns, pieces[1:]), 1):
        checkpoint = begun(place, stage)
        saved(checkpoint, moving, number)
        moving = split_run(checkpoint, stage, buckets)
        assert quiet.steps(steps) == moving.steps(steps)
    assert quiet.step(closing_step(case, quiet)) == moving.step(closing_step(case, moving))


@pytest.mark.parametrize("turns", [(3, 2, 4, 1, 3), (1, 5, 2), (4, 4, 6)])
def test_windows_with_and_without_keys_go_on_in_any_number_of_buckets(
    tmp_path: Path, turns: tuple[int, ...]
) -> None:
    texts = [
        f"-- name: every_{n}\nSELECT count(*) AS n, sum(x) AS s FROM s [RANGE '{n} s']" for n in (7, 11, 13)
    ]
    texts += ["-- name: rows\nSELECT sum(x) AS s FROM s [ROWS 30]"]
    texts += ["-- name: keyed\nSELECT x, count(*) AS n FROM s [RANGE '20 s' SLIDE '5 s'] GROUP BY x"]
    plan = weft.plan(weft.sql(";\n".join(texts)), strategy="no-share", nodes=3)

    def stage_in(buckets: int, origins: dict[str, Origin]) -> WindowsStage:
        program = compile_plan(plan, SCHEMA, "ts", buckets=buckets, origins=origins, version=1)
        return WindowsStage("windows:", "", program)

    def step(number: int) -> CaseStep:
        times = [number * 4_000_000 + i * 200_000 for i in range(20)]
        table = pa.table({"ts": pa.array(times, pa.timestamp("us")), "x": [i % 5 for i in range(20)]})
        return CaseStep((("", ArrivedRows(table.cast(SCHEMA))),), {"": number * 4_000_000})

    place, origins = str(tmp_path), dict[str, Origin]()
    alone = CaseRun(stage_in(1, {}), 1)
    run: CaseRun | None = None
    for number, buckets in enumerate(turns, 1):
        stage = stage_in(buckets, origins)
        origins = {entry.query.name: entry.origin for entry in stage.program.entries}
        checkpoint = begun(place, stage)
        run = CaseRun(stage, buckets) if run is None else split_run(checkpoint, stage, buckets)
        assert run.step(step(number)) == alone.step(step(number))
        checkpoint.last = replace(checkpoint.last, buckets=buckets)
        saved(checkpoint, run, number)
    assert len({origin.bucket for origin in origins.values() if origin.bucket is not None}) == min(
        3, turns[0]
    )
    assert run is not None
    last = CaseStep((), {"": 200_000_000})
    assert run.step(last) == alone.step(last)
