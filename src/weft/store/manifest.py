"""The manifest: what one step left behind, published by an atomic rename, which is the commit.

A step is one micro-batch or one flush; ``seq`` numbers them from 1. A manifest names, for every bucket,
the layers of partials that make up its state, and says how far the watermark had come.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from weft.errors import CheckpointError
from weft.expr import hashing

FORMAT = 4
READABLE_FORMATS = (3, FORMAT)
"""Format 3 split keys by a hash of pandas, which its manifests do not name."""


class OtherFormat(CheckpointError):
    """A manifest of a format unknown here."""


@dataclass(frozen=True, slots=True)
class SliceFile:
    """One immutable Parquet file of partials, all of one grouping; ``newest`` is the last slice's start."""

    name: str
    grouping: int
    rows: int
    bytes: int
    crc: int
    newest: int


@dataclass(frozen=True, slots=True)
class Layer:
    """The partials that the steps ``first``..``last`` brought to one bucket; dead once ``needed_until``.

    They are laid out as the queries of ``version`` wanted them.
    """

    first: int
    last: int
    needed_until: int
    files: tuple[SliceFile, ...]
    version: int = 1

    @property
    def rows(self) -> int:
        """Number of partials that it holds."""
        return sum(f.rows for f in self.files)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Layer:
        """The inverse of ``dataclasses.asdict``."""
        files = tuple(SliceFile(**f) for f in data["files"])
        return cls(data["first"], data["last"], data["needed_until"], files, data["version"])


@dataclass(frozen=True, slots=True)
class Manifest:
    """One committed step; ``token`` names the attempt that made it, ``batch_id`` Spark's last batch in it,
    ``version`` the queries it was made with. ``taken`` is how many of the batch's files have been taken so
    far, None where it is done. ``watermarks`` are those of each stream where there are several; ``heard`` is
    the clock of the step that last brought a row of each partition, or stream. ``hash`` is the name of what
    splits keys into buckets.
    """

    seq: int
    token: str
    kind: str
    batch_id: int
    version: int
    buckets: int
    watermark: int | None
    seen: Mapping[str, Any]
    layers: tuple[tuple[Layer, ...], ...] = field(default=())
    taken: int | None = None
    watermarks: Mapping[str, int | None] = field(default_factory=dict)
    heard: Mapping[str, int] = field(default_factory=dict)
    hash: str = hashing.NAME

    def latest(self, with_ahead: bool = False) -> int | None:
        """The latest event time so far, of rows that are believed or also of those ahead; None before any."""
        times = [self.seen["max_time"], self.seen.get("ahead_time") if with_ahead else None]
        return max((time for time in times if time is not None), default=None)

    @property
    def files(self) -> frozenset[str]:
        """The names of all files that the state is made of."""
        return frozenset(f.name for layers in self.layers for layer in layers for f in layer.files)

    @property
    def versions(self) -> frozenset[int]:
        """The versions of queries that the state is laid out for."""
        return frozenset([self.version, *(layer.version for layers in self.layers for layer in layers)])

    def to_json(self) -> bytes:
        """The file's content, with a checksum of itself.

        >>> made = Manifest(1, "t", "batch", 0, 1, 1, None, {"rows": 0}, ((),))
        >>> Manifest.from_json(made.to_json()) == made
        True
        """
        return seal(asdict(self))

    @classmethod
    def from_json(cls, data: bytes) -> Manifest:
        """Read a manifest; CheckpointError where it is damaged or of a format unknown here."""
        body = unseal(data)
        layers = tuple(tuple(map(Layer.from_dict, each)) for each in body.pop("layers"))
        return cls(**{"hash": "pandas", **body}, layers=layers)


def seal(body: Mapping[str, Any], indent: int | None = 1) -> bytes:
    """Plain data as the content of a file, with its format and a checksum."""
    body = {"format": FORMAT, **body}
    return json.dumps({**body, "crc": _crc(body)}, indent=indent).encode()


def unseal(data: bytes) -> dict[str, Any]:
    """The data behind ``seal``; CheckpointError where it is damaged or of a format unknown here."""
    try:
        body: dict[str, Any] = json.loads(data)
        crc = body.pop("crc")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError("it is truncated") from error
    if crc != _crc(body):
        raise CheckpointError("its checksum does not match")
    if body.pop("format") not in READABLE_FORMATS:
        raise OtherFormat("it was written by another version of weft, which has to go on with it")
    return body


def _crc(body: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True).encode())
