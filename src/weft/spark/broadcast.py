"""Lookup tables on their way to tasks: each version is broadcast once, and unpacked once by each worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import SparkSession

from weft.operators.lookups.index import NO_LOOKUPS, LookupIndex, Lookups
from weft.operators.lookups.tables import LookupTables
from weft.operators.windows.program import Program


@dataclass(frozen=True)
class ShippedTables:
    """The tables that a step joins: by name, the version, and what was broadcast of it."""

    sent: Mapping[str, tuple[str, Broadcast[bytes]]]
    _unpacked: ClassVar[dict[object, Lookups]] = {}

    def unpack(self, program: Program) -> Lookups:
        """Return the lookups that bring their columns to the rows of a task."""
        if not self.sent:
            return NO_LOOKUPS
        key = (program.lookups, tuple(version for version, _ in self.sent.values()))
        lookups = self._unpacked.get(key)
        if lookups is None:
            if len(self._unpacked) >= 4:
                self._unpacked.clear()
            tables = {name: _from_bytes(sent.value) for name, (_, sent) in self.sent.items()}
            lookups = Lookups([LookupIndex(join, tables[join.table]) for join in program.lookups])
            self._unpacked[key] = lookups
        return lookups


class TableBroadcaster:
    """Broadcasts tables as they change; what a version before it took is let go."""

    def __init__(self, spark: SparkSession, tables: LookupTables) -> None:
        self.spark, self.tables = spark, tables
        self._sent: dict[str, tuple[str, Broadcast[bytes]]] = {}

    def ship(self, program: Program) -> ShippedTables:
        """Broadcast the tables as they are now, checked, for the tasks of the next step."""
        self.tables.lookups(program)
        for name, version in self.tables.versions(program).items():
            before = self._sent.get(name)
            if before is None or before[0] != version.id:
                sent = self.spark.sparkContext.broadcast(_to_bytes(version.table))
                self._sent[name] = (version.id, sent)
                if before is not None:
                    before[1].destroy()  # no step is being made that uses it
        return ShippedTables({name: self._sent[name] for name in self.tables.versions(program)})


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _from_bytes(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
