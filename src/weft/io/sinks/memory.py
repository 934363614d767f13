"""Memory as a sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from rich.console import Console

from weft.io.kinds import SinkKind
from weft.io.sinks.base import other_columns


class MemorySink:
    """All results, in the memory of this process.

    >>> sink = MemorySink()
    >>> sink.deliver({"q": pa.table({"n": [1]})}, seq=1)
    >>> sink.deliver({"q": pa.table({"n": [2]})}, seq=1)
    >>> sink.tables["q"].column("n").to_pylist()
    [2]
    """

    def __init__(self) -> None:
        self.steps: dict[int, dict[str, pa.Table]] = {}
        self._schemas: dict[str, pa.Schema] = {}

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Remember the queries, so that those without results have an empty table."""
        self.check({n: s for n, s in schemas.items() if self._schemas.get(n) != s})
        self._schemas = {**self._schemas, **schemas}

    def check(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Refuse columns that do not go together with the results there are."""
        for name, schema in schemas.items():
            if any(name in step and step[name].schema != schema for step in list(self.steps.values())):
                raise other_columns(name)

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Keep the step's results."""
        self.steps[seq] = dict(results)

    def rewind(self, after: int) -> None:
        """Forget later steps."""
        self.steps = {seq: results for seq, results in self.steps.items() if seq <= after}

    def close(self) -> None:
        """Nothing to do: the results stay."""

    @property
    def tables(self) -> dict[str, pa.Table]:
        """All results so far, by query."""
        parts = {name: [schema.empty_table()] for name, schema in self._schemas.items()}
        for seq in sorted(self.steps):
            for name, table in self.steps[seq].items():
                parts.setdefault(name, []).append(table)
        return {name: pa.concat_tables(tables).combine_chunks() for name, tables in parts.items()}


@dataclass(frozen=True, slots=True)
class ToMemory(SinkKind):
    """Results kept in the process; `weft run` prints how many there were, a server keeps the latest."""

    kind: ClassVar[str] = "memory"

    def make(self, console: Console) -> MemorySink:
        """Make the sink."""
        return MemorySink()
