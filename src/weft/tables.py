"""The static tables of a run: where each comes from, and which version of it is joined now.

A table is given as it is, or as a path whose files are read again when they change, or as a function that
is called before each batch. A version that cannot be used (half-written, other columns, a key twice) is
refused where a run begins; later the last good one stays, with a warning, until there is a better one.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from weft.engine.bind import Join
from weft.engine.enrich import NO_TABLES, Enrichment, LookUp
from weft.engine.program import Program
from weft.errors import JobError, WeftError
from weft.files import Chunk, Files, Found
from weft.query import Query

Batch: TypeAlias = Any
"""A pyarrow Table or RecordBatch, a pandas or polars DataFrame, or anything with an Arrow C stream."""

TableSource: TypeAlias = Any
"""A table as above, a Spark DataFrame, ``Files`` or a path, or a function that gives one of these."""

SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Version:
    """A table as it is for some time; ``files`` are those it was read from, ``id`` is its own."""

    table: pa.Table
    files: tuple[Found, ...] | None
    id: str


class Tables:
    """The tables of one run, by name; safe to use from several threads.

    >>> close = pa.table({"symbol": ["A"], "cp": [1.5]})
    >>> tables = Tables({"close": lambda: close})
    >>> tables.schema("close").names
    ['symbol', 'cp']
    """

    def __init__(self, given: Mapping[str, TableSource] | None = None) -> None:
        self._given = dict(given or {})
        self._held: dict[str, Version] = {}
        self._look_ups: dict[tuple[str, Join], LookUp] = {}
        self._warned: dict[str, str] = {}
        self._lock = threading.RLock()

    def schema(self, name: str) -> pa.Schema:
        """The columns of a table as it is now."""
        with self._lock:
            version = self._held[name] = self._now(name)
            return version.table.schema

    def schemas(self, queries: Iterable[Query]) -> dict[str, pa.Schema]:
        """The columns of the tables that queries join, as far as they are given; the others' names too."""
        joined = {join.table for query in queries for join in query.joins}
        empty = pa.schema([])
        return {name: self.schema(name) if name in joined else empty for name in self._given}

    def enrichment(self, program: Program) -> Enrichment:
        """What brings the columns of all tables that a program joins to the rows of the next batch."""
        if not program.joins:
            return NO_TABLES
        with self._lock:
            for name in dict.fromkeys(join.table for join in program.joins):
                self._refresh(name, program)
            kept = {(self._held[join.table].id, join): join for join in program.joins}
            self._look_ups = {key: self._look_ups[key] for key in kept}
            return Enrichment(list(self._look_ups.values()))

    def versions(self, program: Program) -> dict[str, Version]:
        """The versions of the tables that a program joins, as of the last enrichment."""
        with self._lock:
            return {join.table: self._held[join.table] for join in program.joins}

    def replace(self, name: str, table: TableSource, program: Program) -> None:
        """Take another table, or another place to find it, from the next batch on; JobError if unusable."""
        with self._lock:
            if name not in self._given:
                known = ", ".join(self._given) or "none"
                raise JobError(f"no table {name!r} is joined; the tables of this run are {known}")
            version = _load(name, table, None)
            self._index(name, version, program)
            self._given[name], self._held[name] = table, version

    def _now(self, name: str) -> Version:
        """The version that the source has now."""
        given, held = self._given[name], self._held.get(name)
        may_change = callable(given) or isinstance(given, str | os.PathLike | Files)
        return held if held is not None and not may_change else _load(name, given, held)

    def _refresh(self, name: str, program: Program) -> None:
        """Hold the newest version that can be used."""
        if name not in self._given:
            raise JobError(f"no table {name!r} is given; give it with tables={{{name!r}: ...}}")
        try:
            version = self._now(name)
            self._index(name, version, program)
            self._warned.pop(name, None)
        except WeftError as error:
            if name not in self._held:
                raise
            version = self._held[name]
            self._index(name, version, program)
            if self._warned.get(name) != str(error):
                log.warning("%s; the last good version of table %r stays in use", error, name)
            self._warned[name] = str(error)
        self._held[name] = version

    def _index(self, name: str, version: Version, program: Program) -> None:
        for join in program.joins:
            if join.table == name and (version.id, join) not in self._look_ups:
                self._look_ups[version.id, join] = LookUp(join, version.table)


def _load(name: str, given: TableSource, held: Version | None) -> Version:
    """The table behind a source; the version that is held where it is still the same."""
    try:
        found = given() if callable(given) else given
        files = _files(found)
        listed = None if files is None else tuple(files.find())
        if held is not None and listed is not None and listed == held.files:
            return held
        table = as_table(found) if files is None else _read(name, files)
    except WeftError as error:
        raise JobError(f"table {name!r}: {error}") from error
    except Exception as error:
        raise JobError(f"table {name!r} cannot be read: {type(error).__name__}: {error}") from error
    if held is not None and table.equals(held.table):
        return replace(held, files=listed)
    return Version(table, listed, uuid.uuid4().hex)


def _files(found: TableSource) -> Files | None:
    """The files behind a path; None for anything else. Made anew, so that their types are found anew."""
    if isinstance(found, Files):
        return replace(found)
    if not isinstance(found, str | os.PathLike):
        return None
    return Files(found, format=format_of(found))


def format_of(path: str | os.PathLike[str]) -> str:
    """The format that the names of the files at a path tell; Parquet where they tell none.

    >>> format_of("close.csv")
    'csv'
    """
    named = [os.fspath(path)]
    if os.path.splitext(named[0].lower())[1] not in SUFFIXES:
        named = [found.path for found in Files(path).find()]
    suffixes = (os.path.splitext(name.lower())[1] for name in named)
    formats = {SUFFIXES[suffix] for suffix in suffixes if suffix in SUFFIXES}
    if len(formats) > 1:
        raise JobError(f"'{path}' holds files of several formats; name one with format=...")
    return formats.pop() if formats else "parquet"


def _read(name: str, files: Files) -> pa.Table:
    chunks = list(files)
    bad = sum(chunk.bad for chunk in chunks)
    if bad:
        log.warning("table %r: %d rows or values of '%s' cannot be read, and are left out", name, bad, files)
    for path in (path for chunk in chunks for path in chunk.skipped):
        log.warning("table %r: file '%s' cannot be read, and is left out", name, path)
    return pa.concat_tables(
        [files.stream_schema().empty_table(), *(c.table for c in chunks)]
    ).combine_chunks()


def as_chunk(batch: Batch | Chunk) -> Chunk:
    """A chunk of a source, or a batch as one, of which nothing is known to be bad."""
    return batch if isinstance(batch, Chunk) else Chunk(as_table(batch))


def as_table(batch: Batch) -> pa.Table:
    """Any table-like thing as an Arrow table."""
    if isinstance(batch, pa.Table):
        return batch
    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    if hasattr(batch, "toArrow"):
        return _plain_views(batch.toArrow())
    if hasattr(batch, "__arrow_c_stream__"):
        return _plain_views(pa.table(batch))
    if hasattr(batch, "to_arrow"):
        return _plain_views(batch.to_arrow())
    raise JobError(
        f"{type(batch).__name__} is not a table; give pyarrow, pandas or polars tables, one or many"
    )


def _plain_views(table: pa.Table) -> pa.Table:
    """String views (as polars exports them) as plain strings."""
    fields = [
        f.with_type(pa.string()) if f.type in (pa.string_view(), pa.large_string()) else f
        for f in table.schema
    ]
    return table.cast(pa.schema(fields))
