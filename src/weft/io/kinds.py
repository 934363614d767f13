"""Kinds of sources and sinks that a job file can name, each declared once, in a file beside what it makes.

A kind is a frozen dataclass below `SourceKind` or `SinkKind`. Its fields are the keys of the section, with
types and defaults as `weft.io.settings` reads them, and the text below a field says what the key means;
``Left out:`` in it says what happens without the key, where no default can. The first line of the docstring
says what the kind is. ``tools/job_keys.py`` writes the tables of docs/job_file.md from all of this, and
`weft.io.registry` finds the kinds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import pyarrow as pa
from rich.console import Console

from weft.io.files.source import Files
from weft.io.sources.ranges import Ranged

if TYPE_CHECKING:
    from weft.io.sinks.base import Sink

DirectSource: TypeAlias = Files | Ranged
"""A source that weft reads itself, in any process."""


@dataclass(frozen=True, slots=True)
class SparkInput:
    """A stream that Spark reads itself, as settings of ``readStream``; ``weft.spark.readers`` makes it."""

    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | pa.Schema | None = None
    path: str | None = None


class SourceKind(ABC):
    """The keys of a source in a job file, and how it is made."""

    kind: ClassVar[str]

    def check(self, section: str) -> None:  # noqa: B027  # most have nothing to refuse
        """Raise JobError for values of the section that cannot be."""

    @property
    def is_endless(self) -> bool:
        """True for a source without an end, of which a run cannot take all."""
        return False

    @abstractmethod
    def make(self) -> DirectSource:
        """Make the source, read by weft itself; JobError where only Spark can read it."""

    def spark_input(self) -> SparkInput | None:
        """Return the source as Spark reads it; None for one that weft's tasks read."""
        return None


class SinkKind(ABC):
    """The keys of a sink in a job file, and how it is made."""

    kind: ClassVar[str]

    @abstractmethod
    def make(self, console: Console) -> Sink:
        """Make the sink; ``console`` is the one that the run reports on."""
