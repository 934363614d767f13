"""Columns that a program reads of each stream of a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class StreamColumns:
    """The columns that are read of one stream; those of text in ``keys`` are best read as dictionaries."""

    schema: pa.Schema
    keys: tuple[str, ...] = ()


Reads: TypeAlias = Mapping[str, StreamColumns]
"""By stream what is read of it; a stream that is not there is not read at all."""
