"""Layers of windows and joins: a run whose state goes through files at every step is as one in memory."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import contract_joins, contract_windows
from support.contract_cases import CaseRun, ContractCase, closing_step
from weft.operators.contract import Stage
from weft.store import stage_layers
from weft.store.checkpoint import Checkpoint
from weft.store.log import StateLayer
from weft.store.stage_layers import Attempt, add_layer, layers_for, load
from weft.store.version_file import QueryVersion, StageVersion

FEWER = settings(max_examples=max(5, settings.default.max_examples // 5))


def check(place: str, case: ContractCase, most: int, data: st.DataObject) -> None:
    checkpoint = Checkpoint(place)
    old = case.stage if case.stage.version else case.stage.renumbered(1)
    new = case.changed.renumbered(old.version + 1)
    for number, stage in ((old.version, old), (new.version, new)):
        stages = {stage.name: StageVersion(stage.layout)}
        checkpoint.write_version(QueryVersion(number, number, {}, (), (), stages, {}, {}))
    memory, stored = (CaseRun(old, case.buckets) for _ in range(2))
    layers: list[tuple[StateLayer, ...]] = [()] * case.buckets

    def layout_of(version: int) -> object:
        return checkpoint.layout(version, old.name)

    def loaded(stage: Stage, marks: object) -> CaseRun:
        states = [
            load(place, stage, bucket, case.buckets, own, marks)  # type: ignore[arg-type]
            for bucket, own in enumerate(layers)
        ]
        return CaseRun(stage, case.buckets, states, marks)  # type: ignore[arg-type]

    stage_layers.MAX_LAYERS, before = most, stage_layers.MAX_LAYERS
    try:
        for seq, step in enumerate([*case.steps, None], 1):
            if seq == case.change_after + 1:
                memory = CaseRun(new, case.buckets, [s.moved(new) for s in memory.states], memory.marks)
                layers = list(layers_for(new, layers, layout_of))  # type: ignore[arg-type]
            if data.draw(st.booleans(), label="load") or stored.stage is not memory.stage:
                stored = loaded(memory.stage, memory.marks)
            step = closing_step(case, memory) if step is None else step
            assert stored.step(step) == memory.step(step)
            layers = [
                add_layer(
                    place,
                    stored.stage,
                    state,
                    stored.fresh[state.bucket][-1],
                    layers[state.bucket],
                    Attempt(seq, f"t{seq}"),
                    step.marks,
                )
                for state in stored.states
            ]
            assert all(len(own) <= most for own in layers)
    finally:
        stage_layers.MAX_LAYERS = before


@pytest.mark.parametrize("operator", [contract_windows, contract_joins], ids=["windows", "joins"])
def test_a_state_in_layers_is_as_one_in_memory(
    tmp_path_factory: pytest.TempPathFactory, operator: ModuleType
) -> None:
    @FEWER
    @given(case=operator.cases(), most=st.integers(1, 4), data=st.data())
    def run(case: ContractCase, most: int, data: st.DataObject) -> None:
        check(str(tmp_path_factory.mktemp("checkpoint")), case, most, data)

    run()
