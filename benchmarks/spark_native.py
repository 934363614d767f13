"""One shared weft pipeline against one native Spark query per question: N = 1, 4, 16, 64 sliding queries.

Both sides run in one warm session over the same generated trades, and their answers are compared.
docs/benchmarks.md says what each side does and what the figures mean.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from rich.table import Table

import weft
from weft.bench import Progress, Result, best_of, stopwatch
from weft.generate import write_parquet
from weft.workload import Question, sliding, text

COUNTS = (1, 4, 16, 64)
FILES = 8
LONG = 60.0
Answers = dict[str, pa.Table]


def run(quick: bool, progress: Progress) -> Result:
    """Measure every side at every N; raise if any two sides disagree."""
    from weft.spark import session

    rows = 2_000_000 if quick else 10_000_000
    spark = session("local[*]", {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false"})
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        trades = Path(folder) / "trades"
        steps = 2 + 5 * len(COUNTS)
        progress("generating trades", 0, steps)
        write_parquet(trades, rows, files=FILES)
        progress("tuning native Spark", 1, steps)
        native = Native(spark, trades)
        notes = [native.tune(sliding(1)[0])]
        table = []
        for at, count in enumerate(COUNTS):

            def step(label: str, done: int, at: int = at, count: int = count) -> None:
                progress(f"{label}, N = {count}", 2 + 5 * at + done, steps)

            table.append(measure(spark, native, trades, sliding(count), quick, step))
        progress("done", steps, steps)
    return Result("spark-native", table, figures(table), notes + scaled_notes(table))


def measure(
    spark: Any, native: Native, trades: Path, questions: list[Question], quick: bool, step: Callable[[str, int], None]
) -> dict[str, Any]:
    """One row of the table: every side's seconds for these questions."""
    from weft.spark import Files

    queries = weft.sql(text(questions))
    times = 1 if quick else 2
    checks: list[Answers] = []

    step("weft, in-process", 0)
    local = timed(times, lambda: weft.run(queries, ds.dataset(trades).to_table(), time="ts"), checks)
    step("weft, DataFrame", 1)
    frame = timed(times, lambda: collect(weft.share(spark.read.parquet(str(trades)), queries, time="ts")), checks)
    step("weft, direct", 2)
    source = Files(str(trades))
    direct = timed(times, lambda: collect(weft.share(source, queries, time="ts", spark=spark)), checks)
    step("native", 3)
    answers, batch, really = native.batch(questions, LONG if quick else None)
    checks.append(answers)
    step("streams", 4)
    return {}
