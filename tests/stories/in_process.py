"""Stories told to the in-process runner."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import weft
from stories.engine import Told, ask, micros, refresh, table_sources
from stories.story import TIME, Step, Story
from support.ways import forced
from weft.local import run as local
from weft.local.run import LocalRun
from weft.operators.lookups.tables import LookupTables
from weft.operators.windows.compile import compile_plan
from weft.sinks import MemorySink


class Inline:
    """A pool that works in this thread, so that a story is told the same way every time."""

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return iter([work(item) for item in items])

    def submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(work(*args))
        return future

    def shutdown(self, wait: bool = True) -> None: ...


class Local:
    """The in-process runner."""

    def __init__(self, story: Story) -> None:
        self.story, self.late = story, MemorySink()
        self.now = {name: story.static(name, table.rows) for name, table in story.tables.items()}
        tables = LookupTables(table_sources(story, self.now))
        plan = weft.plan(
            story.queries, strategy=story.strategy, technique=story.technique, nodes=story.buckets
        )
        program = compile_plan(
            plan, story.schema, TIME, buckets=story.buckets, tables=tables.schemas(story.queries)
        )
        keep = random.Random(story.seed).random() < 0.5
        late = self.late if keep else None
        with (
            nullcontext()
            if story.threads
            else patch.object(local, "ThreadPoolExecutor", lambda *_, **__: Inline())
        ):
            self.run = LocalRun(program, story.lateness, story.buckets, tables, late=late)

    def step(self, step: Step) -> Told:
        """Take a step."""
        run = self.run
        refresh(self.story, step, self.now, run.replace_table)
        ask(run, step.changes, {q.name for q in run.queries()})
        if step.flush:
            results = run.flush() or {}
        else:
            with forced(step.way) if step.way else nullcontext():
                results = run.step(self.story.table(step))
        since = {name: micros(run.change(name).exact_from) for name, query in step.changes if query}
        seen, kept = run.seen, None
        if run.late is not None:
            kept = sum(t.num_rows for found in self.late.steps.values() for t in found.values())
        return Told(results, seen.rows, seen.late, seen.untimed, since, kept)

    def close(self) -> dict[str, pa.Table]:
        """Answer all windows that are open."""
        found = self.run.close()
        if not self.run.program.counts_rows and self.run.state_rows:
            raise AssertionError(f"a closed stream keeps {self.run.state_rows} cells")
        return found
