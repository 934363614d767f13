"""One shared weft pipeline against one native Spark query per question: N = 1, 4, 16, 64 sliding queries.

Both sides run in one warm session over the same generated trades, and their answers are compared.
docs/benchmarks.md says what each side does and what the figures mean.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from _timing import best_of
from rich.table import Table

import weft
from weft.cli.bench import BenchmarkResult, Progress, stopwatch
from weft.sinks import MemorySink
from weft.testing import write_parquet
from weft.testing.questions import Question, sliding, text

COUNTS = (1, 4, 16, 64)
ROWS, QUICK_ROWS = 10_000_000, 2_000_000
FILES = 8
TRIES = 2
SIDES = ("weft, in-process", "weft, DataFrame", "weft, direct", "weft, stream", "native", "native, streams")
MAX_NATIVE_SECONDS = 60.0
"""Time of native Spark at one N after which quick mode runs only a sample of its queries."""

Summary = tuple[int, int, int, float]


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Measure every side at every N; raise if two sides disagree."""
    rows = QUICK_ROWS if quick else ROWS
    spark = weft.session("local[*]", {"spark.driver.memory": "4g"})
    steps = 2 + len(SIDES) * len(COUNTS)
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        trades = Path(folder) / "trades"
        progress("generating trades", 0, steps)
        write_parquet(trades, rows, files=FILES)
        progress("native: tuning", 1, steps)
        native = Native(spark, trades, Path(folder))
        notes = [f"{rows:,} trades in {FILES} Parquet files.", native.tune(sliding(1)[0])]
        table = []
        for at, count in enumerate(COUNTS):

            def step(side: int, at: int = at, count: int = count) -> None:
                progress(f"{SIDES[side]}, N = {count}", 2 + len(SIDES) * at + side, steps)

            table.append(measure(spark, native, Path(folder), sliding(count), quick, step))
        progress("done", steps, steps)
    return BenchmarkResult("spark-native", table, figures(table), notes + remarks(table))


def measure(
    spark: Any,
    native: Native,
    folder: Path,
    questions: list[Question],
    quick: bool,
    step: Callable[[int], None],
) -> dict[str, Any]:
    """One row of the table: the seconds each side takes for these questions."""
    queries = weft.sql(text(questions))
    trades = str(folder / "trades")
    row: dict[str, Any] = {"queries": len(questions)}
    answers: dict[str, dict[str, Summary]] = {}

    def side(name: str, work: Callable[[], dict[str, pa.Table]]) -> None:
        answers[name] = summarise(work())  # the warm-up
        row[name] = best_of(TRIES, work)

    step(0)
    side("inprocess", lambda: weft.run(queries, ds.dataset(trades).to_batches(), time="ts"))
    step(1)
    side("dataframe", lambda: weft.share(spark.read.parquet(trades), queries, time="ts").to_arrow())
    step(2)
    side("direct", lambda: weft.share(weft.Files(trades), queries, time="ts").to_arrow())
    step(3)
    side("stream", lambda: weft_stream(folder, queries))
    step(4)
    row["native_run"], row["native"], answers["native"] = native.batch(
        questions, MAX_NATIVE_SECONDS if quick else None
    )
    step(5)
    row["native_streams_run"], row["native_streams"] = native.streams(questions)
    agree(answers)
    return row


def weft_stream(folder: Path, queries: list[weft.Query]) -> dict[str, pa.Table]:
    """One stream for all queries, a file per micro-batch, into memory."""
    sink = MemorySink()
    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        source = weft.Files(str(folder / "trades"), max_files_per_batch=1)
        weft.stream(
            source,
            queries,
            time="ts",
            checkpoint=checkpoint,
            sink=sink,
            trigger="available-now",
            close_at_end=True,
        ).await_done()
    return sink.tables


class NativeBatch(NamedTuple):
    """The number of questions that were run, the seconds for all of them, and the answers of those run."""

    run: int
    seconds: float
    answers: dict[str, Summary]


class Native:
    """Spark alone: one ``groupBy(window)`` per question."""

    def __init__(self, spark: Any, trades: Path, folder: Path) -> None:
        self.spark, self.path, self.folder = spark, str(trades), folder
        self.per_stream = 0.0
        spark.read.parquet(self.path).createOrReplaceTempView("trades")

    def tune(self, question: Question) -> str:
        """Choose shuffle partitions, and whether to cache the input, by what is fastest for one question."""
        tried = {}
        for partitions in (2, 4, 8):
            self.spark.conf.set("spark.sql.shuffle.partitions", partitions)
            self.ask(question)
            tried[partitions] = best_of(2, lambda: self.ask(question))
        best = min(tried, key=lambda p: tried[p])
        self.spark.conf.set("spark.sql.shuffle.partitions", best)
        self.spark.catalog.cacheTable("trades")
        self.ask(question)
        cached = best_of(2, lambda: self.ask(question))
        keep = cached < tried[best]
        if not keep:
            self.spark.catalog.uncacheTable("trades")
        return (
            f"Native settings chosen by trying: {best} shuffle partitions, "
            f"input {'cached in memory' if keep else 'read from Parquet each time'}."
        )

    def ask(self, question: Question) -> pa.Table:
        """The answers to one question."""
        return self.spark.sql(question.spark_sql()).toArrow()

    def batch(self, questions: list[Question], enough: float | None) -> NativeBatch:
        """Run the questions, or a sample of them where they take too long."""
        seconds, answers = 0.0, {}
        for question in questions:
            if enough is not None and seconds > enough:
                break
            with stopwatch() as elapsed:
                answers[question.name] = summary(self.ask(question))
            again = [] if len(questions) > 4 else [best_of(TRIES, lambda q=question: self.ask(q))]
            seconds += min([elapsed(), *again])
        return NativeBatch(len(answers), seconds * len(questions) / len(answers), answers)

    def streams(self, questions: list[Question]) -> tuple[int, float]:
        """One streaming query per question, all at once: how many were run, and the seconds for all."""
        if len(questions) > 4:
            return 4, self.per_stream * len(questions)

        def work() -> None:
            self.stream(questions, self.path, lambda writer, _: writer.format("noop"), maxFilesPerTrigger=1)

        work()
        seconds = best_of(2, work)
        self.per_stream = seconds / len(questions)
        return len(questions), seconds

    def stream(
        self, questions: list[Question], path: str, into: Callable[[Any, str], Any], **options: Any
    ) -> None:
        """A streaming query per question over the files there are, all at once, each ``into`` its sink."""
        schema = self.spark.read.parquet(path).schema
        rows = self.spark.readStream.schema(schema).options(**options).parquet(path)
        rows.withWatermark("ts", "0 seconds").createOrReplaceTempView("stream_of_trades")
        with tempfile.TemporaryDirectory(dir=self.folder) as checkpoints:
            running = []
            for q in questions:
                asked = self.spark.sql(q.spark_sql().replace("FROM trades", "FROM stream_of_trades"))
                writer = into(asked.writeStream.outputMode("append").trigger(availableNow=True), q.name)
                running.append(writer.option("checkpointLocation", f"{checkpoints}/{q.name}").start())
            for query in running:
                query.awaitTermination()


def summarise(answers: dict[str, pa.Table]) -> dict[str, Summary]:
    return {name: summary(table) for name, table in answers.items()}


def summary(table: pa.Table) -> Summary:
    """Enough of a query's answers to tell whether two sides agree."""
    shares, trades, top = (pc.sum(table[name]).as_py() or 0 for name in ("shares", "trades", "top"))
    return table.num_rows, shares, trades, round(top, 2)


def agree(answers: dict[str, dict[str, Summary]]) -> None:
    """Raise unless every side gave the same answers to every query it ran."""
    expected = answers["inprocess"]
    for side, given in answers.items():
        for name, found in given.items():
            if found != expected[name]:
                raise AssertionError(f"{side} and inprocess disagree on {name}: {found} and {expected[name]}")


def figures(table: list[dict[str, Any]]) -> dict[str, float]:
    """The few ratios that sum the table up."""
    one, most = table[0], table[-1]
    return {
        "dataframe_gain_64": most["native"] / most["dataframe"],
        "direct_gain_64": most["native"] / most["direct"],
        "direct_gain_1": one["native"] / one["direct"],
        "stream_gain_64": most["native_streams"] / most["stream"],
        "stream_gain_1": one["native_streams"] / one["stream"],
        "inprocess_gain_64": most["native"] / most["inprocess"],
        "weft_64_over_1": most["direct"] / one["direct"],
    }


def remarks(table: list[dict[str, Any]]) -> list[str]:
    """Return notes on what was scaled instead of run."""
    lines = ["Native streams beyond 4 queries are scaled from the time per query at 4."]
    for row in table:
        if row["native_run"] < row["queries"]:
            lines.append(
                f"N = {row['queries']}: {row['native_run']} native queries were run and the time scaled."
            )
    return lines


def render(result: BenchmarkResult) -> Table:
    """The table as printed: seconds, and how many times faster than native."""
    table = Table(title="Seconds for N queries (in brackets: times faster than native Spark)")
    columns = {"N": "queries", "native": "native", "DataFrame": "dataframe", "direct": "direct"}
    columns |= {"in-process": "inprocess", "native streams": "native_streams", "weft stream": "stream"}
    for heading in columns:
        table.add_column(heading, justify="right")
    for row in result.rows:
        cells = []
        for heading, name in columns.items():
            base = row["native_streams"] if name == "stream" else row["native"]
            if heading == "N":
                cells.append(str(row[name]))
            elif heading.startswith("native"):
                cells.append(f"{row[name]:.2f}")
            else:
                cells.append(f"{row[name]:.2f} ({base / row[name]:.1f}x)")
        table.add_row(*cells)
    return table
