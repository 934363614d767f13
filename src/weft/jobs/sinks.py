"""The sinks of a job file: one section ``[sink]``, or several ``[[sink]]``, each for all queries or some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rich.console import Console

from weft.errors import JobError
from weft.io.kinds import SinkKind
from weft.io.registry import SINKS
from weft.io.settings import read_kind
from weft.io.sinks import Only, Sinks


@dataclass(frozen=True, slots=True)
class ToSome(SinkKind):
    """A sink for those queries whose names are among these, or match one such as ``alert_*``."""

    sink: SinkKind
    queries: tuple[str, ...]

    def make(self, console: Console) -> Only:
        """Make the sink."""
        return Only(self.sink.make(console), self.queries)


@dataclass(frozen=True, slots=True)
class ToSeveral(SinkKind):
    """Several sinks, in this order."""

    sinks: tuple[SinkKind, ...]

    def make(self, console: Console) -> Sinks:
        """Make all of them."""
        return Sinks(*(sink.make(console) for sink in self.sinks))


def read_sinks(given: Any, base: Path) -> SinkKind:
    """The section ``[sink]``, or the list of the sections ``[[sink]]``.

    >>> read_sinks([{"kind": "console"}, {"kind": "memory", "queries": ["alert_*"]}], Path())
    ToSeveral(sinks=(ToConsole(rows=10), ToSome(sink=ToMemory(), queries=('alert_*',))))
    """
    if isinstance(given, dict):
        return _sink(given, base)
    if not all(isinstance(section, dict) for section in given):
        raise JobError("'sink' must be a section: write [sink] or, for each of several, [[sink]]")
    return ToSeveral(tuple(_sink(section, base) for section in given))


def check_choices(sink: SinkKind, names: Iterable[str]) -> None:
    """Raise JobError for a sink that asks for a query which is not there; patterns may match later ones."""
    if isinstance(sink, ToSeveral):
        for part in sink.sinks:
            check_choices(part, names)
    elif isinstance(sink, ToSome):
        for choice in sink.queries:
            if choice not in names and not any(c in choice for c in "*?["):
                close = get_close_matches(choice, list(names), 1)
                hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(names)}"
                raise JobError(f"[sink] queries names '{choice}', but no query is called so; {hint}")


def _sink(given: Mapping[str, Any], base: Path) -> SinkKind:
    chosen = given.get("queries")
    sink: SinkKind = read_kind({k: v for k, v in given.items() if k != "queries"}, SINKS, "sink", base)
    if chosen is None:
        return sink
    if not isinstance(chosen, list) or not chosen or not all(isinstance(name, str) for name in chosen):
        raise JobError(f"[sink] queries must be a list of names of queries in quotes, not {chosen!r}")
    return ToSome(sink, tuple(chosen))
