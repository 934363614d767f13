"""The lookup tables of a run: where each comes from, and which version of it is in use now.

A table is given as it is, or as a path whose files are read again when they change, or as a function that
is called before each batch. A version that cannot be used (half-written, other columns, a key twice) is
refused where a run begins; later the last good one stays, with a warning, until there is a better one.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from weft.errors import JobError, WeftError
from weft.io.files import Files
from weft.io.lookups import TableSource, TableVersion, load_version
from weft.model.join import JoinQuery
from weft.model.query import Query
from weft.operators.lookups.bind import BoundLookup
from weft.operators.lookups.index import NO_LOOKUPS, LookupIndex, Lookups

log = logging.getLogger(__name__)


class LookupTables:
    """The tables of one run, by name; safe to use from several threads.

    >>> close = pa.table({"symbol": ["A"], "cp": [1.5]})
    >>> tables = LookupTables({"close": lambda: close})
    >>> tables.schema("close").names
    ['symbol', 'cp']
    """

    def __init__(self, sources: Mapping[str, TableSource] | None = None) -> None:
        self._sources = dict(sources or {})
        self._versions: dict[str, TableVersion] = {}
        self._indexes: dict[tuple[str, BoundLookup], LookupIndex] = {}
        self._warnings: dict[str, str] = {}
        self._lock = threading.RLock()

    def schema(self, name: str) -> pa.Schema:
        """The columns of a table as it is now."""
        with self._lock:
            version = self._versions[name] = self._now(name)
            return version.table.schema

    def schemas(self, queries: Iterable[Query | JoinQuery]) -> dict[str, pa.Schema]:
        """Return the columns of the tables that queries look up; of the others given, the names alone."""
        names = {table for query in queries for table in query.tables}
        empty = pa.schema([])
        return {name: self.schema(name) if name in names else empty for name in self._sources}

    def refresh(self, lookups: Sequence[BoundLookup]) -> None:
        """Take the newest versions of the tables of these lookups, which are all that the next batch needs.

        >>> from weft.model.expression import Column
        >>> tables = LookupTables({"close": pa.table({"symbol": ["A"], "cp": [1.5]})})
        >>> key = (Column("s"), "symbol", pa.string())
        >>> close = BoundLookup("close[s = symbol]", "close", (key,), (("cp", "cp", pa.float64()),))
        >>> tables.refresh([close])
        >>> tables.lookups([close]).extend(pa.record_batch({"s": ["A"]}))[0]["cp"].to_pylist()
        [1.5]
        """
        with self._lock:
            for name in dict.fromkeys(lookup.table for lookup in lookups):
                self._refresh(name, lookups)
            self._indexes = {key: self._indexes[key] for key in map(self._key, lookups)}

    def lookups(self, lookups: Sequence[BoundLookup]) -> Lookups:
        """Return what brings the columns of some lookups to rows, as of the last ``refresh``."""
        if not lookups:
            return NO_LOOKUPS
        with self._lock:
            return Lookups([self._indexes[self._key(lookup)] for lookup in lookups])

    def versions(self, lookups: Sequence[BoundLookup]) -> dict[str, TableVersion]:
        """Return the versions of the tables of these lookups, as of the last ``refresh``."""
        with self._lock:
            return {lookup.table: self._versions[lookup.table] for lookup in lookups}

    def replace(self, name: str, table: TableSource, lookups: Sequence[BoundLookup]) -> None:
        """Take another table, or another place to find it, from the next batch on; JobError if unusable.

        ``lookups`` are all that the run has.
        """
        with self._lock:
            if name not in self._sources:
                names = ", ".join(self._sources) or "none"
                raise JobError(f"no table {name!r} is joined; the tables of this run are {names}")
            version = load_version(name, table, None)
            self._index(name, version, lookups)
            self._sources[name], self._versions[name] = table, version

    def _now(self, name: str) -> TableVersion:
        """The version that the source has now."""
        source, last = self._sources[name], self._versions.get(name)
        may_change = callable(source) or isinstance(source, str | os.PathLike | Files)
        return last if last is not None and not may_change else load_version(name, source, last)

    def _refresh(self, name: str, lookups: Sequence[BoundLookup]) -> None:
        """Hold the newest version that can be used."""
        if name not in self._sources:
            raise JobError(f"no table {name!r} is given; give it with tables={{{name!r}: ...}}")
        try:
            version = self._now(name)
            self._index(name, version, lookups)
            self._warnings.pop(name, None)
        except WeftError as error:
            if name not in self._versions:
                raise
            version = self._versions[name]
            self._index(name, version, lookups)
            if self._warnings.get(name) != str(error):
                log.warning("%s; the last good version of table %r stays in use", error, name)
            self._warnings[name] = str(error)
        self._versions[name] = version

    def _index(self, name: str, version: TableVersion, lookups: Sequence[BoundLookup]) -> None:
        for lookup in lookups:
            if lookup.table == name and (version.id, lookup) not in self._indexes:
                self._indexes[version.id, lookup] = LookupIndex(lookup, version.table)

    def _key(self, lookup: BoundLookup) -> tuple[str, BoundLookup]:
        return self._versions[lookup.table].id, lookup
