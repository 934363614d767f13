"""Programs and lookup tables on their way to tasks: a worker unpacks each once, and keeps it."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from pyspark import Broadcast, cloudpickle
from pyspark.sql import SparkSession

from weft.operators.lookups.bind import BoundLookup
from weft.operators.lookups.index import LookupIndex, Lookups
from weft.operators.lookups.tables import LookupTables
from weft.runner.prepare import StepLookups
from weft.runner.program import Program

MAX_UNPACKED_PROGRAMS = 16
MAX_UNPACKED_TABLES = 16


class ShippedProgram:
    """A program on its way to tasks."""

    _unpacked: ClassVar[dict[str, Any]] = {}

    def __init__(self, program: Program) -> None:
        self.name = uuid.uuid4().hex
        # Aggregates hold functions, also ones that cannot be imported by name.
        self.data: bytes = cloudpickle.dumps(program)  # type: ignore[no-untyped-call]

    def unpack(self) -> Program:
        """Return the program."""
        program = self._unpacked.get(self.name)
        if program is None:
            if len(self._unpacked) >= MAX_UNPACKED_PROGRAMS:
                self._unpacked.clear()
            program = self._unpacked[self.name] = pickle.loads(self.data)
        return program  # type: ignore[no-any-return]


@dataclass(frozen=True)
class ShippedTables:
    """The tables that a step looks up: by name, the version, and what was broadcast of it."""

    sent: Mapping[str, tuple[str, Broadcast[bytes]]]
    _unpacked: ClassVar[dict[object, LookupIndex]] = {}

    def unpack(self, program: Program) -> StepLookups:
        """Return the lookups that bring their columns to the rows of a task."""
        by_stage = {
            (stage.name, stream): Lookups([self._index(lookup) for lookup in bound])
            for stage in program.stages
            for stream, bound in stage.lookups.items()
            if bound
        }
        return StepLookups(by_stage)

    def _index(self, lookup: BoundLookup) -> LookupIndex:
        version, sent = self.sent[lookup.table]
        index = self._unpacked.get((version, lookup))
        if index is None:
            if len(self._unpacked) >= MAX_UNPACKED_TABLES:
                self._unpacked.clear()
            index = self._unpacked[version, lookup] = LookupIndex(lookup, _from_bytes(sent.value))
        return index


class TableShipper:
    """Broadcasts tables as they change; what a version before it took is let go."""

    def __init__(self, spark: SparkSession, tables: LookupTables) -> None:
        self.spark, self.tables = spark, tables
        self._sent: dict[str, tuple[str, Broadcast[bytes]]] = {}

    def ship(self, lookups: Sequence[BoundLookup]) -> ShippedTables:
        """Broadcast the tables as they are now, checked, for the tasks of the next step."""
        self.tables.refresh(lookups)
        versions = self.tables.versions(lookups)
        for name, version in versions.items():
            before = self._sent.get(name)
            if before is None or before[0] != version.id:
                sent = self.spark.sparkContext.broadcast(_to_bytes(version.table))
                self._sent[name] = (version.id, sent)
                if before is not None:
                    before[1].destroy()  # no step is being made that uses it
        return ShippedTables({name: self._sent[name] for name in versions})


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _from_bytes(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
