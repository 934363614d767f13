"""Streams of any mix of queries that stories are told to, in this process: one that keeps nothing, one that
commits its steps, and one that makes them as Spark's driver and tasks do."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from stories.stored import Session, Worker
from support.driven_stream import TIME, StreamSetting, batch_of, start_driver
from weft.errors import JobError
from weft.io.arrow import as_chunk
from weft.local.committing import LocalCommits
from weft.local.running import LocalRun, LocalSetup, StepOutcome
from weft.operators.times import Seen
from weft.runner.delivery import Delivery
from weft.runner.program import UNNAMED
from weft.sinks import MemorySink
from weft.store.log import BATCH, FLUSH

Tables = Mapping[str, pa.Table]


class StoryStream(Protocol):
    """A stream that takes steps, and may end and go on between them, or die on the way."""

    late: MemorySink | None
    chance: random.Random

    @property
    def changes(self) -> Any: ...

    @property
    def seen(self) -> Mapping[str, Seen]: ...

    def names(self) -> set[str]: ...

    def replace_table(self, name: str, table: pa.Table) -> None: ...

    def tables_now(self, tables: Mapping[str, Any]) -> None: ...

    def restart(self, fresh: bool, buckets: int | None) -> None: ...

    def step(self, tables: Tables, dies: str | None = None) -> Tables: ...

    def flush(self) -> Tables: ...

    def close(self) -> Tables: ...

    def end(self) -> None: ...


class Inline:
    """A pool that works in this thread, so that a story is told the same way every time."""

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return iter([work(item) for item in items])

    def submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(work(*args))
        return future

    def shutdown(self, wait: bool = True) -> None: ...


class Delivered(MemorySink):
    """Keeps the results of each step, whatever the columns that a query of that name had before."""

    def check(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Anything goes."""


class Killed(Exception):
    """The end of a run."""


def die_at(point: str, checkpoint: Any, sink: MemorySink, make: Callable[[], object]) -> bool:
    """Make a step up to a point, if it gets there: versions are not always written. Whether it did."""
    name = point.split()[-1]
    owner: Any = sink if name == "deliver" else checkpoint
    work = getattr(owner, name)

    def dying(*args: Any) -> None:
        if not point.startswith("before"):
            work(*args)
        raise Killed

    setattr(owner, name, dying)
    try:
        make()
    except (Killed, JobError):
        return True
    finally:
        delattr(owner, name)
    return False


def check_committed(sink: MemorySink, seq: int) -> None:
    """Raise where a sink has a step that is not committed, or one under another number."""
    unknown = [number for number in sink.steps if not 0 < number <= seq]
    if unknown:
        raise AssertionError(f"steps {unknown} are delivered, but committed are those up to {seq}")


class RunInProcess:
    """A run in this process that keeps nothing when it ends."""

    def __init__(self, setting: StreamSetting, late: MemorySink | None) -> None:
        self.late, self.chance = late, random.Random(0)
        named = UNNAMED not in setting.schemas
        self.run = LocalRun(
            setting.queries,
            setting.schemas if named else setting.schemas[UNNAMED],
            TIME,
            {name: f"{wait} microseconds" for name, wait in setting.lateness.items()},
            late=late,
            **options_of(setting, setting.buckets),
        )

    @property
    def changes(self) -> LocalRun:
        return self.run

    @property
    def seen(self) -> Mapping[str, Seen]:
        return {name: stream.seen for name, stream in self.run.streams.items()}

    def names(self) -> set[str]:
        return {query.name for query in self.run.queries()}

    def replace_table(self, name: str, table: pa.Table) -> None:
        self.run.replace_table(name, table)

    def tables_now(self, tables: Mapping[str, Any]) -> None:
        """Nothing: it never goes on."""

    def restart(self, fresh: bool, buckets: int | None) -> None:
        """Nothing: it would begin anew."""

    def step(self, tables: Tables, dies: str | None = None) -> Tables:
        return self.run.step(dict(tables))

    def flush(self) -> Tables:
        return self.run.flush() or {}

    def close(self) -> Tables:
        results = self.run.close()
        if not any(program.counts_rows for program in self.run.program.windows) and self.run.state_rows:
            raise AssertionError(f"a closed stream keeps {self.run.state_rows} rows")
        return results

    def end(self) -> None:
        self.run.shutdown()


class CommittedRun:
    """One run in this process after the other, over one checkpoint."""

    def __init__(self, setting: StreamSetting, late: MemorySink | None, place: str) -> None:
        self.setting, self.late, self.place = setting, late, place
        self.sink, self.chance, self.steps = Delivered(), random.Random(0), 0
        self._start(setting.buckets)

    def _start(self, buckets: int) -> None:
        setting = self.setting
        named = UNNAMED not in setting.schemas
        setup = LocalSetup.of(
            setting.queries,
            setting.schemas if named else setting.schemas[UNNAMED],
            TIME,
            options_of(setting, buckets),
        )
        self.commits = LocalCommits(self.place)
        self.run = self.commits.open(setup, setting.rules)
        self.run.keep_missed = self.late is not None
        self.delivery = Delivery(self.sink, "s", self.late)
        self.delivery.catch_up(self.commits.checkpoint, self.run.program)
        check_committed(self.sink, self.commits.entry.seq)

    @property
    def changes(self) -> LocalRun:
        return self.run

    @property
    def seen(self) -> Mapping[str, Seen]:
        return {name: stream.seen for name, stream in self.run.streams.items()}

    def names(self) -> set[str]:
        return {query.name for query in self.run.queries()}

    def replace_table(self, name: str, table: pa.Table) -> None:
        self.run.replace_table(name, table)

    def tables_now(self, tables: Mapping[str, Any]) -> None:
        """Give the tables that the next run is started with."""
        self.setting = replace(self.setting, tables=tables)

    def restart(self, fresh: bool, buckets: int | None) -> None:
        """End, well or not, and go on."""
        if fresh:
            self.commits.checkpoint.close()
        self.run.shutdown()
        self._start(buckets or self.setting.buckets)

    def step(self, tables: Tables, dies: str | None = None) -> Tables:
        self.steps += 1
        before = self.commits.entry.seq
        checkpoint, make = self.commits.checkpoint, partial(self._batch, tables)
        if dies is not None and die_at(dies, checkpoint, self.sink, make):
            self.run.shutdown()
            self._start(self.setting.buckets)
        if self.commits.offsets().get("stories") != self.steps:
            self._batch(tables)
        return self._results(before)

    def _batch(self, tables: Tables) -> None:
        self._commit(BATCH, self.run.take({name: as_chunk(table) for name, table in tables.items()}))

    def _commit(self, kind: str, outcome: StepOutcome) -> None:
        entry = self.commits.commit(self.run, outcome, kind, {"stories": self.steps})
        self.delivery.open(self.run.program)
        self.delivery.deliver_committed(self.commits.checkpoint, entry)

    def _results(self, before: int) -> Tables:
        last = self.commits.entry.seq
        return self.sink.steps.get(last, {}) if last > before else {}

    def flush(self) -> Tables:
        before, outcome = self.commits.entry.seq, self.run.take_flush()
        if outcome is not None:
            self._commit(FLUSH, outcome)
        return self._results(before)

    def close(self) -> Tables:
        return self.flush()

    def end(self) -> None:
        self.run.shutdown()


class DrivenRun:
    """Steps as Spark makes them, driver and tasks in this process, state in files under a checkpoint."""

    def __init__(self, setting: StreamSetting, late: MemorySink | None, place: str) -> None:
        self.setting, self.late, self.place = setting, late, place
        self.sink, self.batch_id = Delivered(), -1
        self.session = Session([Worker(), Worker()])
        self._start()

    def _start(self, buckets: int | None = None) -> None:
        self.driver = start_driver(self.setting, self.place, self.session, self.sink, self.late, buckets)
        check_committed(self.sink, self.driver._last.seq)

    @property
    def chance(self) -> random.Random:
        """Which worker has which task."""
        return self.session.chance

    @chance.setter
    def chance(self, chance: random.Random) -> None:
        self.session.chance = chance

    @property
    def changes(self) -> Any:
        return self.driver.running

    @property
    def seen(self) -> Mapping[str, Seen]:
        return {name: Seen(**state.seen) for name, state in self.driver._last.streams.items()}

    def names(self) -> set[str]:
        return {query.name for query in self.driver.program.queries}

    def replace_table(self, name: str, table: pa.Table) -> None:
        self.driver.tables.replace(name, table, self.driver.program.lookups)

    def tables_now(self, tables: Mapping[str, Any]) -> None:
        """Give the tables that the next run is started with."""
        self.setting = replace(self.setting, tables=tables)

    def restart(self, fresh: bool, buckets: int | None) -> None:
        """End and go on; what workers remember may be gone."""
        if fresh:
            self.session = Session([Worker(), Worker()], self.session.chance)
        self._start(buckets)

    def step(self, tables: Tables, dies: str | None = None) -> Tables:
        self.batch_id += 1
        before, tasks = self.driver._last.seq, self.session.chance.choice((1, 1, 1, 2, 3))

        def make() -> None:
            self.driver.batch(self.batch_id, batch_of(self.session, tables, tasks))

        if dies is not None and die_at(dies, self.driver.checkpoint, self.sink, make):
            self._start()
        make()
        return self._results(before)

    def _results(self, before: int) -> Tables:
        last = self.driver._last.seq
        return self.sink.steps.get(last, {}) if last > before else {}

    def flush(self) -> Tables:
        before = self.driver._last.seq
        self.driver.flush()
        return self._results(before)

    def close(self) -> Tables:
        return self.flush()

    def end(self) -> None:
        """Nothing holds on to anything."""


def options_of(setting: StreamSetting, threads: int) -> Any:
    """Return the options of a run in process."""
    return {
        "threads": threads,
        "strategy": setting.strategy,
        "technique": setting.technique,
        "chain": setting.chain,
        "tables": setting.tables,
    }
