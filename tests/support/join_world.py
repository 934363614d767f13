"""Joins in steps as Spark makes them, with driver and tasks in this process: a run that may die and go on."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from support.join_cases import SCHEMA
from support.join_oracle import ordered
from support.one_process_spark import Frame, Rows, Session
from weft.errors import JobError
from weft.model.join import JoinQuery
from weft.operators.joins.compile import JoinCompiler
from weft.operators.watermark import TimeRules
from weft.planning.live import LivePlanner
from weft.sinks import MemorySink
from weft.spark import cache
from weft.spark.committing import Delivery
from weft.spark.join_steps import JoinSteps
from weft.spark.join_stream import registry_of
from weft.spark.sources import BatchPart
from weft.store.slice_store import SliceStore


class Killed(Exception):
    """The end of a run."""


class World:
    """A stream over one checkpoint, and what it was started with."""

    def __init__(
        self, place: str, queries: list[JoinQuery], lateness: int, buckets: int, chain: str = "mem-opt"
    ) -> None:
        self.chain = chain
        self.place, self.base, self.lateness, self.buckets = place, queries, lateness, buckets
        self.sink, self.batch_id = MemorySink(), -1
        self.start()

    def start(self) -> None:
        store = SliceStore(self.place)
        schemas, times = {"a": SCHEMA, "b": SCHEMA}, {"a": "ts", "b": "ts"}
        streams = JoinCompiler(
            schemas, times, LivePlanner(nodes=self.buckets), False, self.buckets, self.chain
        )
        registry = registry_of(store, streams, tuple(self.base), self.sink)
        self.steps = JoinSteps(
            Session(),
            registry,
            store,
            Delivery(self.sink, "s"),
            TimeRules(self.lateness),
            self.buckets,
            tuple(self.base),  # type: ignore[arg-type]
        )

    def step(self, tables: dict[str, pa.Table], dies: str | None = None) -> None:
        """One batch; where the run dies on the way, at a point, another makes the step again."""
        self.batch_id += 1
        rows: Any = BatchPart(lambda joins: (Frame(Session(), [[], []]), Rows(tables, 2), ()))
        if dies is not None:
            self._die_at(dies, rows)
        before = dict(self.sink.steps)
        self.steps.batch(self.batch_id, rows)
        for seq, step in before.items():
            for name, table in step.items():
                assert ordered(self.sink.steps[seq][name].to_pylist()) == ordered(table.to_pylist())

    def _die_at(self, point: str, rows: Any) -> None:
        """Make a step up to a point, if it gets there: versions are not always written."""
        owner: Any = self.sink if point == "deliver" else self.steps.store
        name = point.split()[-1]
        work = getattr(owner, name)

        def dying(*args: Any) -> None:
            if not point.startswith("before"):
                work(*args)
            raise Killed

        setattr(owner, name, dying)
        try:
            self.steps.batch(self.batch_id, rows)
        except (Killed, JobError):
            self.start()
        finally:
            delattr(owner, name)

    def forget(self) -> None:
        """Workers die, and what they held with them."""
        cache._states.clear()
