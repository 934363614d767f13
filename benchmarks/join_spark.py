"""Joins of two streams on Spark: one weft stream for N joins against N native stream-stream joins.

Both sides run in one warm session over the same generated files, and their answers are compared.
docs/benchmarks.md says what each side does and what the figures mean.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.table import Table

import weft
from weft.cli.bench import BenchmarkResult, Progress, stopwatch
from weft.errors import JobError
from weft.sinks import MemorySink

COUNTS = (1, 4, 16)
ROWS, QUICK_ROWS = 200_000, 40_000
FILES, QUICK_FILES = 8, 4
KEYS = 2_000
START, STEP = 1_700_000_000_000_000, 10_000
"""A row of each stream every 10 ms."""
LATENESS = "2 seconds"

Summary = tuple[int, int]


@dataclass(frozen=True)
class Join:
    """One join: how many seconds rows of each stream wait, and which are selected."""

    name: str
    ranges: tuple[int, int]
    least: int

    def weft_sql(self, condition: str = "a.k = b.k") -> str:
        """As weft reads it."""
        first, second = self.ranges
        return (
            f"-- name: {self.name}\n"
            f"SELECT a.n, b.n AS m FROM a [RANGE '{first} s'], b [RANGE '{second} s'] "
            f"WHERE {condition} AND a.x >= {self.least}"
        )

    def spark_sql(self, condition: str = "a.k = b.k") -> str:
        """As Spark does."""
        first, second = self.ranges
        return (
            f"SELECT a.n, b.n AS m FROM a JOIN b ON {condition} AND a.x >= {self.least} "
            f"AND b.ts < a.ts + INTERVAL {first} SECONDS AND a.ts < b.ts + INTERVAL {second} SECONDS"
        )


def joins(count: int) -> list[Join]:
    """Joins of different ranges and selections, the longer ones more selective."""
    return [Join(f"j{n}", (5 + 5 * (n % 8), 5 + 3 * (n % 5)), 100 * (n % 8)) for n in range(count)]


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Measure both sides at every N; raise if they disagree."""
    rows, files = (QUICK_ROWS, QUICK_FILES) if quick else (ROWS, FILES)
    spark = weft.session("local[*]", {"spark.driver.memory": "4g"})
    spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
    steps = 2 + 2 * len(COUNTS)
    table = []
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as name:
        folder = Path(name)
        progress("generating", 0, steps)
        for number, stream in enumerate("ab"):
            write(folder / stream, generate(rows, number), files)
        native = Native(spark, folder)
        native.answers(joins(1))  # both sides warm
        shared(folder, [j.weft_sql() for j in joins(1)])
        for at, count in enumerate(COUNTS):
            batch = joins(count)
            progress(f"weft, N = {count}", 1 + 2 * at, steps)
            with stopwatch() as weft_seconds:
                weft_answers = shared(folder, [j.weft_sql() for j in batch])
            progress(f"native, N = {count}", 2 + 2 * at, steps)
            with stopwatch() as native_seconds:
                native_answers = native.answers(batch)
            agree(weft_answers, native_answers)
            results = sum(number for number, _ in weft_answers.values())
            table.append(
                {"joins": count, "weft": weft_seconds(), "native": native_seconds(), "results": results}
            )
        progress("a band join", steps - 1, steps)
        band = Join("band", (2, 2), 0)
        condition = "abs(a.x - b.x) < 2"
        with stopwatch() as seconds:
            band_answers = shared(folder, [band.weft_sql(condition)])
        refusal = native.refusal(band, condition)
    table.append({"joins": "band", "weft": seconds(), "native": None, "results": band_answers["band"][0]})
    notes = [f"{rows:,} rows of each stream in {files} files.", f"Native Spark, band join: {refusal}"]
    return BenchmarkResult("join-spark", table, figures(table), notes)


def figures(table: list[dict[str, Any]]) -> dict[str, float]:
    """Return how many times faster weft is, at each N that both sides can run."""
    return {f"native_over_weft_{r['joins']}": r["native"] / r["weft"] for r in table if r["native"]}


def generate(rows: int, seed: int) -> pa.Table:
    """A stream: rows in order of time, keys and values at random."""
    chance = np.random.default_rng(seed)
    times = START + np.arange(rows) * STEP + chance.integers(0, STEP, rows)
    return pa.table(
        {
            "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "k": chance.integers(0, KEYS, rows),
            "x": chance.integers(0, 1000, rows),
            "n": np.arange(rows),
        }
    )


def write(folder: Path, table: pa.Table, files: int) -> None:
    """The stream in files, for Spark to take one after the other."""
    folder.mkdir()
    size = -(-table.num_rows // files)
    for number in range(files):
        path = folder / f"{number:04}.parquet"
        pq.write_table(table.slice(number * size, size), path)
        os.utime(path, (START // 1_000_000 + number,) * 2)  # Spark takes the oldest file first


def shared(folder: Path, queries: list[str]) -> dict[str, Summary]:
    """One weft stream for all joins."""
    sink = MemorySink()
    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        weft.stream(
            {s: weft.Files(folder / s, max_files_per_batch=1) for s in "ab"},
            weft.sql(";\n".join(queries)),
            time="ts",
            lateness=LATENESS,
            checkpoint=checkpoint,
            sink=sink,
            trigger="available now",
            close_at_end=True,
        ).await_done()
    return {name: summary(table) for name, table in sink.tables.items()}


class Native:
    """Spark alone: a streaming query per join, all at once."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        for stream in "ab":
            place = str(folder / stream)
            reader = spark.readStream.schema(spark.read.parquet(place).schema)
            frame = reader.option("maxFilesPerTrigger", 1).parquet(place)
            frame.withWatermark("ts", LATENESS).createOrReplaceTempView(stream)

    def answers(self, batch: list[Join]) -> dict[str, Summary]:
        """The answers of all joins, kept in memory."""
        with tempfile.TemporaryDirectory(dir=self.folder) as checkpoints:
            running = [self._start(j.spark_sql(), j.name, checkpoints) for j in batch]
            for query in running:
                query.awaitTermination()
            return {j.name: summary(self.spark.table(j.name).toArrow()) for j in batch}

    def refusal(self, join: Join, condition: str) -> str:
        """Return Spark's error on a join without an equality."""
        with tempfile.TemporaryDirectory(dir=self.folder) as checkpoints:
            try:
                self._start(join.spark_sql(condition), join.name, checkpoints).awaitTermination()
            except Exception as error:
                return str(error).strip().splitlines()[0].rpartition("exception: ")[2]
        raise JobError("native Spark runs band joins of streams by now; compare them too")

    def _start(self, sql: str, name: str, checkpoints: str) -> Any:
        writer = self.spark.sql(sql).writeStream.format("memory").queryName(name).outputMode("append")
        place = f"{checkpoints}/{name}"
        return writer.option("checkpointLocation", place).trigger(availableNow=True).start()


def summary(table: pa.Table) -> Summary:
    """Enough of a join's results to tell whether two sides agree."""
    both = pc.add(pc.multiply(table["n"], 31), pc.multiply(pc.multiply(table["n"], table["m"]), 17))
    return table.num_rows, (pc.sum(pc.bit_wise_and(both, (1 << 40) - 1)).as_py() or 0)


def agree(weft_answers: dict[str, Summary], native_answers: dict[str, Summary]) -> None:
    """Raise unless both sides have the same results of every join."""
    for name, answer in weft_answers.items():
        if native_answers[name] != answer or not answer[0]:
            raise JobError(
                f"weft and native Spark disagree on {name}: {answer} against {native_answers[name]}"
            )


def render(result: BenchmarkResult) -> Table:
    """The table as printed."""
    table = Table(title="Seconds for N joins of two streams (in brackets: times faster than native Spark)")
    for heading in ("joins", "results", "native", "weft"):
        table.add_column(heading, justify="right")
    for row in result.rows:
        native = row["native"]
        gain = f" ({native / row['weft']:.1f}x)" if native else ""
        cells = ("refused" if native is None else f"{native:.2f}", f"{row['weft']:.2f}{gain}")
        table.add_row(str(row["joins"]), f"{row['results']:,}", *cells)
    return table
