"""One step as its tasks receive it: small, frozen, the same for every task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weft.operators.contract import Failed
from weft.runner.clock import StepTime
from weft.store.log import StateLayer

if TYPE_CHECKING:
    from weft.runner.program import Program


@dataclass(frozen=True, slots=True)
class StateReference:
    """A reference to a stream's state: the layers after the last step by stage and bucket, and the names of
    the steps before.

    ``seq`` and ``token`` name the step being made; ``before`` is the token of the last one, ``history`` has
    the tokens of recent steps, so that a worker can tell how old the state is that it still holds.
    """

    place: str
    seq: int
    token: str
    before: str | None = None
    layers: Mapping[str, tuple[tuple[StateLayer, ...], ...]] = field(default_factory=dict)
    history: Mapping[str, int] = field(default_factory=dict)

    def of(self, stage: str, bucket: int) -> tuple[StateLayer, ...]:
        """Return the layers of one bucket of a stage; none where the stage is new."""
        layers = self.layers.get(stage, ())
        return layers[bucket] if layers else ()


@dataclass(frozen=True, slots=True)
class StepRequest:
    """One step of a stream, or the whole of a batch, which has no state.

    ``largest`` bounds the bytes of a bucket's results; where they are more, only their size is reported.
    ``keep_missed`` asks for the rows that missed a window or a join, and those that cannot be read.
    """

    time: StepTime
    buckets: int
    saved: StateReference | None = None
    keep_missed: bool = False
    largest: int | None = None

    def failed(self, program: Program) -> Failed | None:
        """Return a place for queries that cannot be answered; None where that fails the whole: in a batch,
        which has no step to be made again without them, and under strict."""
        return None if self.saved is None or program.strict else {}
