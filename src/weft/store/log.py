"""The log of a checkpoint: one entry after the other, each the whole state of the stream after it.

An entry is published by writing its file, ``manifests/<entry>.json``, unless there is one: that is commit
and fence in one. Steps (``batch``, ``flush``) have a ``seq`` of their own, from 1 on, which is never used
twice. A driver begins with a ``start``, and who goes back to an older step writes a ``rollback``; both begin
an ``epoch``, the one with the state that is there, the other with that of the older step.

    entry   1      2      3      4      5         6      7
    kind    start  batch  batch  batch  rollback  start  batch
    seq     0      1      2      3      3         3      4
    epoch   1      1      1      1      2         3      3
    parent  0      1      2      3      3         5      6      the rollback is to step 2

The line of an entry is itself, its parent, the parent of that, and so on: here step 3 is not on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from weft.errors import CheckpointError
from weft.expr import hashing
from weft.operators.contract import Marks
from weft.store.old_manifest import of_format_4
from weft.store.sealed import FORMAT, seal, unseal

START, BATCH, FLUSH, ROLLBACK = "start", "batch", "flush", "rollback"
STEPS = (BATCH, FLUSH)
"""Kinds of entries that are steps."""


@dataclass(frozen=True, slots=True)
class StateFile:
    """One immutable Parquet file of one part of a stage's state.

    ``newest`` is the latest time in it; from the mark ``needed_until`` on nobody needs it.
    """

    name: str
    part: str
    rows: int
    bytes: int
    crc: int
    newest: int
    needed_until: int


@dataclass(frozen=True, slots=True)
class StateLayer:
    """The tables that the steps ``first``..``last`` brought to one bucket of a stage, as the queries of
    ``version`` wanted them."""

    first: int
    last: int
    files: tuple[StateFile, ...]
    version: int

    @property
    def rows(self) -> int:
        """Number of rows that it holds."""
        return sum(file.rows for file in self.files)

    @property
    def needed_until(self) -> int:
        """The mark from which on nobody needs it."""
        return max(file.needed_until for file in self.files)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        files = [{name: getattr(file, name) for name in file.__slots__} for file in self.files]
        return {"first": self.first, "last": self.last, "files": files, "version": self.version}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StateLayer:
        """Return the layer behind ``to_dict``."""
        files = tuple(StateFile(**file) for file in data["files"])
        return cls(data["first"], data["last"], files, data["version"])


@dataclass(frozen=True, slots=True)
class StageState:
    """The state of one stage: the marks of its inputs, and the layers of each bucket."""

    marks: Marks = field(default_factory=dict)
    layers: tuple[tuple[StateLayer, ...], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        layers = [[layer.to_dict() for layer in bucket] for bucket in self.layers]
        return {"marks": dict(self.marks), "layers": layers}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StageState:
        """Return the state behind ``to_dict``."""
        return cls(
            data["marks"], tuple(tuple(map(StateLayer.from_dict, bucket)) for bucket in data["layers"])
        )


@dataclass(frozen=True, slots=True)
class StreamState:
    """The rows of one stream so far: counts as those of ``Seen``, its mark, and the clock of the step that
    last brought a row of each partition."""

    seen: Mapping[str, Any] = field(default_factory=dict)
    mark: int | None = None
    heard: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """One immutable file with the answers of one bucket in one step."""

    name: str
    bucket: int
    bytes: int
    crc: int
    rows: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the log. Those who make steps leave the last six fields to the checkpoint.

    ``token`` names the attempt that made the state, and ``batch_id`` Spark's last batch in it (-1: none);
    ``taken`` is how many of that batch's files have been taken so far, None where it is done. ``version`` is
    that of the queries it was made with, 0 before the first step, as ``buckets``. ``offsets`` have the
    positions in sources that are read in process. ``answers`` are those of this step. ``hash`` is the name of
    what splits keys into buckets.

    ``driver`` names the one who wrote the entry, ``parent`` is the entry that it goes on from. All steps up
    to ``delivered`` had been delivered when it was published. ``rewind`` is the step that the stream has gone
    back to, as long as sinks may have steps that it has left: those from ``rewind`` + 1 to ``seq``.
    """

    seq: int
    token: str
    kind: str
    batch_id: int = -1
    version: int = 0
    buckets: int = 0
    stages: Mapping[str, StageState] = field(default_factory=dict)
    streams: Mapping[str, StreamState] = field(default_factory=dict)
    taken: int | None = None
    offsets: Mapping[str, Any] = field(default_factory=dict)
    answers: tuple[AnswerFile, ...] = ()
    hash: str = hashing.NAME
    entry: int = 0
    epoch: int = 0
    driver: str = ""
    parent: int = 0
    delivered: int = 0
    rewind: int | None = None

    @property
    def is_step(self) -> bool:
        """Return whether it is a step, not a turn of drivers."""
        return self.kind in STEPS

    @property
    def files(self) -> frozenset[str]:
        """The names of all files that the state is made of."""
        return frozenset(file.name for layer in self._layers() for file in layer.files)

    @property
    def versions(self) -> frozenset[int]:
        """The versions of queries that the state is laid out for."""
        return frozenset([self.version, *(layer.version for layer in self._layers())])

    def _layers(self) -> list[StateLayer]:
        return [layer for stage in self.stages.values() for bucket in stage.layers for layer in bucket]

    def to_json(self) -> bytes:
        """Return the file's content, with a checksum of itself.

        >>> made = Entry(1, "t", "batch", 0, 1, 1, {"joins": StageState({"a": None}, ((),))})
        >>> Entry.from_json(made.to_json()) == made
        True
        """
        # Written at every step, and long where layers are many: in one line, which is far quicker.
        body = {name: getattr(self, name) for name in self.__slots__}
        body["stages"] = {name: stage.to_dict() for name, stage in self.stages.items()}
        body["streams"] = {name: asdict(stream) for name, stream in self.streams.items()}
        body["answers"] = [asdict(file) for file in self.answers]
        return seal(body, indent=None)

    @classmethod
    def from_json(cls, data: bytes) -> Entry:
        """Read an entry of this format or those before; CheckpointError where it is damaged or of another."""
        number, body = unseal(data)
        try:
            body = body if number == FORMAT else of_format_4(body)
            stages = {name: StageState.from_dict(stage) for name, stage in body.pop("stages").items()}
            streams = {name: StreamState(**stream) for name, stream in body.pop("streams").items()}
            answers = tuple(AnswerFile(**file) for file in body.pop("answers"))
            return cls(**body, stages=stages, streams=streams, answers=answers)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CheckpointError(f"it is not a whole entry: {type(error).__name__}: {error}") from error
