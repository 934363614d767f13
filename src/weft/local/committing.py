"""Steps of a run in this process committed to a checkpoint: state, positions, answers, in one entry."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from typing import Any

from weft.errors import CheckpointError
from weft.io.filesystem import uri
from weft.local.running import LocalRun, LocalSetup, StepOutcome
from weft.operators.contract import Stage, State
from weft.operators.watermark import TimeRules
from weft.runner.delivery import in_order
from weft.runner.opening import claim_turn, entry_with_names, position_of, streams_state
from weft.runner.running_queries import Accept
from weft.runner.version_keeper import VersionKeeper
from weft.store.answers import MISSED_ROWS, RESULT_ROWS, write_answers
from weft.store.checkpoint import Checkpoint
from weft.store.log import Entry, StageState, StateLayer
from weft.store.positions import CheckpointPositions
from weft.store.stage_layers import Attempt, add_layer, layers_for, load, write_layer


class LocalCommits:
    """The checkpoint of a run in this process: it goes on from what is there, and commits its steps."""

    def __init__(self, place: str | os.PathLike[str]) -> None:
        self.checkpoint = Checkpoint(uri(place))
        self.positions = CheckpointPositions(self.checkpoint)
        self._check_engine()

    def offsets(self) -> Mapping[str, Any]:
        """Return the position of each source, once the run is open."""
        return self.entry.offsets

    def open(
        self,
        setup: LocalSetup,
        rules: Mapping[str, TimeRules],
        accept: Accept | None = None,
        idle: int | None = None,
    ) -> LocalRun:
        """Return the run that goes on from the checkpoint; its steps are to be committed here.

        The turn is claimed once the queries are known to be right.
        """
        compiler, checkpoint = setup.compiler, self.checkpoint
        compiler.buckets = (
            checkpoint.last.buckets or compiler.buckets if checkpoint.last else compiler.buckets
        )
        running, self.entry = claim_turn(checkpoint, compiler, setup.queries, accept)
        self.positions.sweep()
        entry = entry_with_names(self.entry, compiler)
        lateness = {name: rule.lateness for name, rule in rules.items()}
        self.versions = VersionKeeper(self.checkpoint, compiler, setup.queries, lateness)
        run = LocalRun.of(running, setup, rules, idle)
        run.versions, run.keep_fresh, run.may_split = self.versions, True, False
        position = position_of(entry, compiler)
        run.streams, run.marks = dict(position.streams), dict(position.marks)
        self._layers: dict[str, tuple[tuple[StateLayer, ...], ...]] = {}
        for stage in run.program.stages:
            state = entry.stages.get(stage.name)
            if state is not None and state.layers:
                self._layers[stage.name] = state.layers
                count = len(state.layers)
                run.states[stage.name] = [
                    load(self.checkpoint.place, stage, bucket, count, layers, state.marks)
                    for bucket, layers in enumerate(state.layers)
                ]
        run.seq = lambda: self.entry.seq + 1
        return run

    def commit(self, run: LocalRun, outcome: StepOutcome, kind: str, offsets: Mapping[str, Any]) -> Entry:
        """Write what a step has brought and answered, and publish the entry that names it."""
        seq, token = self.entry.seq + 1, uuid.uuid4().hex[:12]
        attempt = Attempt(seq, token)
        stages = {stage.name: self._stage(run, stage, outcome, attempt) for stage in run.program.stages}
        tables = {(RESULT_ROWS, name): in_order(lots) for name, lots in outcome.answers.items()}
        tables |= {(MISSED_ROWS, name): table for name, table in outcome.late.items()}
        file = write_answers(self.checkpoint.place, seq, 0, token, tables)
        entry = Entry(
            seq,
            token,
            kind,
            version=run.program.version,
            buckets=run.program.buckets,
            stages=stages,
            streams=streams_state(run.streams),
            offsets={**self.entry.offsets, **offsets},
            answers=() if file is None else (file,),
        )
        self.entry = self.checkpoint.publish(entry)
        self._layers = {name: stage.layers for name, stage in stages.items()}
        return self.entry

    def _stage(self, run: LocalRun, stage: Stage, outcome: StepOutcome, attempt: Attempt) -> StageState:
        """Write what is new in the states of a stage; everything, where queries failed on the way."""
        place, marks = self.checkpoint.place, run.marks.get(stage.name, {})
        states = run.states[stage.name]
        if stage.name not in outcome.fresh or outcome.version != run.program.version:
            return StageState(marks, tuple(self._whole(stage, state, attempt) for state in states))
        before = self._layers.get(stage.name) or tuple(() for _ in states)
        before = layers_for(stage, before, lambda version: self.checkpoint.layout(version, stage.name))
        fresh = outcome.fresh[stage.name]
        layers = [
            add_layer(place, stage, state, new, old, attempt, marks)
            for state, new, old in zip(states, fresh, before)
        ]
        return StageState(marks, tuple(layers))

    def _whole(self, stage: Stage, state: State, attempt: Attempt) -> tuple[StateLayer, ...]:
        layer = write_layer(
            self.checkpoint.place, stage, state.bucket, state.snapshot(), attempt, attempt.seq
        )
        return () if layer is None else (layer,)

    def _check_engine(self) -> None:
        if self.checkpoint.last is not None and self.checkpoint.last.batch_id >= 0:
            raise CheckpointError(
                f"checkpoint '{self.checkpoint.place}' was written on Spark, which keeps its offsets itself; "
                "go on with it on Spark, or use another checkpoint directory"
            )
