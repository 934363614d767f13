"""Sinks: where results go. The same ones serve the in-process runner and Spark.

A sink takes the results of one step of a stream at a time. A step that is delivered again, after a crash
say, must replace what it delivered before: that makes the whole exactly once. Steps are numbered by
``seq``; ``stream`` names the stream, and stays the same for all runs over one checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from weft.errors import JobError


@runtime_checkable
class Sink(Protocol):
    """A place for the results of steps, as runners use it."""

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Make ready for the results of these queries, all that there are; called before a run's first step,
        and again before the first step after queries were added or dropped."""
        ...

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Take the results of a step (of those queries that have any), replacing what it gave before."""
        ...

    def close(self) -> None:
        """Called once, after the last step, also when the run has failed."""
        ...


@runtime_checkable
class CheckingSink(Protocol):
    """A sink that cannot take any results whatever."""

    def check(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Raise JobError for queries that do not go with what was delivered before; from any thread."""
        ...


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


class FunctionSink:
    """A function, called with each step's results as Arrow tables and the step's number.

    >>> seen = []
    >>> FunctionSink(lambda results, seq: seen.append((seq, list(results)))).deliver({"q": None}, 3)
    >>> seen
    [(3, ['q'])]
    """

    def __init__(self, function: Callable[[dict[str, pa.Table], int], Any]) -> None:
        self.function = function

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Nothing to do."""

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Call the function."""
        self.function(dict(results), seq)

    def close(self) -> None:
        """Nothing to do."""


class Sinks:
    """Several sinks as one; a step counts as delivered when each has taken it, in this order.

    >>> one, other = MemorySink(), MemorySink()
    >>> Sinks(one, other).deliver({"q": pa.table({"n": [1]})}, seq=1)
    >>> one.tables == other.tables
    True
    """

    def __init__(self, *sinks: Sink) -> None:
        self.sinks = sinks

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Make each ready."""
        for sink in self.sinks:
            sink.open(schemas, stream)

    def check(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Refuse what one of them refuses."""
        for sink in self.sinks:
            if isinstance(sink, CheckingSink):
                sink.check(schemas)

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Hand the step's results to each."""
        for sink in self.sinks:
            sink.deliver(results, seq)

    def close(self) -> None:
        """Close each, also where one cannot be closed."""
        with ExitStack() as closing:
            for sink in reversed(self.sinks):
                closing.callback(sink.close)


class Only:
    """A sink for some of the queries: those whose names are among these, or match one such as ``alert_*``.

    >>> sink = MemorySink()
    >>> Only(sink, ["alert_*"]).deliver({"alert_high": pa.table({"n": [1]}), "mean": pa.table({"n": [2]})}, 1)
    >>> list(sink.tables)
    ['alert_high']
    """

    def __init__(self, sink: Sink, queries: Sequence[str]) -> None:
        self.sink, self.queries = sink, tuple(queries)

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Make ready for the results of the queries chosen."""
        self.sink.open(self._chosen(schemas), stream)

    def check(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Refuse what the sink refuses, of the queries chosen."""
        if isinstance(self.sink, CheckingSink):
            self.sink.check(self._chosen(schemas))

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Hand on the results of the queries chosen; also none, since a step replaces what it gave before."""
        self.sink.deliver(self._chosen(results), seq)

    def close(self) -> None:
        """Close the sink."""
        self.sink.close()

    def _chosen(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {n: v for n, v in given.items() if any(fnmatchcase(n, pattern) for pattern in self.queries)}


def key_columns(schema: pa.Schema) -> list[str]:
    """The columns that tell the results of a query apart, its groups and the window; none for windows in rows
    and for joins.

    >>> key_columns(pa.schema({"symbol": pa.string(), "window_start": pa.int64(), "window_end": pa.int64(),
    ...                        "n": pa.int64()}))
    ['symbol', 'window_start', 'window_end']
    """
    names = list(schema.names)
    if "window_end" not in names or (schema.metadata or {}).get(b"weft.window") == b"rows":
        return []
    return names[: names.index("window_end") + 1]


def other_columns(name: str) -> JobError:
    """The error for a query whose results do not go together with those there are."""
    return JobError(
        f"the results of query '{name}' so far have other columns or types than it would give now; "
        "give the query another name, or the same columns"
    )
