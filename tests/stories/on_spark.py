"""Stories told to Spark itself: ``weft.stream`` over files as they come, and a checkpoint."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import weft
from stories.in_process import InProcess
from stories.mixes import MixStory, read, setting_of
from stories.story import Story
from stories.streams import Delivered, Tables
from support.driven_stream import TIME, StreamSetting
from weft.operators.times import Seen
from weft.runner.program import UNNAMED, AnyQuery
from weft.sinks import MemorySink

MAX_BATCH_SECONDS = 120.0
"""Seconds that a batch may take on a busy machine."""


@contextmanager
def on_spark(story: Story, spark: SparkSession) -> Iterator[InProcess]:
    """A story of window queries on Spark, over a folder of its own."""
    with _folder() as folder:
        engine = InProcess(story, lambda *given: SparkStream(*given, spark, folder), may_forget_late=False)
        try:
            yield engine
        finally:
            engine.stream.end()


@contextmanager
def mix_on_spark(story: MixStory, spark: SparkSession) -> Iterator[SparkMix]:
    """The stream of a mix on Spark, over a folder of its own."""
    queries = [read(name, text) for name, text in story.queries]
    with _folder() as folder:
        stream = SparkMix(setting_of(story, queries), MemorySink(), spark, folder)
        try:
            yield stream
        finally:
            stream.end()


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="weft-story-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class SparkStream:
    """One run after the other over one checkpoint; each step is a file."""

    max_files: int | None = 1

    def __init__(
        self, setting: StreamSetting, late: MemorySink | None, spark: SparkSession, folder: Path
    ) -> None:
        self.setting, self.late, self.spark, self.folder = setting, late, spark, folder
        self.sink, self.files, self.chance = Delivered(), 0, random.Random(0)
        for name in setting.schemas:
            self._inbox(name).mkdir(parents=True)
        self._start(setting.buckets)

    def _inbox(self, stream: str) -> Path:
        return self.folder / f"in-{stream}"

    def _start(self, buckets: int | None, trigger: str | None = None) -> None:
        setting = self.setting
        sources: Any = {
            name: weft.Files(
                self._inbox(name), max_files_per_batch=self.max_files, schema=plain_schema(schema)
            )
            for name, schema in setting.schemas.items()
        }
        lateness: Any = {name: f"{wait} microseconds" for name, wait in setting.lateness.items()}
        is_alone = UNNAMED in sources
        self.run = weft.stream(
            sources[UNNAMED] if is_alone else sources,
            setting.queries,
            time=TIME,
            sink=self.sink,
            late=self.late,
            lateness=lateness[UNNAMED] if is_alone else lateness,
            checkpoint=self.folder / "checkpoint",
            buckets=buckets,
            spark=self.spark,
            strategy=setting.strategy,
            technique=setting.technique,
            chain=setting.chain,
            tables=setting.tables,
            trigger=trigger,
        )

    @property
    def _delivered(self) -> int:
        """The last step that the sinks have."""
        return self.run._driver.checkpoint.delivered

    @property
    def changes(self) -> Any:
        return self.run

    @property
    def seen(self) -> Mapping[str, Seen]:
        return {name: Seen(**state.seen) for name, state in self.run._driver._last.streams.items()}

    def names(self) -> set[str]:
        return {query.name for query in self.run.queries()}

    def tables_now(self, tables: Mapping[str, Any]) -> None:
        """Give the tables that the next run is started with."""
        self.setting = replace(self.setting, tables=tables)

    def replace_table(self, name: str, table: pa.Table) -> None:
        self.run.replace_table(name, table)

    def restart(self, fresh: bool, buckets: int | None) -> None:
        """End and go on."""
        self.run.stop()
        self._start(buckets)

    def step(self, tables: Tables, dies: str | None = None) -> Tables:
        """Let a file arrive, and wait until its batch has been delivered."""
        before = self._delivered
        self._write(tables)
        end = time.monotonic() + MAX_BATCH_SECONDS
        while self._delivered == before:
            if not self.run.is_active:
                self.run.await_done()  # raises why
            if time.monotonic() > end:
                raise TimeoutError(f"step {self.files} has not been made in {MAX_BATCH_SECONDS:.0f} s")
            time.sleep(0.02)
        return self._results(before)

    def _write(self, tables: Tables) -> None:
        self.files += 1
        for stream, table in tables.items():
            path = self.folder / "writing"
            pq.write_table(table.cast(plain_schema(self.setting.schemas[stream])), path)
            os.rename(path, self._inbox(stream) / f"{self.files:04}.parquet")

    def _results(self, before: int) -> Tables:
        last = self._delivered
        return self.sink.steps.get(last, {}) if last > before else {}

    def flush(self) -> Tables:
        before = self._delivered
        self.run._driver.flush()
        return self._results(before)

    def close(self) -> Tables:
        return self.flush()

    def end(self) -> None:
        self.run.stop()


class SparkMix(SparkStream):
    """Each step is a run of its own, which takes all files that there are: while a run goes on, Spark may
    find the files of one step in two batches. Queries change in what a run is started with."""

    max_files = None

    def _start(self, buckets: int | None, trigger: str | None = "available now") -> None:
        self.buckets = buckets
        super()._start(buckets, trigger)
        if trigger is not None:
            self.run.await_done()

    @property
    def changes(self) -> SparkMix:
        return self

    def add(self, query: AnyQuery) -> None:
        self.setting = replace(self.setting, queries=(*self.setting.queries, query))

    def drop(self, name: str) -> None:
        left = tuple(query for query in self.setting.queries if query.name != name)
        self.setting = replace(self.setting, queries=left)

    def replace(self, query: AnyQuery) -> None:
        self.drop(query.name)
        self.add(query)

    def names(self) -> set[str]:
        return {query.name for query in self.setting.queries}

    def restart(self, fresh: bool, buckets: int | None) -> None:
        """Let the next step be made in so many buckets."""
        self.buckets = buckets

    def step(self, tables: Tables, dies: str | None = None) -> Tables:
        before = self._delivered
        self._write(tables)
        self._start(self.buckets)
        return self._results(before)

    def flush(self) -> Tables:
        self._start(self.buckets, None)
        results = super().flush()
        self.run.stop()
        return results


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The stream's columns as a file has them, without dictionaries."""
    return pa.schema(
        {f.name: f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in schema}
    )
