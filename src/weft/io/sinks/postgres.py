"""PostgreSQL as a sink: a table per query, a transaction per step, rows upserted by group and window.

Two more columns, ``weft_stream`` and ``weft_step``, say which step a row is of. A table ``weft_delivered``
has the last step of each stream and query, with a digest of what it gave, and is written in the same
transaction: a step that is delivered again, or after a later one, is passed over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import pyarrow as pa
from rich.console import Console

from weft.errors import JobError
from weft.io.kinds import SinkKind
from weft.io.settings import Secret
from weft.io.sinks.base import NO_CHECKPOINT, key_columns, other_columns
from weft.io.sinks.postgres_columns import (
    DELIVERED,
    OWN_COLUMNS,
    check_columns,
    column_types,
    copied_rows,
    short_name,
    table_digest,
)

MAX_TRIES = 4
"""Tries of a step while the server is away; the pauses grow from a second on."""
MIN_SERVER_VERSION = 150000

DELIVERED_COLUMNS = {"stream": "text", "query": "text", "step": "bigint", "digest": "text"}
CLAIM = """
INSERT INTO {table} AS last (stream, query, step, digest)
SELECT %s, query, %s, digest FROM unnest(%s::text[], %s::text[]) AS given (query, digest) ORDER BY query
ON CONFLICT (stream, query) DO UPDATE SET step = EXCLUDED.step, digest = EXCLUDED.digest
WHERE last.step < EXCLUDED.step OR last.step = EXCLUDED.step AND last.digest <> EXCLUDED.digest
RETURNING query
"""
"""Notes a step, and returns the queries whose results are new; of two runs, one waits for the other's commit.

A last step with other results is one of a checkpoint of format 4: delivered before it was committed.
"""

T = TypeVar("T")


class PostgresSink:
    """Tables of a PostgreSQL database (15 or newer), named ``<prefix><query>``, in the schema ``schema``.

    ``address`` is as libpq takes it: ``postgresql://user@host/database`` or ``host=... dbname=...``. What it
    leaves out, such as a password, comes from libpq's variables and files (``PGPASSWORD``, ``~/.pgpass``).
    Results with windows in time are upserted by their groups and window, so that a stream begun anew
    overwrites what it gave before; others are appended. ``<prefix>weft_delivered`` says which step was the
    last of each stream and query.
    """

    def __init__(self, address: str, *, schema: str = "public", prefix: str = "") -> None:
        self.psycopg = _load()
        self.address, self.schema, self.prefix = address, schema, prefix
        self._connection: Any = None
        self._stream = NO_CHECKPOINT
        self._schemas: dict[str, pa.Schema] = {}
        self._fresh: set[str] = set()
        """Queries without a delivery since they were opened."""

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Make the tables that are not there yet."""
        new = {n: s for n, s in schemas.items() if self._schemas.get(n) != s}
        for name, schema in new.items():
            check_columns(name, schema)
        self._stream = stream
        self._tried(lambda connection: self._make(connection, new))
        self._schemas, self._fresh = {**self._schemas, **new}, self._fresh | set(new)

    def check(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Refuse columns that no table can have, and others than those of the tables that are there."""
        for name, schema in schemas.items():
            check_columns(name, schema)
        try:
            with self._connect() as connection:
                for name, schema in schemas.items():
                    self._check(connection, name, schema)
        except self.psycopg.Error as error:
            raise self._failed(error) from error

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Take what the step gives, unless that or a later step is there; whole or not at all."""
        self._tried(lambda connection: self._take(connection, results, seq))
        self._fresh = set()

    def rewind(self, after: int) -> None:
        """Remove the rows of later steps, also of queries that are no longer there.

        What ``weft_delivered`` says stays: a driver that slept cannot bring them back.
        """
        self._tried(lambda connection: self._remove_after(connection, after))

    def close(self) -> None:
        """Close the connection; another run may begin."""
        self._schemas, self._fresh = {}, set()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _make(self, connection: Any, schemas: Mapping[str, pa.Schema]) -> None:
        with connection.transaction():
            connection.execute(self._text("CREATE SCHEMA IF NOT EXISTS {}", self._name(self.schema)))
            last_steps = self._list(DELIVERED_COLUMNS, "{} {} NOT NULL", DELIVERED_COLUMNS)
            making = "CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY (stream, query))"
            connection.execute(self._text(making, self._table(DELIVERED), last_steps))
            for name, schema in schemas.items():
                self._check(connection, name, schema)
                table, columns = self._table(name), {**column_types(schema), **OWN_COLUMNS}
                described = self._list(columns, "{} " + "{}", columns)
                connection.execute(self._text("CREATE TABLE IF NOT EXISTS {} ({})", table, described))
                by_step = self._name(self._index(name, "step"))
                connection.execute(
                    self._text("CREATE INDEX IF NOT EXISTS {} ON {} (weft_stream, weft_step)", by_step, table)
                )
                if keys := key_columns(schema):
                    unique = "CREATE UNIQUE INDEX IF NOT EXISTS {} ON {} ({}) NULLS NOT DISTINCT"
                    by_key = self._name(self._index(name, "key"))
                    connection.execute(self._text(unique, by_key, table, self._list(keys)))
                if self._stream == NO_CHECKPOINT:
                    # A run without a checkpoint begins anew.
                    connection.execute(self._text("DELETE FROM {} WHERE weft_stream = 'run'", table))
                    forget = "DELETE FROM {} WHERE stream = 'run' AND query = %s"
                    connection.execute(self._text(forget, self._table(DELIVERED)), (name,))

    def _take(self, connection: Any, results: Mapping[str, pa.Table], seq: int) -> None:
        digests = {name: table_digest(table) for name, table in results.items() if table.num_rows}
        with connection.transaction():
            claim = self.psycopg.sql.SQL(CLAIM).format(table=self._table(DELIVERED))
            values = (self._stream, seq, list(digests), list(digests.values()))
            new = {name for (name,) in connection.execute(claim, values).fetchall()}
            made_again = "DELETE FROM {} WHERE weft_stream = %s AND weft_step = %s"
            with connection.pipeline():
                for name in new | self._fresh - set(digests):
                    connection.execute(self._text(made_again, self._table(name)), (self._stream, seq))
            for name in sorted(new):
                self._insert(connection, name, results[name], seq)

    def _remove_after(self, connection: Any, after: int) -> None:
        last_steps = self._text(
            "SELECT query FROM {} WHERE stream = %s AND step > %s", self._table(DELIVERED)
        )
        with connection.transaction():
            delivered = {name for (name,) in connection.execute(last_steps, (self._stream, after)).fetchall()}
            for name in sorted(delivered | set(self._schemas)):
                table = self._table(name)
                there = connection.execute(
                    "SELECT to_regclass(%s)", (table.as_string(connection),)
                ).fetchone()
                if there != (None,):
                    later = self._text("DELETE FROM {} WHERE weft_stream = %s AND weft_step > %s", table)
                    connection.execute(later, (self._stream, after))

    def _insert(self, connection: Any, name: str, table: pa.Table, seq: int) -> None:
        """Copy the rows beside the table, and from there into it."""
        target, types = self._table(name), {**column_types(table.schema), **OWN_COLUMNS}
        beside, columns = self._name("weft_rows"), self._list(types)
        connection.execute(self._text("CREATE TEMP TABLE {} (LIKE {}) ON COMMIT DROP", beside, target))
        copying = self._text("COPY {} ({}) FROM STDIN", beside, columns)
        with connection.cursor() as cursor, cursor.copy(copying) as copy:
            for row in copied_rows(table):
                copy.write_row((*row, self._stream, seq))
        statement = self._text("INSERT INTO {} ({}) SELECT {} FROM {}", target, columns, columns, beside)
        if keys := key_columns(self._schemas.get(name, table.schema)):
            values = self._list([c for c in types if c not in keys], "{0} = EXCLUDED.{0}")
            statement += self._text(" ON CONFLICT ({}) DO UPDATE SET {}", self._list(keys), values)
        connection.execute(statement)
        connection.execute(self._text("DROP TABLE {}", beside))

    def _check(self, connection: Any, name: str, schema: pa.Schema) -> None:
        columns = connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (self._table(name).as_string(connection),),
        ).fetchall()
        if columns and dict(columns) != {**column_types(schema), **OWN_COLUMNS}:
            raise other_columns(name)

    def _tried(self, work: Callable[[Any], T]) -> T:
        """Do some work in a connection, again while the server is away: it is in one transaction."""
        for left in range(MAX_TRIES - 1, -1, -1):
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = self._connect()
                return work(self._connection)
            except self.psycopg.OperationalError as error:
                self._connection = None
                if not left:
                    raise self._failed(error) from error
                time.sleep(2.0 ** (MAX_TRIES - 1 - left))
            except self.psycopg.Error as error:
                raise self._failed(error) from error
        raise AssertionError("unreachable")

    def _connect(self) -> Any:
        try:
            connection = self.psycopg.connect(self.address, autocommit=True, connect_timeout=10)
        except self.psycopg.ProgrammingError as error:
            raise self._failed(error) from error
        if connection.info.server_version < MIN_SERVER_VERSION:
            connection.close()
            raise JobError("the results need PostgreSQL 15 or newer (NULLS NOT DISTINCT)")
        return connection

    def _failed(self, error: Exception) -> JobError:
        return JobError(f"PostgreSQL cannot take the results: {' '.join(str(error).split())}")

    def _table(self, name: str) -> Any:
        return self.psycopg.sql.Identifier(self.schema, short_name(self.prefix + name))

    def _index(self, name: str, purpose: str) -> str:
        return short_name(self.prefix + name, f"_weft_{purpose}")

    def _name(self, name: str) -> Any:
        return self.psycopg.sql.Identifier(name)

    def _text(self, template: str, *parts: Any) -> Any:
        return self.psycopg.sql.SQL(template).format(*parts)

    def _list(self, names: Any, template: str = "{}", types: Mapping[str, str] | None = None) -> Any:
        """Names with commas between them, each as the template has it."""
        sql = self.psycopg.sql
        items = [
            sql.SQL(template).format(sql.Identifier(n), *([sql.SQL(types[n])] if types else []))
            for n in names
        ]
        return sql.SQL(", ").join(items)


def _load() -> Any:
    try:
        import psycopg
        import psycopg.sql
    except ImportError as error:
        raise JobError("PostgreSQL needs the package psycopg: pip install 'weft[postgres]'") from error
    return psycopg


@dataclass(frozen=True, slots=True)
class ToPostgres(SinkKind):
    """A table per query in PostgreSQL, upserted by group and window."""

    kind: ClassVar[str] = "postgres"

    address: Secret
    """the database, as libpq takes it: `"postgresql://user@host/database"`"""
    schema: str = "public"
    """the schema of the tables, made where it is not there"""
    prefix: str = ""
    """what the names of tables begin with"""

    def make(self, console: Console) -> PostgresSink:
        """Make the sink."""
        return PostgresSink(self.address, schema=self.schema, prefix=self.prefix)
