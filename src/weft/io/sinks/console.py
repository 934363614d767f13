"""The console as a sink."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from weft.io.kinds import SinkKind
from weft.model.instants import python_rows


class ConsoleSink:
    """A console on which the first results of each query and step are printed.

    A step that is delivered again is printed again.
    """

    def __init__(self, rows: int = 10, console: Console | None = None) -> None:
        self.rows, self.console = rows, console or Console()

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Nothing to do."""

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Print."""
        for name, table in results.items():
            printed = Table(*table.column_names)
            for row in python_rows(table.slice(0, self.rows)):
                printed.add_row(*map(_cell, row.values()))
            self.console.print(f"{name}, step {seq}: {table.num_rows:,} rows", highlight=False, markup=False)
            self.console.print(printed)

    def close(self) -> None:
        """Nothing to do."""


@dataclass(frozen=True, slots=True)
class ToConsole(SinkKind):
    """The first rows of each query and step, printed; the default."""

    kind: ClassVar[str] = "console"

    rows: int = 10
    """how many rows"""

    def make(self, console: Console) -> ConsoleSink:
        """Make the sink."""
        return ConsoleSink(self.rows, console)


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    if re.fullmatch(r"[+-]\d{6}-\d\d-\d\dT.*", text):
        text = text.replace("T", " ")
    return re.sub(r"\+00:00$", "", text)
