"""The sinks of a job file: one section ``[sink]``, or several ``[[sink]]``, each for all queries or some."""

from __future__ import annotations

import importlib
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

from weft.errors import JobError
from weft.io.settings import Duration, Options, Secret, read_kind

TEN_SECONDS = Duration(10_000_000)


@dataclass(frozen=True, slots=True)
class ToParquet:
    """One Parquet table per query under ``path``."""

    path: Path


@dataclass(frozen=True, slots=True)
class ToJson:
    """Lines of JSON, a folder per query under ``path``."""

    path: Path


@dataclass(frozen=True, slots=True)
class ToConsole:
    """The first ``rows`` results of each query and step, printed."""

    rows: int = 10


@dataclass(frozen=True, slots=True)
class ToMemory:
    """Results kept in the process; the command prints how many there were."""


@dataclass(frozen=True, slots=True)
class ToPostgres:
    """A table per query in a PostgreSQL database."""

    address: Secret
    schema: str = "public"
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class ToKafka:
    """Messages of a Kafka topic."""

    servers: str
    topic: str
    steps: str | None = None
    options: Options = field(default_factory=lambda: Options({}))


@dataclass(frozen=True, slots=True)
class ToWebhook:
    """Requests to a web address."""

    url: Secret
    headers: Options = field(default_factory=lambda: Options({}))
    timeout: Duration = TEN_SECONDS
    tries: int = 5
    rows: int = 500


@dataclass(frozen=True, slots=True)
class ToFunction:
    """A function ``module:name`` called with each step's results (Arrow tables by query) and its number."""

    function: str

    def load(self) -> Callable[..., Any]:
        """The function itself.

        >>> ToFunction("math:sqrt").load()(9.0)
        3.0
        """
        module, _, name = self.function.partition(":")
        try:
            loaded = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise JobError(
                f"[sink] function = '{self.function}' cannot be loaded ({error}); "
                "write 'module:function' for a function that Python can import from here"
            ) from error
        if not callable(loaded):
            raise JobError(f"[sink] function = '{self.function}' is not a function")
        return typing.cast(Callable[..., Any], loaded)


@dataclass(frozen=True, slots=True)
class ToSome:
    """A sink for those queries whose names are among these, or match one such as ``alert_*``."""

    sink: ToSink
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToSeveral:
    """Several sinks, in this order."""

    sinks: tuple[ToSink, ...]


ToSink: TypeAlias = (
    ToParquet
    | ToJson
    | ToConsole
    | ToMemory
    | ToPostgres
    | ToKafka
    | ToWebhook
    | ToFunction
    | ToSome
    | ToSeveral
)

SINKS: Mapping[str, type] = {
    "console": ToConsole,
    "memory": ToMemory,
    "parquet": ToParquet,
    "json": ToJson,
    "postgres": ToPostgres,
    "kafka": ToKafka,
    "webhook": ToWebhook,
    "python": ToFunction,
}


def read_sinks(given: Any, base: Path) -> ToSink:
    """The section ``[sink]``, or the list of the sections ``[[sink]]``.

    >>> read_sinks([{"kind": "console"}, {"kind": "memory", "queries": ["alert_*"]}], Path())
    ToSeveral(sinks=(ToConsole(rows=10), ToSome(sink=ToMemory(), queries=('alert_*',))))
    """
    if isinstance(given, dict):
        return _sink(given, base)
    if not all(isinstance(each, dict) for each in given):
        raise JobError("'sink' must be a section: write [sink] or, for each of several, [[sink]]")
    return ToSeveral(tuple(_sink(each, base) for each in given))


def check_choices(sink: ToSink, names: Iterable[str]) -> None:
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


def _sink(given: Mapping[str, Any], base: Path) -> ToSink:
    chosen = given.get("queries")
    sink: ToSink = read_kind({k: v for k, v in given.items() if k != "queries"}, SINKS, "sink", base)
    if chosen is None:
        return sink
    if not isinstance(chosen, list) or not chosen or not all(isinstance(name, str) for name in chosen):
        raise JobError(f"[sink] queries must be a list of names of queries in quotes, not {chosen!r}")
    return ToSome(sink, tuple(chosen))
