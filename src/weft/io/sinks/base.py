"""Sinks: where results go. The same ones serve the in-process runner and Spark.

A sink takes the results of one step of a stream at a time, once the step is committed. Steps are numbered
by ``seq``, and no number is used twice; ``stream`` names the stream, and stays the same for all runs over one
checkpoint. A step may be delivered again at any time, with exactly the same results, also by a driver that
slept while another went on: that must change nothing, and must never touch what another step gave. Together
this makes the whole exactly once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from weft.errors import JobError

NO_CHECKPOINT = "run"
"""The name of the stream of a run without a checkpoint, which begins anew each time."""


@runtime_checkable
class Sink(Protocol):
    """A place for the results of steps, as runners use it."""

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Make ready for the results of these queries, all that there are; called before a run's first step,
        and again before the first step after queries were added or dropped."""
        ...

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Take the results of a step (of those queries that have any); a step that was taken before, in
        whatever order, changes nothing."""
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


@runtime_checkable
class RewindingSink(Protocol):
    """A sink that can take back steps."""

    def rewind(self, after: int) -> None:
        """Remove what the sink has of this stream's steps after this one; called between ``open`` and the
        first ``deliver`` of a run whose checkpoint was set back."""
        ...


class Sinks:
    """Several sinks as one; a step counts as delivered when each has taken it, in this order.

    >>> from weft.io.sinks.memory import MemorySink
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

    def rewind(self, after: int) -> None:
        """Take back later steps from those that can."""
        for sink in self.sinks:
            if isinstance(sink, RewindingSink):
                sink.rewind(after)

    def close(self) -> None:
        """Close each, also where one cannot be closed."""
        with ExitStack() as closing:
            for sink in reversed(self.sinks):
                closing.callback(sink.close)


class Only:
    """A sink for some of the queries: those whose names are among these, or match one such as ``alert_*``.

    >>> from weft.io.sinks.memory import MemorySink
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
        """Hand on the results of the queries chosen, also where there are none."""
        self.sink.deliver(self._chosen(results), seq)

    def rewind(self, after: int) -> None:
        """Take back later steps, where the sink can."""
        if isinstance(self.sink, RewindingSink):
            self.sink.rewind(after)

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
