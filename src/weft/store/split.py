"""State split again: what a checkpoint holds, brought into other buckets, or split by another hash.

Done once, by the driver, before the first step of a run. New files are written beside the old ones, and the
entry that names them is the one of that first step: until it is committed, nothing has happened. One stage is
in memory at a time.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from weft.errors import CheckpointError
from weft.expr.hashing import NAME
from weft.operators.contract import Kept, Stage
from weft.store.checkpoint import Checkpoint
from weft.store.log import StageState, StateLayer
from weft.store.stage_layers import Attempt, layouts_at, live, read_layer, write_layer
from weft.store.version_file import stage_named


@runtime_checkable
class CopyingStage(Protocol):
    """A stage of whose state some parts are whole in several buckets, and not shared out."""

    def copies(self, before: int) -> Mapping[str, Mapping[int, int]]:
        """Return by such part the buckets that have it, and the one of ``before`` that each takes it from."""
        ...


class Staged(Protocol):
    """A program of stages."""

    @property
    def stages(self) -> Sequence[Stage]: ...


def split_again(checkpoint: Checkpoint, program: Staged, buckets: int) -> None:
    """Make the last entry one of so many buckets, by today's hash, where it is not; commit nothing.

    Its token is new, so that no worker takes a state that it still holds for one of these.
    """
    last = checkpoint.last
    if last is None or not last.buckets or (last.buckets, last.hash) == (buckets, NAME):
        return
    if last.hash != NAME and "joins" in last.stages:
        raise CheckpointError(
            f"the joins of checkpoint '{checkpoint.place}' were written by an earlier version of weft, which "
            "found rows by another hash; let that version finish them, or start again with an empty "
            "checkpoint directory"
        )
    attempt = Attempt(last.seq + 1, uuid.uuid4().hex[:12])
    states = {name: replace(state, layers=((),) * buckets) for name, state in last.stages.items()}
    for stage in program.stages:
        name = stage_named(last.stages, stage.name)
        if name is not None:
            state = last.stages[name]
            layers = _split(checkpoint.place, stage, state, (last.buckets, buckets), attempt)
            states[name] = StageState(state.marks, layers)
    checkpoint.last = replace(
        last, token=attempt.token, buckets=buckets, hash=NAME, stages=states, answers=()
    )


def _split(
    place: str, stage: Stage, state: StageState, buckets: tuple[int, int], attempt: Attempt
) -> tuple[tuple[StateLayer, ...], ...]:
    """Write the state of a stage anew, which is in the first number of buckets, for the second."""
    before, after = buckets
    layout_of = layouts_at(place, stage.name)
    layers = [live(bucket, state.marks) for bucket in state.layers]
    tables = [
        [table for layer in bucket for table in read_layer(place, layer, stage, layout_of)]
        for bucket in layers
    ]
    copies = stage.copies(before) if isinstance(stage, CopyingStage) else {}
    shares = _shared_out(
        stage, [t for bucket in tables for t in bucket if t.part not in copies], state, after
    )
    for part, homes in copies.items():
        for bucket, old in homes.items():
            shares[bucket] += [table for table in tables[old] if table.part == part]
    first = min((layer.first for bucket in layers for layer in bucket), default=attempt.seq)
    written = [
        write_layer(place, stage, bucket, share, attempt, first) for bucket, share in enumerate(shares)
    ]
    # They hold what came up to the last step, not what this one brings.
    return tuple(() if layer is None else (replace(layer, last=attempt.seq - 1),) for layer in written)


def _shared_out(stage: Stage, tables: Sequence[Kept], state: StageState, buckets: int) -> list[list[Kept]]:
    """Return the tables of all buckets of before, by bucket of now."""
    whole = stage.state(0, 1)
    whole.absorb(tables)
    marks = dict(state.marks)
    whole.advance(marks)
    parts = whole.split(buckets) if buckets > 1 else [whole]
    return [list(part.snapshot()) for part in sorted(parts, key=lambda part: part.bucket)]
