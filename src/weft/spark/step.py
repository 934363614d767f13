"""One job as its tasks receive it: small, frozen, the same for every task."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from pyspark import cloudpickle

from weft.operators.blame import Failed
from weft.operators.times import Seen
from weft.operators.watermark import StepClock
from weft.operators.windows.program import Program
from weft.store.manifest import Layer

P = TypeVar("P")
NO_CLOCK = StepClock()


@dataclass(frozen=True, slots=True)
class StateReference:
    """A reference to a stream's state: the layers after the last step, and the names of the steps before.

    ``seq`` and ``token`` name the step being made; ``before`` is the token of the last one, ``history``
    has the tokens of recent steps, so that a worker can tell how old the state is that it still holds.
    ``about`` tells states apart where a bucket has several.
    """

    place: str
    seq: int
    token: str
    before: str | None
    layers: tuple[tuple[Layer, ...], ...]
    history: Mapping[str, int]
    about: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a stream, or the whole of a batch.

    ``clock`` is what it decides time by; ``until``, where given, is the watermark after it whatever the rows
    say. ``largest`` bounds the bytes of a bucket's results; where they are more, only their size is reported.
    ``keep_late`` asks for the rows that missed a window.
    """

    buckets: int
    clock: StepClock = NO_CLOCK
    until: int | None = None
    saved: StateReference | None = None
    largest: int | None = None
    keep_late: bool = False

    def failed(self, program: Program) -> Failed | None:
        """Return a place for queries that cannot be answered; None where that fails the whole: in a batch,
        which has no step to be made again without them, and under strict."""
        return None if self.saved is None or program.strict else {}

    def watermark_after(self, seen: Seen) -> int | None:
        """The watermark once these rows are in: never before the last.

        >>> Step(buckets=1, clock=StepClock(watermark=5)).watermark_after(Seen(rows=1, latest={"": 20}))
        20
        """
        return self.clock.watermark_after(seen.latest) if self.until is None else self.until


class ShippedProgram(Generic[P]):
    """A program on its way to tasks: a worker unpacks it once, and keeps it for the tasks that follow."""

    _unpacked: ClassVar[dict[str, Any]] = {}

    def __init__(self, program: P) -> None:
        self.name = uuid.uuid4().hex
        # Aggregates hold functions, also ones that cannot be imported by name.
        self.data: bytes = cloudpickle.dumps(program)  # type: ignore[no-untyped-call]

    def unpack(self) -> P:
        """The program."""
        program = self._unpacked.get(self.name)
        if program is None:
            if len(self._unpacked) >= 16:
                self._unpacked.clear()
            program = self._unpacked[self.name] = pickle.loads(self.data)
        return program  # type: ignore[no-any-return]
