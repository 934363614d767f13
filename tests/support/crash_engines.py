"""One run of a small stream over a checkpoint, to its end: in this process, or by the driver for Spark.

The driver for Spark has as much of Spark in this process as it needs, with Spark's log of batches: a batch is
written down before it is run and after it, and one that was not ended is run again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unittest import mock

import weft
from support.crash_points import Calls, CountedSink
from support.crash_sinks import SinkPlace
from support.crash_streams import Moment, ScriptedReader, SmallStream
from support.one_process_spark import Session
from weft.io.files import Chunk
from weft.local import streaming
from weft.local.committing import LocalCommits
from weft.local.feed import Feed
from weft.local.running import LocalSetup
from weft.local.streaming import LocalStream
from weft.operators.lookups.tables import LookupTables
from weft.operators.watermark import TimeRules
from weft.runner import state_cache
from weft.runner.delivery import Delivery
from weft.runner.opening import claim_turn
from weft.runner.version_keeper import VersionKeeper
from weft.spark.driver import StreamDriver
from weft.spark.failure import translated
from weft.spark.stream_sources import BatchPart, JobRows
from weft.store.checkpoint import Checkpoint
from weft.store.split import split_again

BUCKETS = 2


@cache
def read_sql(text: str) -> tuple[Any, ...]:
    """Return the queries of a text, read once."""
    return tuple(weft.sql(text))


@dataclass
class Scene:
    """A stream, its checkpoint, its sinks and the table it looks up, which outlive any run."""

    stream: SmallStream
    place: str
    sinks: SinkPlace
    table: Any = None
    offsets: set[int] = field(default_factory=set)
    """Spark's batches that were begun."""
    ended: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.table = self.stream.first_table

    def setup(self) -> LocalSetup:
        """Return the queries, and what compiles them."""
        return LocalSetup.of(
            list(read_sql(self.stream.sql)),
            self.stream.schemas,
            "ts",
            {"threads": 1, "tables": self.tables()},
        )

    def tables(self) -> dict[str, Any]:
        """Return the tables to look up."""
        return {} if self.table is None else {"names": lambda: self.table}

    def rules(self) -> dict[str, TimeRules]:
        """Return the rules of each stream's time."""
        return {name: TimeRules(self.stream.lateness) for name in self.stream.schemas}

    def delivery(self, calls: Calls, stream: str) -> Delivery:
        """Return the sinks, their calls counted."""
        late = CountedSink(self.sinks.make_late(), calls, "late sink") if self.stream.late else None
        return Delivery(CountedSink(self.sinks.make(), calls), stream, late)

    def enter(self, moment: Moment, running: Any) -> None:
        """Let a moment come: its changes are asked for, and its table is there."""
        if moment.table is not None:
            self.table = moment.table
        if moment.change is not None:
            moment.change(running)


class InlinePool:
    """Stands for a pool of threads: on a busy machine, handing work over takes longer than the work."""

    def map(self, function: Any, items: Any) -> Any:
        return map(function, items)

    def shutdown(self, wait: bool = True) -> None:
        pass


class InlineThread:
    """Stands for a thread: its work is done once it is started."""

    def __init__(self, target: Any, **options: Any) -> None:
        self.start = target


def run_in_process(scene: Scene, calls: Calls) -> None:
    """Run a stream in this process."""
    commits = LocalCommits(scene.place)
    delivery = scene.delivery(calls, commits.checkpoint.stream)
    assert isinstance(delivery.sink, CountedSink)
    run = commits.open(scene.setup(), scene.rules(), delivery.sink.check)
    run._pool = InlinePool()  # type: ignore[assignment]
    readers = {
        name: ScriptedReader(scene.stream, name, lambda moment: scene.enter(moment, run.running))
        for name in scene.stream.schemas
    }
    feed = Feed(readers, run.columns, commits.offsets())
    with mock.patch.object(streaming, "threading", mock.Mock(wraps=threading, Thread=InlineThread)):
        stream = LocalStream(run, feed, delivery, commits=commits, pause=0.0, idle=0.0)
    if stream._error is not None:
        raise stream._error


@dataclass(frozen=True)
class Broadcast:
    """A value that Spark has sent everywhere."""

    value: bytes

    def destroy(self) -> None:
        pass


class Context:
    """Stands for a SparkContext."""

    def broadcast(self, value: bytes) -> Broadcast:
        return Broadcast(value)


@dataclass
class SessionWithTables(Session):
    """A session that can broadcast."""

    sparkContext: Context = field(default_factory=Context)


@dataclass(frozen=True)
class MomentRows:
    """The rows of a batch as the input of map tasks: each has every second row."""

    moment: Moment

    def chunks(self, batches: Any, task: int, reads: Any) -> Iterator[tuple[str, Chunk]]:
        for stream, table in (self.moment.batch or {}).items():
            if stream in reads:
                mine = table.select(reads[stream].schema.names)
                yield stream, Chunk(mine.take(list(range(task, mine.num_rows, BUCKETS))))


def run_by_driver(scene: Scene, calls: Calls) -> None:
    """Run a stream by the driver for Spark."""
    state_cache._states.clear()
    session: Any = SessionWithTables()
    checkpoint = Checkpoint(scene.place)
    setup = scene.setup()
    setup.compiler.buckets = BUCKETS
    delivery = scene.delivery(calls, checkpoint.stream)
    assert isinstance(delivery.sink, CountedSink)
    running, _ = claim_turn(checkpoint, setup.compiler, setup.queries, delivery.sink.check)
    split_again(checkpoint, running.program, BUCKETS)
    lateness = {name: rule.lateness for name, rule in scene.rules().items()}
    delivery.catch_up(checkpoint, running.program)
    versions = VersionKeeper(checkpoint, setup.compiler, setup.queries, lateness)
    driver = StreamDriver(
        session,
        running,
        checkpoint,
        versions,
        delivery,
        scene.rules(),
        LookupTables(scene.tables()),
        BUCKETS,
    )
    clean = False
    try:
        try:
            _batches(scene, calls, driver, session)
            driver.flush()
            clean = True
        finally:
            driver.close(clean)
    except Exception as error:
        raise translated(error) from error


def _batches(scene: Scene, calls: Calls, driver: StreamDriver, session: Any) -> None:
    """Do as Spark does: run the batch that was begun last again, unless it was ended, then those after it."""
    batch_id = 0
    for moment in scene.stream.moments:
        if moment.batch is None:
            if batch_id not in scene.offsets:
                driver.flush()
            continue
        if batch_id not in scene.ended:
            calls.call("Spark begins a batch", lambda number=batch_id: scene.offsets.add(number))
            if not driver.checkpoint.is_done(batch_id):
                scene.enter(moment, driver.running)
                rows: Any = MomentRows(moment)
                frame = session.range(0, BUCKETS, 1, BUCKETS)
                driver.batch(batch_id, BatchPart(lambda reads, f=frame, r=rows: JobRows(f, r, ())))
            calls.call("Spark ends a batch", lambda number=batch_id: scene.ended.add(number))
        batch_id += 1
