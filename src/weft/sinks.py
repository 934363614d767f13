"""Sinks: where results go. The same ones serve the in-process runner and Spark.

A sink takes the results of one step of a stream at a time. A step that is delivered again, after a crash
say, must replace what it delivered before: that makes the whole exactly once. Steps are numbered by
``seq``; ``stream`` names the stream, and stays the same for all runs over one checkpoint.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Protocol, runtime_checkable
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from rich.console import Console
from rich.table import Table

from weft.errors import JobError
from weft.filesystem import join, resolve, uri, write_atomically


@runtime_checkable
class Sink(Protocol):
    """What a runner needs of a sink."""

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Make ready for the results of these queries, all that there are; called before a run's first step,
        and again before the first step after queries joined or left."""
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
        """Raise JobError for queries that cannot join, for what was delivered before; from any thread."""
        ...


class MemorySink:
    """Keeps all results in this process.

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
                raise _other_columns(name)

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


class ParquetSink:
    """One Parquet table per query: a folder ``path/<query>`` with a file per step that had results.

    >>> import tempfile
    >>> place = tempfile.mkdtemp()
    >>> sink = ParquetSink(place)
    >>> sink.open({"q": pa.schema({"n": pa.int64()})}, stream="run")
    >>> sink.deliver({"q": pa.table({"n": [1]})}, seq=1)
    >>> pq.read_table(place + "/q").column("n").to_pylist()
    [1]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = uri(path)
        self._stream = "run"
        self._begin()

    def _begin(self) -> None:
        self._schemas: dict[str, pa.Schema] = {}
        self._opened: set[str] = set()
        self._fresh: set[str] = set()

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Make the folders, each with a file that has the columns and no row."""
        self._stream = stream
        new = {name: schema for name, schema in schemas.items() if self._schemas.get(name) != schema}
        self.check(new)
        self._schemas, self._fresh = dict(schemas), self._fresh | set(new)
        self._opened |= set(new)
        try:
            for name, schema in new.items():
                self._write(schema.empty_table(), join(self._folder(name), "schema.parquet"))
        except OSError as error:
            raise JobError(f"cannot write results to '{self.path}': {error}; choose another path") from error

    def check(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Refuse columns other than those of the results that are in the folder and stay there."""
        for name, schema in schemas.items():
            system, folder = resolve(self._folder(name))
            infos = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
            stays = [
                i for i in infos if i.base_name.endswith(".parquet") and not self._goes(name, i.base_name)
            ]
            for info in stays[:1]:
                with system.open_input_file(info.path) as source:
                    if pq.read_schema(source) != schema:
                        raise _other_columns(name)

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Write the step's files; before a query's first, what an interrupted run left of this step goes."""
        self._remove_from(seq)
        for name, table in results.items():
            self._write(table, join(self._folder(name), f"{self._stream}-{seq:010}.parquet"))

    def close(self) -> None:
        """Every file is complete; another run may begin."""
        self._begin()

    def _folder(self, name: str) -> str:
        return join(self.path, quote(name, safe=" ()=,+"))

    def _write(self, table: pa.Table, place: str) -> None:
        out = pa.BufferOutputStream()
        pq.write_table(table, out)
        system, path = resolve(place)
        write_atomically(system, path, out.getvalue())

    def _goes(self, name: str, file: str) -> bool:
        """Whether a file is the run's own to replace: a run without a checkpoint begins anew."""
        return file == "schema.parquet" or (
            self._stream == "run" and name not in self._opened and file.startswith("run-")
        )

    def _remove_from(self, seq: int) -> None:
        """Remove the stream's files of this step and of later ones, of queries that were opened since."""
        fresh, self._fresh = self._fresh, set()
        for name in fresh:
            system, folder = resolve(self._folder(name))
            for info in system.get_file_info(fs.FileSelector(folder)):
                stream, _, number = info.base_name.removesuffix(".parquet").rpartition("-")
                if stream == self._stream and number.isdigit() and int(number) >= seq:
                    system.delete_file(info.path)


class ConsoleSink:
    """Prints the first results of each query and step."""

    def __init__(self, rows: int = 10, console: Console | None = None) -> None:
        self.rows, self.console = rows, console or Console()

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Nothing to do."""

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Print."""
        for name, table in results.items():
            printed = Table(*table.column_names)
            for row in table.slice(0, self.rows).to_pylist():
                printed.add_row(*map(_cell, row.values()))
            self.console.print(f"{name}, step {seq}: {table.num_rows:,} rows", highlight=False, markup=False)
            self.console.print(printed)

    def close(self) -> None:
        """Nothing to do."""


class FunctionSink:
    """Calls a function with each step's results as Arrow tables, and the step's number.

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


def _other_columns(name: str) -> JobError:
    return JobError(
        f"the results of query '{name}' so far have other columns or types than it would give now; "
        "give the query another name, or the same columns"
    )


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return re.sub(r"\+00:00$", "", text)
