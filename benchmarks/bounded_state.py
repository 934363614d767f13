"""A stream 20 times longer than its largest window: does the state, on disk and in memory, stay flat?

Every batch records the bytes and files of the slice store, the cells held by the buckets, and the memory
of the driver (Python and its JVM).
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import psutil
from rich.table import Table

import weft
from weft.cli.bench import BenchmarkResult, Progress
from weft.testing import write_parquet
from weft.testing.questions import sliding, text

LONGEST_WINDOW_SECONDS = 900
QUERIES = 16


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Stream one file per batch; compare the last half of the stream with the second quarter."""
    lengths, files = (20, 40) if quick else (40, 160)
    rate = 100.0
    rows = int(lengths * LONGEST_WINDOW_SECONDS * rate)
    spark = weft.session("local[*]")
    taken: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        trades, checkpoint = Path(folder) / "trades", Path(folder) / "checkpoint"
        progress("generating trades", 0, files + 1)
        write_parquet(trades, rows, files=files, rate=rate)

        def note(step: Any) -> None:
            progress(f"batch {step.seq}", len(taken) + 1, files + 1)
            stored = [f for f in checkpoint.rglob("*") if f.is_file() and "slices" in f.parts]
            taken.append(
                {
                    "batch": step.seq,
                    "store_bytes": sum(f.stat().st_size for f in stored),
                    "store_files": len(stored),
                    "state_cells": step.state_rows,
                    "driver_mb": driver_megabytes(),
                    "seconds": step.seconds,
                }
            )

        weft.stream(
            weft.Files(str(trades), max_files_per_batch=1),
            weft.sql(text(sliding(QUERIES))),
            time="ts",
            checkpoint=checkpoint,
            sink=lambda frames, batch: None,
            trigger="available now",
            on_progress=note,
            spark=spark,
        ).await_done()
    notes = [f"{rows:,} trades, {QUERIES} queries, {files} batches."]
    return BenchmarkResult("bounded-state", taken, figures(taken), notes)


def driver_megabytes() -> float:
    """The memory of this process and of the JVM below it."""
    me = psutil.Process()
    family = [me, *(p for p in me.children(recursive=True) if p.name() == "java")]
    return sum(p.memory_info().rss for p in family) / 2**20


def figures(taken: list[dict[str, Any]]) -> dict[str, float]:
    """Largest of the last half over largest of the second quarter: 1 is flat."""
    quarter, half = len(taken) // 4, len(taken) // 2
    growth = {}
    for name in ("store_bytes", "store_files", "state_cells", "driver_mb"):
        values = [row[name] for row in taken]
        growth[f"{name}_growth"] = max(values[half:]) / max(values[quarter:half])
    return growth


def render(result: BenchmarkResult) -> Table:
    """A row every tenth of the stream."""
    table = Table(title="A stream 20 or more times longer than its largest window")
    for heading in ("batch", "store KB", "files", "cells", "driver MB", "seconds"):
        table.add_column(heading, justify="right")
    for row in result.rows[:: max(1, len(result.rows) // 10)]:
        table.add_row(
            str(row["batch"]),
            f"{row['store_bytes'] / 1024:,.0f}",
            str(row["store_files"]),
            f"{row['state_cells']:,}",
            f"{row['driver_mb']:,.0f}",
            f"{row['seconds']:.2f}",
        )
    return table
