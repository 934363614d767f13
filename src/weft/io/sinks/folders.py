"""Folders as sinks: one per query, with a file of each step that had results, in Parquet or JSON lines."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from rich.console import Console

from weft.errors import JobError
from weft.io.filesystem import join, resolve, uri, write_atomically
from weft.io.json_values import json_rows
from weft.io.kinds import SinkKind
from weft.io.sinks.base import NO_CHECKPOINT, CheckingSink, other_columns

SCHEMA = "schema"
"""The name of the file that has the columns and no row."""


class FolderSink(ABC):
    """A folder ``path/<query>`` for each query, with a file ``<stream>-<step>`` of each step: one that is
    delivered again writes the same files again, and touches no others.

    A run without a checkpoint, whose stream is called ``run``, begins anew: files of another such run go.
    """

    suffix: str

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = uri(path)
        self._stream = NO_CHECKPOINT
        self._begin()

    @abstractmethod
    def _bytes(self, table: pa.Table) -> pa.Buffer | bytes:
        """A table as the contents of a file."""

    def _begin(self) -> None:
        self._schemas: dict[str, pa.Schema] = {}
        self._opened: set[str] = set()
        self._fresh: set[str] = set()
        """Queries without a delivery since they were opened."""
        self._left_over: set[str] = set()
        """Queries in whose folders files of another run without a checkpoint may be."""

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Make the folders, each with a file that has the columns and no row."""
        self._stream = stream
        new = {name: schema for name, schema in schemas.items() if self._schemas.get(name) != schema}
        if isinstance(self, CheckingSink):
            self.check(new)
        self._schemas, self._fresh = dict(schemas), self._fresh | set(new)
        if stream == NO_CHECKPOINT:
            self._left_over |= set(new) - self._opened
        self._opened |= set(new)
        try:
            for name, schema in new.items():
                self._write(schema.empty_table(), join(self._folder(name), SCHEMA + self.suffix))
        except OSError as error:
            raise JobError(f"cannot write results to '{self.path}': {error}; choose another path") from error

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Write the step's files."""
        self._remove_left_over()
        self._remove_unwritten(results, seq)
        for name, table in results.items():
            self._write(table, self._file(name, seq))

    def rewind(self, after: int) -> None:
        """Remove the files of later steps, also of queries that are no longer there."""
        system, root = resolve(self.path)
        for info in system.get_file_info(fs.FileSelector(root, allow_not_found=True)):
            if info.type == fs.FileType.Directory:
                self._remove(info.path, lambda step: step > after)

    def close(self) -> None:
        """Every file is complete; another run may begin."""
        self._begin()

    def _folder(self, name: str) -> str:
        return join(self.path, quote(name, safe=" ()=,+"))

    def _file(self, name: str, seq: int) -> str:
        return join(self._folder(name), f"{self._stream}-{seq:010}{self.suffix}")

    def _write(self, table: pa.Table, place: str) -> None:
        system, path = resolve(place)
        write_atomically(system, path, self._bytes(table))

    def _goes(self, name: str, file: str) -> bool:
        """Return whether a file is the run's own to replace: a run without a checkpoint begins anew."""
        return file == SCHEMA + self.suffix or (
            self._stream == NO_CHECKPOINT
            and name not in self._opened
            and file.startswith(f"{NO_CHECKPOINT}-")
        )

    def _remove_left_over(self) -> None:
        """Remove what another run without a checkpoint left of queries that were opened since."""
        left_over, self._left_over = self._left_over, set()
        for name in left_over:
            self._remove(resolve(self._folder(name))[1], lambda step: True)

    def _remove_unwritten(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Remove files of this very step that it has not: a step of a checkpoint of format 4 was delivered
        before it was committed, and may have been made again since.

        They are looked for once, at a query's first delivery; later steps always have the same files.
        """
        fresh, self._fresh = self._fresh, set()
        for name in fresh - set(results):
            system, path = resolve(self._file(name, seq))
            if system.get_file_info(path).type == fs.FileType.File:
                system.delete_file(path)

    def _remove(self, folder: str, is_gone: Callable[[int], bool]) -> None:
        """Remove the files of some of this stream's steps from a folder."""
        system, _ = resolve(self.path)
        for info in system.get_file_info(fs.FileSelector(folder)):
            stream, _, number = info.base_name.removesuffix(self.suffix).rpartition("-")
            if stream == self._stream and number.isdigit() and is_gone(int(number)):
                system.delete_file(info.path)


class ParquetSink(FolderSink):
    """One Parquet table per query.

    >>> import tempfile
    >>> place = tempfile.mkdtemp()
    >>> sink = ParquetSink(place)
    >>> sink.open({"q": pa.schema({"n": pa.int64()})}, stream="run")
    >>> sink.deliver({"q": pa.table({"n": [1]})}, seq=1)
    >>> pq.read_table(place + "/q").column("n").to_pylist()
    [1]
    """

    suffix = ".parquet"

    def check(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Refuse columns other than those of the results that are in the folder and stay there."""
        for name, schema in schemas.items():
            system, folder = resolve(self._folder(name))
            infos = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
            stays = [
                i for i in infos if i.base_name.endswith(self.suffix) and not self._goes(name, i.base_name)
            ]
            for info in stays[:1]:
                with system.open_input_file(info.path) as source:
                    if pq.read_schema(source) != schema:
                        raise other_columns(name)

    def _bytes(self, table: pa.Table) -> pa.Buffer:
        out = pa.BufferOutputStream()
        pq.write_table(table, out)
        return out.getvalue()


class JsonSink(FolderSink):
    """Lines of JSON: one object per result.

    >>> import pathlib, tempfile
    >>> place = tempfile.mkdtemp()
    >>> sink = JsonSink(place)
    >>> sink.open({"q": pa.schema({"n": pa.int64()})}, stream="run")
    >>> sink.deliver({"q": pa.table({"n": [1, 2]})}, seq=1)
    >>> pathlib.Path(place, "q", "run-0000000001.jsonl").read_text()
    '{"n":1}\\n{"n":2}\\n'
    """

    suffix = ".jsonl"

    def _bytes(self, table: pa.Table) -> bytes:
        return "".join(f"{line}\n" for line in json_rows(table)).encode()


@dataclass(frozen=True, slots=True)
class ToParquet(SinkKind):
    """One Parquet table per query, in a folder of its name."""

    kind: ClassVar[str] = "parquet"

    path: Path
    """the folder of these folders"""

    def make(self, console: Console) -> ParquetSink:
        """Make the sink."""
        return ParquetSink(self.path)


@dataclass(frozen=True, slots=True)
class ToJson(SinkKind):
    """Lines of JSON, in a folder per query."""

    kind: ClassVar[str] = "json"

    path: Path
    """the folder of these folders"""

    def make(self, console: Console) -> JsonSink:
        """Make the sink."""
        return JsonSink(self.path)
