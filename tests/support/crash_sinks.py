"""The sinks that disturbed runs deliver to, and what they hold in the end: rows by query and step."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from weft.io.sinks import Sink
from weft.sinks import FunctionSink, JsonSink, MemorySink, ParquetSink

Content: TypeAlias = dict[tuple[str, str, int], str]
"""Rows as text, by sink (results or late rows), query and step."""


class SinkPlace(ABC):
    """A place for results and one for late rows, which outlives the sinks that runs make for it."""

    address = ""
    """How another process finds it."""

    @abstractmethod
    def make(self) -> Sink:
        """Make a sink of results, as a run that begins does."""

    @abstractmethod
    def make_late(self) -> Sink:
        """Make a sink of late rows."""

    @abstractmethod
    def content(self) -> Content:
        """Return all that is there."""

    def close(self) -> None:
        """Remove what outlives this process."""
        return


def rows_text(table: pa.Table) -> str:
    """Return rows to the last bit, in no order: which comes first depends on how long a run knows a key."""
    return repr(sorted(map(repr, zip(*table.to_pydict().values()))))


class Memory(SinkPlace):
    """Memory that outlives runs, as that of a service would."""

    def __init__(self) -> None:
        self.results, self.late = MemorySink(), MemorySink()

    def make(self) -> Sink:
        return self.results

    def make_late(self) -> Sink:
        return self.late

    def content(self) -> Content:
        return {
            (kind, name, seq): rows_text(table)
            for kind, sink in (("results", self.results), ("late", self.late))
            for seq, tables in sink.steps.items()
            for name, table in tables.items()
        }


class FunctionCalls(SinkPlace):
    """A function, which is called twice for a step only with the same rows."""

    def __init__(self) -> None:
        self.steps: dict[tuple[str, int], dict[str, pa.Table]] = {}

    def make(self) -> Sink:
        return FunctionSink(lambda tables, seq: self._take("results", tables, seq))

    def make_late(self) -> Sink:
        return FunctionSink(lambda tables, seq: self._take("late", tables, seq))

    def _take(self, kind: str, tables: dict[str, pa.Table], seq: int) -> None:
        before = self.steps.setdefault((kind, seq), tables)
        assert before == tables, "a step was delivered again with other rows"

    def content(self) -> Content:
        return {
            (kind, name, seq): rows_text(rows)
            for (kind, seq), tables in self.steps.items()
            for name, rows in tables.items()
        }


class Folders(SinkPlace):
    """Folders of Parquet or of JSON lines."""

    def __init__(self, folder: Path, sink: type[ParquetSink] | type[JsonSink]) -> None:
        self.folder, self.sink = folder, sink
        self.address = str(folder)

    def make(self) -> Sink:
        return self.sink(self.folder / "results")

    def make_late(self) -> Sink:
        return self.sink(self.folder / "late")

    def content(self) -> Content:
        content: Content = {}
        for path in self.folder.rglob(f"[!.]*{self.sink.suffix}"):
            if path.stem == "schema":
                continue
            place = (path.parts[-3], path.parent.name, int(path.stem.rpartition("-")[2]))
            assert place not in content
            parquet = self.sink is ParquetSink
            lines = rows_text(pq.read_table(path)) if parquet else repr(sorted(path.read_text().splitlines()))
            content[place] = lines
        return content


class Tables(SinkPlace):
    """Tables of a PostgreSQL server, in schemas of their own."""

    def __init__(self, address: str, schema: str) -> None:
        import psycopg

        self.server, self.schema = address, schema
        self.address = f"{address}|{schema}"
        self._connection = psycopg.connect(address, autocommit=True)

    def make(self) -> Sink:
        return self._sink("results")

    def make_late(self) -> Sink:
        return self._sink("late")

    def _sink(self, kind: str) -> Sink:
        from weft.sinks import PostgresSink

        return PostgresSink(self.server, schema=f"{self.schema}_{kind}")

    def content(self) -> Content:
        content: Content = {}
        names = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema LIKE %s"
        for schema, table in self._connection.execute(names, (f"{self.schema}_%",)).fetchall():
            if table == "weft_delivered":
                continue
            rows = self._connection.execute(f'SELECT * FROM "{schema}"."{table}"').fetchall()
            by_step: dict[int, list[str]] = {}
            for row in rows:
                by_step.setdefault(row[-1], []).append(repr(row[:-2]))
            kind = schema.rpartition("_")[2]
            content |= {(kind, table, step): repr(sorted(own)) for step, own in by_step.items()}
        return content

    def close(self) -> None:
        """Remove the tables."""
        for kind in ("results", "late"):
            self._connection.execute(f'DROP SCHEMA IF EXISTS "{self.schema}_{kind}" CASCADE')
        self._connection.close()


class Requests(SinkPlace):
    """A web server, which takes a request once by its key."""

    def __init__(self, hook: Any) -> None:
        self.hook, self.address = hook, hook.url
        hook.requests.clear()

    def make(self) -> Sink:
        return self._sink("results")

    def make_late(self) -> Sink:
        return self._sink("late")

    def _sink(self, kind: str) -> Sink:
        from weft.sinks import WebhookSink

        return WebhookSink(self.hook.url, headers={"X-Kind": kind}, tries=1)

    def content(self) -> Content:
        content: Content = {}
        by_key: dict[str, str] = {}
        for _, headers, body in self.hook.requests:
            place = (headers["X-Kind"], f"{body['query']}/{body['part']}", body["step"])
            rows = json.dumps(body["results"])
            assert by_key.setdefault(headers["Idempotency-Key"], rows) == rows, (
                "a request came again, altered"
            )
            content[place] = repr(sorted(map(json.dumps, body["results"])))
        return content


class Topic(SinkPlace):
    """Topics of a broker. The one of the tests lets everybody write; brokers shut out a producer once another
    with its transactional id has begun, and so does this."""

    def __init__(self, broker: Any, topic: str) -> None:
        self.broker, self.topic = broker, topic
        self.newest: dict[str, Sink] = {}

    def make(self) -> Sink:
        return self._sink("results")

    def make_late(self) -> Sink:
        return self._sink("late")

    def _sink(self, kind: str) -> Sink:
        from weft.sinks import KafkaSink

        newest = self.newest

        class FencedSink(KafkaSink):
            """A sink that is shut out by the next."""

            def _find_last(self) -> tuple[int, str]:
                newest[kind] = self
                return super()._find_last()

            def _transact(self, messages: Any, step: tuple[int, str]) -> None:
                if newest[kind] is not self:
                    raise self._taken_over()
                super()._transact(messages, step)

        return FencedSink(self.broker.servers, f"{self.topic}-{kind}")

    def content(self) -> Content:
        content: Content = {}
        for kind in ("results", "late"):
            by_query: dict[str, list[str]] = {}
            for message in self.broker.read(f"{self.topic}-{kind}"):
                row = message.value().decode()
                by_query.setdefault(json.loads(row)["query"], []).append(row)
            content |= {(kind, query, 0): repr(sorted(rows)) for query, rows in by_query.items()}
        return content
