"""Stories told to Spark itself: ``weft.stream`` over files as they come, and a checkpoint."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import weft
from stories.engine import Told, ask, micros, refresh, table_sources
from stories.stored import Delivered
from stories.story import TIME, Step, Story
from weft.sinks import MemorySink

PATIENCE = 120.0
"""Seconds that a batch may take on a busy machine."""


@contextmanager
def on_spark(story: Story, spark: SparkSession) -> Iterator[OnSpark]:
    """The engine, over a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="weft-story-"))
    engine = OnSpark(story, spark, folder)
    try:
        yield engine
    finally:
        engine.run.stop()
        shutil.rmtree(folder, ignore_errors=True)


class OnSpark:
    """One run after the other over one checkpoint; each step is a file."""

    def __init__(self, story: Story, spark: SparkSession, folder: Path) -> None:
        self.story, self.spark, self.folder = story, spark, folder
        self.sink, self.late, self.files = Delivered(), MemorySink(), 0
        self.now = {name: story.static(name, table.rows) for name, table in story.tables.items()}
        (folder / "in").mkdir()
        self._start()

    def _start(self, buckets: int | None = None) -> None:
        story = self.story
        self.run = weft.stream(
            weft.Files(self.folder / "in", max_files_per_batch=1, schema=plain_schema(story)),
            story.queries,
            time=TIME,
            sink=self.sink,
            late=self.late,
            lateness=f"{story.lateness} microseconds",
            checkpoint=self.folder / "checkpoint",
            buckets=buckets or (None if self.files else story.buckets),
            spark=self.spark,
            strategy=story.strategy,
            technique=story.technique,
            tables=table_sources(story, self.now),
        )

    @property
    def _seq(self) -> int:
        last = self.run._steps.store.last
        return last.seq if last else 0

    def step(self, step: Step) -> Told:
        """Take a step."""
        if step.restart:
            self.run.stop()
            self._start(step.buckets)
        refresh(self.story, step, self.now, self.run.replace_table)
        ask(self.run, step.changes, {q.name for q in self.run.queries()})
        before = self._seq
        if step.flush:
            self.run._steps.flush()
        else:
            self._feed(step, before)
        last = self.run._steps.store.last
        since = {name: micros(self.run.change(name).exact_from) for name, query in step.changes if query}
        seen: dict[str, Any] = dict(last.seen) if last else {"rows": 0, "late": 0, "untimed": 0}
        kept = sum(t.num_rows for found in self.late.steps.values() for t in found.values())
        results = self.sink.steps.get(self._seq, {}) if self._seq > before else {}
        return Told(results, seen["rows"], seen["late"], seen["untimed"], since, kept)

    def _feed(self, step: Step, before: int) -> None:
        """Let a file arrive, and wait until its batch has been committed."""
        self.files += 1
        path = self.folder / "in" / f"{self.files:04}.parquet"
        pq.write_table(self.story.table(step).cast(plain_schema(self.story)), self.folder / "writing")
        os.rename(self.folder / "writing", path)
        end = time.monotonic() + PATIENCE
        while self._seq == before:
            if not self.run.is_active:
                self.run.await_done()  # says why
            if time.monotonic() > end:
                raise TimeoutError(f"step {self.files} has not been made in {PATIENCE:.0f} s")
            time.sleep(0.02)

    def close(self) -> dict[str, pa.Table]:
        """Answer all windows that hold a row."""
        before = self._seq
        self.run._steps.flush()
        return self.sink.steps.get(self._seq, {}) if self._seq > before else {}


def plain_schema(story: Story) -> pa.Schema:
    """The stream's columns as a file has them, without dictionaries."""
    types = story.types.items()
    return pa.schema({n: t.value_type if pa.types.is_dictionary(t) else t for n, t in types})
