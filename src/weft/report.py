"""Progress for people and for programs: a live table on a terminal, one JSON object per line elsewhere."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from weft.bench import Progress as Step

SHOWN = 12
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Report:
    """What each batch did, as it happens.

    >>> import sys
    >>> with Report(Console(file=sys.stdout)) as report:
    ...     report.batch({"batch": 0, "rows": 5, "late": 0})
    {"batch": 0, "rows": 5, "late": 0}
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.recent: deque[Mapping[str, Any]] = deque(maxlen=SHOWN)
        self.live = Live(console=console, get_renderable=self._table) if console.is_terminal else None

    def __enter__(self) -> Report:
        if self.live:
            self.live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.live:
            self.live.stop()

    def batch(self, progress: Any) -> None:
        """Show one batch: a dataclass or a mapping of what it did."""
        fields = dataclasses.asdict(progress) if dataclasses.is_dataclass(progress) else progress
        if self.live:
            self.recent.append(fields)
            self.live.refresh()
        else:
            self._line(fields)

    def note(self, **facts: Any) -> None:
        """Show something said once."""
        if self.live:
            self.console.print(", ".join(f"{name}: {value}" for name, value in facts.items()))
        else:
            self._line(facts)

    def _line(self, fields: Mapping[str, Any]) -> None:
        self.console.out(json.dumps(fields, default=str), highlight=False)
