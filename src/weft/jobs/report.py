"""Progress for people and for programs: a live table on a terminal, elsewhere a line per step."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeAlias

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from weft.errors import late_message
from weft.model.instants import iso

MAX_STEPS_SHOWN = 12
TOTAL_FACTS = ("rows", "late", "untimed", "ahead", "bad", "results")
"""Facts of steps that are added up over all of them."""

Step: TypeAlias = Callable[[str, int, int], None]
"""Called with what is done next, how many pieces of work are done, and of how many."""

COLUMNS = (
    "seq",
    "rows",
    "rows_per_second",
    "late",
    "bad",
    "watermark",
    "results",
    "state_rows",
    "state_bytes",
    "seconds",
)


class Report:
    """A report of each step of a stream, as it happens.

    >>> import sys
    >>> with Report(Console(file=sys.stdout)) as report:
    ...     report.step({"seq": 1, "rows": 5, "late": 0})
    {"seq": 1, "rows": 5, "late": 0}

    With ``brief``, a line that is no JSON and has what the table would have:

    >>> Report(Console(file=sys.stdout), brief=True).step({"seq": 1, "rows": 5000, "late": 0, "results": 2})
    seq 1, rows 5,000, results 2
    """

    def __init__(self, console: Console, brief: bool = False) -> None:
        self.console = console
        self.brief = brief
        self.recent: deque[Mapping[str, Any]] = deque(maxlen=MAX_STEPS_SHOWN)
        self.totals: Counter[str] = Counter()
        self._remark = ""
        self._live: Live | None = None

    def __enter__(self) -> Report:
        if self.console.is_terminal:
            self._live = Live(console=self.console, get_renderable=self._table)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def step(self, progress: Any) -> None:
        """Show one step of a stream: a dataclass or a mapping of what it did."""
        facts = dataclasses.asdict(progress) if dataclasses.is_dataclass(progress) else dict(progress)  # type: ignore[arg-type]
        self.totals.update({name: facts.get(name) or 0 for name in TOTAL_FACTS})
        if self._live:
            self.recent.append(facts)
            self._live.refresh()
            if facts.get("remark") and facts["remark"] != self._remark:
                self.note(remark=facts["remark"])
            self._remark = facts.get("remark", "")
        elif self.brief:
            shown = {name: facts[name] for name in COLUMNS if facts.get(name)}
            self.console.out(_sentence(shown), highlight=False)
        else:
            self._line(facts)

    def close(self) -> None:
        """Show the closing line, if there was any step: what all did, and a warning where rows were late."""
        if not self.totals:
            return
        facts: dict[str, Any] = {"total": dict(self.totals)}
        if self.totals["late"]:
            facts["warning"] = late_message(self.totals["late"], self.totals["rows"])
        self.note(**facts)

    def note(self, **facts: Any) -> None:
        """Show something that is said once."""
        if self._live:
            self.console.print(_sentence(facts))
        else:
            self._line(facts)

    def _line(self, facts: Mapping[str, Any]) -> None:
        self.console.out(json.dumps(facts, default=str), highlight=False)

    def _table(self) -> Table:
        table = Table(*map(_words, COLUMNS))
        for column in table.columns:
            column.justify = "right"
        for facts in self.recent:
            table.add_row(*(_shown(name, facts.get(name)) for name in COLUMNS))
        return table


@contextmanager
def step_bar(console: Console) -> Iterator[Step]:
    """A bar over the steps of long work on a terminal; a line per step elsewhere."""
    if not console.is_terminal:
        yield lambda label, done, total: console.print(f"[{done}/{total}] {label}", highlight=False)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("")
        yield lambda label, done, total: bar.update(task, description=label, completed=done, total=total)


def _sentence(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{_words(name)} {_shown(name, value)}" for name, value in facts.items())


def _words(name: str) -> str:
    return name.replace("_per_second", "/s").replace("_", " ")


def _shown(name: str, value: Any) -> str:
    """A fact as a person reads it.

    >>> _shown("rows", 1234567), _shown("state_bytes", 2_500_000), _shown("seconds", 0.51234)
    ('1,234,567', '2.5 MB', '0.51')
    >>> _shown("watermark", 1_700_000_000_000_000), _shown("watermark", None)
    ('2023-11-14 22:13:20', '')
    """
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {_shown(k, v)}" for k, v in value.items())
    for ending, form in FORMS.items():
        if name.endswith(ending) and not isinstance(value, str):
            return form(value)
    return (
        f"{value:,.2f}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def _instant(microseconds: int) -> str:
    if abs(microseconds) > 2**60:
        return "end"
    return iso(microseconds // 1_000_000 * 1_000_000, zoned=False).replace("T", " ")


FORMS: dict[str, Callable[[Any], str]] = {
    "watermark": _instant,
    "bytes": lambda n: f"{n / 1e6:,.1f} MB",
    "per_second": lambda n: f"{n:,.0f}",
}
