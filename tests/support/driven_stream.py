"""A stream as ``weft.stream`` sets it up over a checkpoint, for driver and tasks in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from weft.expr.types import UTC
from weft.io.files import Chunk
from weft.operators.lookups.tables import LookupTables
from weft.operators.watermark import TimeRules
from weft.runner.delivery import Delivery
from weft.runner.opening import open_queries
from weft.runner.program import UNNAMED, AnyQuery, ProgramCompiler
from weft.runner.version_keeper import VersionKeeper
from weft.spark.driver import StreamDriver
from weft.spark.stream_sources import BatchPart, JobRows
from weft.store.checkpoint import Checkpoint
from weft.store.split import split_again

TIME = "ts"


@dataclass(frozen=True)
class StreamSetting:
    """The setting that a run is started with; a stream without a name is the only one."""

    queries: tuple[AnyQuery, ...]
    schemas: Mapping[str, pa.Schema]
    lateness: Mapping[str, int]
    buckets: int = 1
    strategy: str = "share-all"
    technique: str = "auto"
    chain: str = "mem-opt"
    tables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rules(self) -> dict[str, TimeRules]:
        """The rules of each stream's watermark."""
        return {name: TimeRules(wait) for name, wait in self.lateness.items()}


def start_driver(
    setting: StreamSetting, place: str, session: Any, sink: Any, late: Any = None, buckets: int | None = None
) -> StreamDriver:
    """Begin, or go on, in so many buckets from now on; sinks are given what they lack."""
    checkpoint, tables = Checkpoint(place), LookupTables(setting.tables)
    last = checkpoint.last
    buckets = buckets or (last.buckets if last is not None and last.buckets else setting.buckets)
    schemas = setting.schemas
    compiler = ProgramCompiler(
        schemas,
        dict.fromkeys(schemas, TIME),
        None if UNNAMED in schemas else tuple(schemas),
        setting.strategy,
        setting.technique,
        False,
        buckets,
        setting.chain,
        UTC,
        tables.schemas,
    )
    running = open_queries(checkpoint, compiler, setting.queries, None)
    checkpoint.claim()
    split_again(checkpoint, running.program, buckets)
    delivery = Delivery(sink, "s", late)
    delivery.catch_up(checkpoint, running.program)
    versions = VersionKeeper(checkpoint, compiler, setting.queries, dict(setting.lateness))
    return StreamDriver(
        session, running, checkpoint, versions, delivery, setting.rules, tables, buckets, None
    )


@dataclass(frozen=True)
class TableInput:
    """A batch of some streams as the input of map tasks: each has some rows, one after the other."""

    tables: Mapping[str, pa.Table]
    tasks: int

    def chunks(self, batches: Iterator[Any], task: int, reads: Any) -> Iterator[tuple[str, Chunk]]:
        for stream, table in self.tables.items():
            size = -(-table.num_rows // self.tasks)
            share = table.slice(task * size, size)
            if share.num_rows:
                yield stream, Chunk(share)


def batch_of(session: Any, tables: Mapping[str, pa.Table], tasks: int) -> BatchPart:
    """Return tables as the batch of a step, in so many map tasks."""
    frame = session.range(0, tasks, 1, tasks)
    rows: Any = TableInput(tables, tasks)
    return BatchPart(lambda _: JobRows(frame, rows, ()))
