"""Sealed files of a checkpoint: JSON with the number of its format and a checksum of itself."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from weft.errors import CheckpointError

FORMAT = 5
READABLE_FORMATS = (3, 4, FORMAT)
"""Format 4 had one operator in a checkpoint; format 3 split keys by a hash of pandas, and did not name it."""

REMEDY = "restore it from a backup, or start again with an empty checkpoint directory"


class OtherFormat(CheckpointError):
    """A file of a format unknown here."""


class Unsealed(NamedTuple):
    """The data of a sealed file, and the format that it was written in."""

    format: int
    body: dict[str, Any]


def seal(body: Mapping[str, Any], indent: int | None = 1) -> bytes:
    """Return plain data as the content of a file, with its format and a checksum.

    >>> unseal(seal({"seq": 7}))
    Unsealed(format=5, body={'seq': 7})
    """
    body = {"format": FORMAT, **body}
    return json.dumps({**body, "crc": _crc(body)}, indent=indent).encode()


def unseal(data: bytes) -> Unsealed:
    """Return the data behind ``seal``; CheckpointError where it is damaged or of a format unknown here."""
    try:
        body: dict[str, Any] = json.loads(data)
        crc = body.pop("crc")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError("it is truncated") from error
    if crc != _crc(body):
        raise CheckpointError("its checksum does not match")
    number = body.pop("format", None)
    if number not in READABLE_FORMATS:
        raise OtherFormat("it was written by another version of weft, which has to go on with it")
    return Unsealed(number, body)


def _crc(body: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True).encode())
