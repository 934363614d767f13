"""PostgreSQL as a sink: a table per query, a transaction per step, rows upserted by group and window.

Two more columns, ``weft_stream`` and ``weft_step``, say which step a row is of: a step that is delivered
again first takes back what it gave before, in the same transaction.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import pyarrow as pa

from weft.errors import JobError
from weft.io.json_values import plain, to_json
from weft.io.sinks.base import key_columns, other_columns
from weft.model.instants import postgres, python_values

MAX_TRIES = 4
"""Tries of a step while the server is away; the pauses grow from a second on."""
MIN_SERVER_VERSION = 150000
MAX_NAME_BYTES = 63
OWN_COLUMNS = {"weft_stream": "text", "weft_step": "bigint"}
SYSTEM_COLUMNS = frozenset(("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"))

T = TypeVar("T")


class PostgresSink:
    """Tables of a PostgreSQL database (15 or newer), named ``<prefix><query>``, in the schema ``schema``.

    ``address`` is as libpq takes it: ``postgresql://user@host/database`` or ``host=... dbname=...``. What it
    leaves out, such as a password, comes from libpq's variables and files (``PGPASSWORD``, ``~/.pgpass``).
    Results with windows in time are upserted by their groups and window, so that a stream begun anew
    overwrites what it gave before; others are appended.
    """

    def __init__(self, address: str, *, schema: str = "public", prefix: str = "") -> None:
        self.psycopg = _load()
        self.address, self.schema, self.prefix = address, schema, prefix
        self._connection: Any = None
        self._stream = "run"
        self._schemas: dict[str, pa.Schema] = {}

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Make the tables that are not there yet."""
        new = {n: s for n, s in schemas.items() if self._schemas.get(n) != s}
        for name, schema in new.items():
            _check_names(name, schema)
        self._stream = stream
        self._tried(lambda connection: self._make(connection, new))
        self._schemas = {**self._schemas, **new}

    def check(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Refuse columns that no table can have, and others than those of the tables that are there."""
        for name, schema in schemas.items():
            _check_names(name, schema)
        try:
            with self._connect() as connection:
                for name, schema in schemas.items():
                    self._check(connection, name, schema)
        except self.psycopg.Error as error:
            raise self._failed(error) from error

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Replace what the step gave before by what it gives now."""
        self._tried(lambda connection: self._replace(connection, results, seq))

    def close(self) -> None:
        """Close the connection; another run may begin."""
        self._schemas = {}
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _make(self, connection: Any, schemas: Mapping[str, pa.Schema]) -> None:
        with connection.transaction():
            connection.execute(self._text("CREATE SCHEMA IF NOT EXISTS {}", self._name(self.schema)))
            for name, schema in schemas.items():
                self._check(connection, name, schema)
                table, columns = self._table(name), {**_columns(schema), **OWN_COLUMNS}
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
                if self._stream == "run":
                    # A run without a checkpoint begins anew.
                    connection.execute(self._text("DELETE FROM {} WHERE weft_stream = 'run'", table))

    def _replace(self, connection: Any, results: Mapping[str, pa.Table], seq: int) -> None:
        with connection.transaction():
            gone = "DELETE FROM {} WHERE weft_stream = %s AND weft_step >= %s"
            with connection.pipeline():
                for name in self._schemas:
                    connection.execute(self._text(gone, self._table(name)), (self._stream, seq))
            for name, table in results.items():
                if table.num_rows:
                    self._insert(connection, name, table, seq)

    def _insert(self, connection: Any, name: str, table: pa.Table, seq: int) -> None:
        """Copy the rows beside the table, and from there into it."""
        target, types = self._table(name), {**_columns(table.schema), **OWN_COLUMNS}
        beside, columns = self._name("weft_rows"), self._list(types)
        connection.execute(self._text("CREATE TEMP TABLE {} (LIKE {}) ON COMMIT DROP", beside, target))
        copying = self._text("COPY {} ({}) FROM STDIN", beside, columns)
        with connection.cursor() as cursor, cursor.copy(copying) as copy:
            for row in _rows(table):
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
        if columns and dict(columns) != {**_columns(schema), **OWN_COLUMNS}:
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
        return self.psycopg.sql.Identifier(self.schema, _short(self.prefix + name))

    def _index(self, name: str, purpose: str) -> str:
        return _short(self.prefix + name, f"_weft_{purpose}")

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


def _short(name: str, suffix: str = "") -> str:
    """A name that PostgreSQL does not cut.

    >>> _short("busy", "_weft_key")
    'busy_weft_key'
    >>> len(_short("x" * 100))
    63
    """
    if len((name + suffix).encode()) <= MAX_NAME_BYTES:
        return name + suffix
    mark = f"_{hashlib.blake2s(name.encode(), digest_size=4).hexdigest()}{suffix}"
    return name.encode()[: MAX_NAME_BYTES - len(mark)].decode(errors="ignore") + mark


def _check_names(query: str, schema: pa.Schema) -> None:
    """Refuse columns that the sink, or PostgreSQL itself, has of its own, and names that it would cut."""
    for column in schema.names:
        if column in OWN_COLUMNS:
            reason = "which every table of results has for itself"
        elif column in SYSTEM_COLUMNS:
            reason = "which every table of PostgreSQL has for itself"
        elif len(column.encode()) > MAX_NAME_BYTES:
            reason = f"which has more than {MAX_NAME_BYTES} bytes"
        elif "\0" in column:
            reason = "which has a zero byte"
        else:
            continue
        raise JobError(
            f"query '{query}' has a column '{column[:80]}', {reason}; give it another name with AS"
        )


def _columns(schema: pa.Schema) -> dict[str, str]:
    """The columns of a table, and their types in PostgreSQL.

    >>> _columns(pa.schema({"n": pa.int64(), "at": pa.timestamp("us", "UTC")}))
    {'n': 'bigint', 'at': 'timestamp with time zone'}
    """
    return {field.name: _type(field.type) for field in schema}


def _type(dtype: pa.DataType) -> str:
    if pa.types.is_dictionary(dtype):
        return _type(dtype.value_type)
    if pa.types.is_timestamp(dtype):
        return f"timestamp with{'' if dtype.tz else 'out'} time zone"
    if pa.types.is_uint64(dtype) or pa.types.is_decimal(dtype):
        return "numeric"
    if pa.types.is_integer(dtype):
        return {8: "smallint", 16: "smallint", 32: "integer", 64: "bigint"}[dtype.bit_width]
    if pa.types.is_floating(dtype):
        return "double precision" if dtype.bit_width == 64 else "real"
    if pa.types.is_nested(dtype):
        return "jsonb"
    for is_kind, name in ((pa.types.is_boolean, "boolean"), (pa.types.is_date, "date"), (_binary, "bytea")):
        if is_kind(dtype):
            return name
    return "text"


def _binary(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype))


def _rows(table: pa.Table) -> Iterable[tuple[Any, ...]]:
    """Rows for COPY; values within values as JSON, and text without the zero bytes that no text may have."""
    written = {"jsonb": lambda v: to_json(plain(v)), "text": lambda v: str(v).replace("\0", "")}
    columns = []
    for field, column in zip(table.schema, table.columns):
        values, write = python_values(column, postgres), written.get(_type(field.type))
        columns.append([v if v is None else write(v) for v in values] if write else values)
    return zip(*columns)
