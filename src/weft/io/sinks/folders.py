"""Folders as sinks: one per query, with a file of each step that had results, in Parquet or JSON lines."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from weft.errors import JobError
from weft.io.filesystem import join, resolve, uri, write_atomically
from weft.io.json_values import json_rows
from weft.io.sinks.base import CheckingSink, other_columns

SCHEMA = "schema"
"""The name of the file that has the columns and no row."""


class FolderSink(ABC):
    """A folder ``path/<query>`` for each query; a step that is delivered again replaces its files."""

    suffix: str

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = uri(path)
        self._stream = "run"
        self._begin()

    @abstractmethod
    def _bytes(self, table: pa.Table) -> pa.Buffer | bytes:
        """A table as the contents of a file."""

    def _begin(self) -> None:
        self._schemas: dict[str, pa.Schema] = {}
        self._opened: set[str] = set()
        self._fresh: set[str] = set()

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Make the folders, each with a file that has the columns and no row."""
        self._stream = stream
        new = {name: schema for name, schema in schemas.items() if self._schemas.get(name) != schema}
        if isinstance(self, CheckingSink):
            self.check(new)
        self._schemas, self._fresh = dict(schemas), self._fresh | set(new)
        self._opened |= set(new)
        try:
            for name, schema in new.items():
                self._write(schema.empty_table(), join(self._folder(name), SCHEMA + self.suffix))
        except OSError as error:
            raise JobError(f"cannot write results to '{self.path}': {error}; choose another path") from error

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Write the step's files; before a query's first, what an interrupted run left of this step goes."""
        self._remove_from(seq)
        for name, table in results.items():
            self._write(table, join(self._folder(name), f"{self._stream}-{seq:010}{self.suffix}"))

    def close(self) -> None:
        """Every file is complete; another run may begin."""
        self._begin()

    def _folder(self, name: str) -> str:
        return join(self.path, quote(name, safe=" ()=,+"))

    def _write(self, table: pa.Table, place: str) -> None:
        system, path = resolve(place)
        write_atomically(system, path, self._bytes(table))

    def _goes(self, name: str, file: str) -> bool:
        """Return whether a file is the run's own to replace: a run without a checkpoint begins anew."""
        return file == SCHEMA + self.suffix or (
            self._stream == "run" and name not in self._opened and file.startswith("run-")
        )

    def _remove_from(self, seq: int) -> None:
        """Remove the stream's files of this step and of later ones, of queries that were opened since."""
        fresh, self._fresh = self._fresh, set()
        for name in fresh:
            system, folder = resolve(self._folder(name))
            for info in system.get_file_info(fs.FileSelector(folder)):
                stream, _, number = info.base_name.removesuffix(self.suffix).rpartition("-")
                if stream == self._stream and number.isdigit() and int(number) >= seq:
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
