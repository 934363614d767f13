"""Joins in steps as Spark makes them, with driver and tasks in this process: a run that may die and go on."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from support.driven_stream import StreamSetting, batch_of, start_driver
from support.join_cases import SCHEMA
from support.join_oracle import ordered
from support.one_process_spark import Session
from weft.errors import JobError
from weft.model.join import JoinQuery
from weft.runner import state_cache
from weft.runner.running_queries import RunningQueries
from weft.sinks import MemorySink

TASKS = 2
"""Map tasks of a step."""


class Killed(Exception):
    """The end of a run."""


class World:
    """A stream over one checkpoint, and what it was started with."""

    def __init__(
        self, place: str, queries: list[JoinQuery], lateness: int, buckets: int, chain: str = "mem-opt"
    ) -> None:
        schemas, waits = dict.fromkeys("ab", SCHEMA), dict.fromkeys("ab", lateness)
        self.setting = StreamSetting(tuple(queries), schemas, waits, buckets, chain=chain)
        self.place, self.sink, self.batch_id = place, MemorySink(), -1
        self.start()

    @property
    def running(self) -> RunningQueries:
        """The queries, which may be changed."""
        return self.driver.running

    def start(self) -> None:
        """Let another driver go on."""
        self.driver = start_driver(self.setting, self.place, Session(), self.sink)

    def step(self, tables: dict[str, pa.Table], dies: str | None = None) -> None:
        """One batch; where the run dies on the way, at a point, another makes the step again."""
        self.batch_id += 1
        rows = batch_of(Session(), tables, TASKS)
        if dies is not None:
            self._die_at(dies, rows)
        before = dict(self.sink.steps)
        self.driver.batch(self.batch_id, rows)
        for seq, step in before.items():
            for name, table in step.items():
                assert ordered(self.sink.steps[seq][name].to_pylist()) == ordered(table.to_pylist())

    def flush(self) -> None:
        """Answer what waits."""
        self.driver.flush()

    def _die_at(self, point: str, rows: Any) -> None:
        """Make a step up to a point, if it gets there: versions are not always written."""
        name = point.split()[-1]
        owner: Any = self.sink if name == "deliver" else self.driver.checkpoint
        work = getattr(owner, name)

        def dying(*args: Any) -> None:
            if not point.startswith("before"):
                work(*args)
            raise Killed

        setattr(owner, name, dying)
        try:
            self.driver.batch(self.batch_id, rows)
        except (Killed, JobError):
            delattr(owner, name)
            self.start()
        else:
            delattr(owner, name)

    def forget(self) -> None:
        """Workers die, and what they held with them."""
        state_cache._states.clear()
