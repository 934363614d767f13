"""The laws of ``operators/contract.py``, for every operator that has cases in ``support.contract_NAME``."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import pickle
from collections.abc import Callable, Sequence
from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle

from support import strategies  # noqa: F401  (loads the profile)
from support.contract_cases import (
    CaseRun,
    CaseStep,
    ContractCase,
    answers_of,
    closing_step,
    contents,
    restored,
    typed_rows,
)
from weft.operators.contract import Kept, Piece, Stage, Stepped

EXAMPLES_SHARE = 1 / 3
"""Of the examples of the profile: a case has several steps, each taken several times."""

MODULES = [
    importlib.import_module(f"support.contract_{name}")
    for name in ("windows", "joins")
    if importlib.util.find_spec(f"support.contract_{name}")
]


def over_operators(
    law: Callable[[ContractCase, st.DataObject], None], inexact: bool = False
) -> Callable[[ModuleType], None]:
    """The law as a test of each operator; ``inexact`` values depend on the order of adding them up."""

    def test(operator: ModuleType) -> None:
        cases = getattr(operator, "inexact_cases", operator.cases) if inexact else operator.cases
        fewer = settings(max_examples=round(settings.default.max_examples * EXAMPLES_SHARE))
        fewer(given(case=cases(), data=st.data())(law))()

    test.__doc__ = law.__doc__
    names = [module.__name__.removeprefix("support.contract_") for module in MODULES]
    return pytest.mark.slow(pytest.mark.parametrize("operator", MODULES, ids=names)(test))


def begin(case: ContractCase, steps: int) -> CaseRun:
    """A run that has taken so many steps."""
    run = CaseRun(case.stage, case.buckets)
    run.steps(case.steps[:steps])
    return run


def cut(case: ContractCase, data: st.DataObject) -> int:
    """So many steps, mostly some before and some behind."""
    middle = st.integers(min(1, len(case.steps)), max(0, len(case.steps) - 1))
    return data.draw(middle | st.just(len(case.steps)), label="steps before")


def same_from_here(case: ContractCase, steps: Sequence[CaseStep], *runs: CaseRun) -> None:
    """Runs answer the same from here on, step by step, and when they are closed."""
    for step in steps:
        first, *others = [run.step(step) for run in runs]
        assert all(other == first for other in others)
    first, *others = [run.step(closing_step(case, run)) for run in runs]
    assert all(other == first for other in others)


def snapshots(case: ContractCase, run: CaseRun) -> list[object]:
    return [contents(case, state.snapshot()) for state in run.states]


def _a_snapshot_restores_a_state(case: ContractCase, data: st.DataObject) -> None:
    at = cut(case, data)
    run = begin(case, at)
    again = restored(run, [state.snapshot() for state in run.states])
    assert snapshots(case, again) == snapshots(case, run)
    assert [state.rows for state in again.states] == [state.rows for state in run.states]
    same_from_here(case, case.steps[at:], run, again)


def _what_steps_add_is_the_snapshot(case: ContractCase, data: st.DataObject) -> None:
    at = cut(case, data)
    run = begin(case, at)
    for bucket, state in enumerate(run.states):
        tables = [table for step in run.fresh[bucket] for table in step if is_needed(table, run)]
        bounds = data.draw(st.lists(st.integers(0, len(tables)), max_size=3).map(sorted), label="groups")
        groups = [tables[low:high] for low, high in itertools.pairwise([0, *bounds, len(tables)])]
        compacted = [table for group in groups for table in case.stage.compact(group, run.marks)]
        assert len({table.part for table in compacted}) <= len(compacted)
        whole = case.stage.compact(compacted, run.marks)
        assert len({table.part for table in whole}) == len(whole), "one table for each part"
        assert contents(case, whole) == contents(case, state.snapshot())
    layered = restored(run, [list(itertools.chain.from_iterable(steps)) for steps in run.fresh])
    same_from_here(case, case.steps[at:], run, layered)


def is_needed(table: Kept, run: CaseRun) -> bool:
    """Whether a table may be needed, by its own account."""
    marks = list(run.marks.values())
    return any(mark is None or table.needed_until > mark for mark in marks)


def _looking_changes_nothing(case: ContractCase, data: st.DataObject) -> None:
    quiet, disturbed = (CaseRun(case.stage, case.buckets) for _ in range(2))
    for step in case.steps:
        for state in disturbed.states:
            if data.draw(st.booleans(), label="forget"):
                state.forget_carried()
            for query in case.stage.results:
                state.read(query)
        for state, pieces in zip(disturbed.states, disturbed.prepared(step)):
            state.relay(pieces, 0)
        assert disturbed.step(step) == quiet.step(step)
    assert snapshots(case, disturbed) == snapshots(case, quiet)
    same_from_here(case, [], quiet, disturbed)


def _reading_is_the_end_of_the_stream(case: ContractCase, data: st.DataObject) -> None:
    run = begin(case, cut(case, data))
    read = {
        name: sorted((row for state in run.states for row in typed_rows(state.read(name))), key=repr)
        for name in case.stage.results
    }
    ended = run.step(closing_step(case, run))
    assert read == {name: ended.get(name, []) for name in case.stage.results}


def _moved_is_translated(case: ContractCase, data: st.DataObject) -> None:
    moved, tables = (begin(case, case.change_after) for _ in range(2))
    layout = json.loads(json.dumps(case.stage.layout))
    translated: list[list[Kept]] = []
    for state in tables.states:
        translated.append([])
        for table in state.snapshot():
            carried = case.changed.translate(layout, table)
            until = case.changed.needed_until(layout, table.part, table.newest, table.needed_until)
            assert carried is None or carried.needed_until <= until
            translated[-1] += [] if carried is None else [carried]
    marks = moved.marks
    moved = CaseRun(case.changed, case.buckets, [state.moved(case.changed) for state in moved.states], marks)
    loaded = restored(CaseRun(case.changed, case.buckets, None, marks), translated)
    assert snapshots(case, moved) == snapshots(case, loaded)
    same_from_here(case, case.steps[case.change_after :], moved, loaded)


def _moved_to_the_same_is_the_same(case: ContractCase, data: st.DataObject) -> None:
    at = cut(case, data)
    run, other = (begin(case, at) for _ in range(2))
    renumbered = case.stage.renumbered(7)
    states = [state.moved(renumbered) for state in other.states]
    moved = CaseRun(renumbered, case.buckets, states, other.marks)
    assert all(state.stage.version == 7 for state in moved.states)
    assert snapshots(case, moved) == snapshots(case, run)
    same_from_here(case, case.steps[at:], run, moved)


def _split_states_answer_as_the_one(case: ContractCase, data: st.DataObject) -> None:
    at, factor = cut(case, data), data.draw(st.integers(1, 3), label="factor")
    run, other = (begin(case, at) for _ in range(2))
    buckets = case.buckets * factor
    states = [part for state in other.states for part in state.split(buckets)]
    assert sorted(state.bucket for state in states) == list(range(buckets))
    states.sort(key=lambda state: state.bucket)
    same_from_here(case, case.steps[at:], run, CaseRun(case.stage, buckets, states, other.marks))


def _merged_pieces_answer_the_same(case: ContractCase, data: st.DataObject) -> None:
    plain, merged, packed = (CaseRun(case.stage, case.buckets) for _ in range(3))
    for step in case.steps:
        # A state that nobody stores may take pieces as they are.
        wanted = plain.step(step, keep=False)
        assert merged.step(step, lambda stage, pieces: stage.merge(pieces)) == wanted
        assert packed.step(step, through_ipc) == wanted
    assert snapshots(case, merged) == snapshots(case, packed) == snapshots(case, plain)
    same_from_here(case, [], plain, merged, packed)


def through_ipc(stage: Stage, pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces as another process has them."""
    arrived = []
    for piece in pieces:
        batch = stage.pack(piece)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        (batch,) = pa.ipc.open_stream(sink.getvalue())
        arrived.append(stage.unpack(piece.bucket, piece.part, batch))
    return arrived


def _a_step_made_again_gives_the_same_bits(case: ContractCase, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(case.steps) - 1), label="steps before")
    run, step = begin(case, at), case.steps[at]
    kept = [state.snapshot() for state in run.states]
    pieces = run.pieces(step)
    attempts = [
        [state.step(own, step.marks) for state, own in zip(restored(run, kept).states, pieces)]
        for _ in range(2)
    ]
    for first, second in zip(*attempts):
        assert bits(first) == bits(second)
    # Nor does it matter whether the state was there or had to be loaded, from the tables of all steps.
    layered = restored(run, [list(itertools.chain.from_iterable(steps)) for steps in run.fresh])
    loaded = [state.step(own, step.marks) for state, own in zip(layered.states, pieces)]
    held = [state.step(own, step.marks) for state, own in zip(run.states, pieces)]
    assert answers_of(loaded) == answers_of(held) == answers_of(attempts[0])


def bits(result: Stepped) -> list[object]:
    """All that a step gives, in its order."""
    tables = [*result.answers.items(), *result.outputs.items(), *((k.part, k.table) for k in result.fresh)]
    return [(name, typed_rows(pa.table(table.columns, names=table.schema.names))) for name, table in tables]


def _a_stage_can_be_sent(case: ContractCase, data: st.DataObject) -> None:
    sent = pickle.loads(cloudpickle.dumps(case.stage))
    assert sent.layout == case.stage.layout and sent.results == case.stage.results
    assert json.loads(json.dumps(case.stage.to_data())) == case.stage.to_data()


test_law_1_a_snapshot_restores_a_state = over_operators(_a_snapshot_restores_a_state)
test_law_2_what_steps_add_is_the_snapshot = over_operators(_what_steps_add_is_the_snapshot)
test_law_3_looking_changes_nothing = over_operators(_looking_changes_nothing)
test_law_3_reading_is_the_end_of_the_stream = over_operators(_reading_is_the_end_of_the_stream)
test_law_4_moved_is_translated = over_operators(_moved_is_translated)
test_law_4_moved_to_the_same_is_the_same = over_operators(_moved_to_the_same_is_the_same)
test_law_5_split_states_answer_as_the_one = over_operators(_split_states_answer_as_the_one)
test_law_6_merged_pieces_answer_the_same = over_operators(_merged_pieces_answer_the_same)
test_law_7_a_step_made_again_gives_the_same_bits = over_operators(
    _a_step_made_again_gives_the_same_bits, inexact=True
)
test_a_stage_can_be_sent = over_operators(_a_stage_can_be_sent)
