"""The same N sliding queries by weft, Spark and Flink, and by hand in DuckDB and Polars: seconds against N.

Every rival is written in the best form that we know, from one query at a time to weft's own idea by hand;
all read the same trades, and their answers are compared. docs/benchmarks.md says what each does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import _flink
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from _plots import MARKERS, axes, legend, save
from rich.table import Table
from spark_native import Native

import weft
from weft.cli.bench import BenchmarkResult, Progress, stopwatch
from weft.sinks import MemorySink
from weft.testing import write_parquet
from weft.testing.questions import Question, sliding, text

COUNTS = (1, 4, 16, 64)
LARGE_COUNTS = (256, 1024)
"""Numbers of queries that only weft in one process is measured with."""

ROWS, QUICK_ROWS = 10_000_000, 1_000_000
RATE = 700.0
TRIES = 3
MAX_SECONDS, QUICK_MAX_SECONDS = 60.0, 20.0
"""Time of one rival at one N after which the rest of its queries are scaled."""

MAX_STREAMS = 8
"""Streams that run at the same time: more would only wait for each other, and fewer could not be a sample."""

SECOND = 1_000_000
Answers = Iterator[tuple[str, pa.Table]]


@dataclass(frozen=True)
class World:
    """The world of all rivals: the file, a Spark session, a folder for checkpoints."""

    path: str
    folder: Path
    spark: Any
    settled: int
    """When every symbol has traded, in microseconds."""
    flink: _flink.Flink | None = None
    """Where its environment was set up."""


@dataclass(frozen=True)
class Rival:
    """One way to answer the questions.

    Where so many are answered ``at_a_time``, the time goes with their number, and a sample tells it; 0 is all
    together. One with ``holes`` leaves out windows that start before a group's first row. Its figures are
    ``over`` these of weft's ways.
    """

    name: str
    answers: Callable[[World, list[Question]], Answers]
    at_a_time: int = 0
    holes: bool = False
    over: tuple[str, ...] = ("inprocess", "spark")


@cache
def parsed(sql: str) -> list[weft.Query | weft.JoinQuery]:
    """The queries, read once: continuous queries are there before the rows that are timed."""
    return weft.sql(sql)


def weft_inprocess(world: World, questions: list[Question]) -> Answers:
    yield from weft.run(parsed(text(questions)), weft.Files(world.path), time="ts").items()


def weft_spark(world: World, questions: list[Question]) -> Answers:
    yield from weft.share(weft.Files(world.path), parsed(text(questions)), time="ts").to_arrow().items()


def weft_stream(world: World, questions: list[Question]) -> Answers:
    sink = MemorySink()
    with tempfile.TemporaryDirectory(dir=world.folder) as checkpoint:
        weft.stream(
            weft.Files(world.path),
            parsed(text(questions)),
            time="ts",
            checkpoint=checkpoint,
            sink=sink,
            trigger="available-now",
            close_at_end=True,
        ).await_done()
    yield from sink.tables.items()


def spark_batch(world: World, questions: list[Question]) -> Answers:
    native = Native(world.spark, Path(world.path), world.folder)
    for question in questions:
        yield question.name, native.ask(question)


def spark_streams(world: World, questions: list[Question]) -> Answers:
    """Streaming queries over the file and a last row far ahead, which closes the windows before it."""
    native = Native(world.spark, Path(world.path), world.folder)
    for batch in batched(questions, MAX_STREAMS):
        tables_of: dict[str, list[pa.Table]] = {q.name: [] for q in batch}

        def keep(writer: Any, name: str, tables_of: dict[str, list[pa.Table]] = tables_of) -> Any:
            return writer.foreachBatch(lambda rows, _: tables_of[name].append(rows.toArrow()))

        native.stream(batch, f"{world.folder}/{{trades,last}}", keep)
        for name, tables in tables_of.items():
            yield name, pa.concat_tables(tables)


def write_last(path: str, folder: Path) -> None:
    """The first row once more, a year later."""
    folder.mkdir()
    row = f"SELECT * REPLACE (ts + INTERVAL 1 YEAR AS ts) FROM (FROM '{path}' LIMIT 1)"
    duckdb.sql(f"COPY ({row}) TO '{folder}/last.parquet'")


def flink_streams(world: World, questions: list[Question]) -> Answers:
    assert world.flink
    for some in batched(questions, MAX_STREAMS):
        yield from world.flink.ask(some).items()


def batched(questions: list[Question], size: int) -> Iterator[list[Question]]:
    for at in range(0, len(questions), size):
        yield questions[at : at + size]


# In DuckDB and Polars by hand, window k of a query starts at k times its slide: row t is in those from
# (t - range) // slide + 1 to t // slide.
AGGREGATES = "sum(volume) AS shares, count(*) AS trades, max(price) AS top"
MERGED_AGGREGATES = "sum(shares)::BIGINT AS shares, sum(trades)::BIGINT AS trades, max(top) AS top"


def duckdb_one_by_one(world: World, questions: list[Question]) -> Answers:
    """Each row unnested to its windows."""
    with duckdb.connect() as db:
        for q in questions:
            yield (
                q.name,
                windows_of(db, q, f"read_parquet('{world.path}')", "epoch_us(ts)", AGGREGATES, SECOND),
            )


def windows_of(
    db: duckdb.DuckDBPyConnection, q: Question, source: str, time: str, values: str, second: int
) -> pa.Table:
    """The windows of a question over rows or parts of rows, by unnesting."""
    length, slide = q.range * second, q.slide * second
    columns = "symbol, volume, price" if values == AGGREGATES else "symbol, shares, trades, top"
    rows = (
        f"SELECT {columns}, unnest(range(({time} - {length}) // {slide} + 1, {time} // {slide} + 1)) AS k "
        f"FROM {source}"
    )
    start = f"k * {slide * SECOND // second} AS window_start"
    return db.sql(f"SELECT symbol, {start}, {values} FROM ({rows}) GROUP BY symbol, k").to_arrow_table()


def duckdb_shifted(world: World, questions: list[Question]) -> Answers:
    """A tumbling aggregate for each shift of the slide that a window covers, all united."""
    with duckdb.connect() as db:
        for q in questions:
            length, slide = q.range * SECOND, q.slide * SECOND
            shifts = [
                f"SELECT symbol, epoch_us(ts) // {slide} - {shift} AS k, {AGGREGATES} "
                f"FROM read_parquet('{world.path}') "
                f"WHERE epoch_us(ts) - (epoch_us(ts) // {slide} - {shift}) * {slide} < {length} GROUP BY ALL"
                for shift in range(-(-q.range // q.slide))
            ]
            yield (
                q.name,
                db.sql(
                    f"SELECT symbol, k * {slide} AS window_start, {MERGED_AGGREGATES} "
                    f"FROM ({' UNION ALL '.join(shifts)}) GROUP BY symbol, k"
                ).to_arrow_table(),
            )


def duckdb_panes(world: World, questions: list[Question]) -> Answers:
    """Panes of a second once, then each query over panes."""
    with duckdb.connect() as db:
        db.execute(
            f"CREATE TEMP TABLE panes AS SELECT epoch_us(ts) // {SECOND} AS t, symbol, {AGGREGATES} "
            f"FROM read_parquet('{world.path}') GROUP BY ALL"
        )
        for q in questions:
            yield q.name, windows_of(db, q, "panes", "t", MERGED_AGGREGATES, 1)


def duckdb_slices(world: World, questions: list[Question]) -> Answers:
    """Slices at the edges of all queries once, then each query over slices."""
    with duckdb.connect() as db:
        db.execute(
            f"CREATE TEMP TABLE seconds AS SELECT DISTINCT epoch_us(ts) // {SECOND} AS second "
            f"FROM read_parquet('{world.path}')"
        )
        last_edge = ", ".join(
            f"second // {q.slide} * {q.slide}, (second - {q.range}) // {q.slide} * {q.slide} + {q.range}"
            for q in questions
        )
        db.execute(
            f"CREATE TEMP TABLE slices AS SELECT t, symbol, {AGGREGATES} FROM read_parquet('{world.path}') "
            f"JOIN (SELECT second, greatest({last_edge}) AS t FROM seconds) "
            f"ON second = epoch_us(ts) // {SECOND} GROUP BY ALL"
        )
        for q in questions:
            yield q.name, windows_of(db, q, "slices", "t", MERGED_AGGREGATES, 1)


def polars_dynamic(world: World, questions: list[Question]) -> Answers:
    """``group_by_dynamic``, a query at a time."""
    rows = pl.scan_parquet(world.path).set_sorted("ts")
    for q in questions:
        windows = rows.group_by_dynamic(
            "ts", every=f"{q.slide}s", period=f"{q.range}s", group_by="symbol", closed="left"
        )
        found = windows.agg(shares=pl.sum("volume"), trades=pl.len(), top=pl.max("price")).collect()
        yield q.name, found.with_columns(window_start=pl.col("ts").dt.epoch("us")).to_arrow()


def parts_of(rows: pl.LazyFrame) -> pl.DataFrame:
    made = rows.group_by("t", "symbol").agg(shares=pl.sum("volume"), trades=pl.len(), top=pl.max("price"))
    return made.collect(engine="streaming")


def polars_windows(parts: pl.DataFrame, questions: list[Question]) -> Answers:
    """The windows of the questions over panes or slices."""
    frames = []
    for q in questions:
        first, last = (pl.col("t") - q.range) // q.slide + 1, pl.col("t") // q.slide + 1
        frames.append(
            parts.lazy()
            .with_columns(k=pl.int_ranges(first, last))
            .explode("k")
            .group_by("k", "symbol")
            .agg(pl.sum("shares"), pl.sum("trades"), pl.max("top"))
            .with_columns(window_start=pl.col("k") * (q.slide * SECOND))
        )
    for q, answer in zip(questions, pl.collect_all(frames)):
        yield q.name, answer.to_arrow()


def polars_panes(world: World, questions: list[Question]) -> Answers:
    """Panes of a second once, then each query over panes."""
    rows = pl.scan_parquet(world.path)
    yield from polars_windows(parts_of(rows.with_columns(t=pl.col("ts").dt.epoch("s"))), questions)


def polars_slices(world: World, questions: list[Question]) -> Answers:
    """Slices at the edges of all queries once, then each query over slices."""
    rows = pl.scan_parquet(world.path).with_columns(second=pl.col("ts").dt.epoch("s"))
    second = pl.col("second")
    edges = [second // q.slide * q.slide for q in questions]
    edges += [(second - q.range) // q.slide * q.slide + q.range for q in questions]
    seconds = rows.select("second").unique().with_columns(t=pl.max_horizontal(*edges))
    yield from polars_windows(parts_of(rows.join(seconds, on="second")), questions)


RIVALS = (
    Rival("weft, in-process", weft_inprocess),
    Rival("weft, Spark", weft_spark),
    Rival("weft, Spark stream", weft_stream),
    Rival("Spark, one by one", spark_batch, at_a_time=1),
    Rival("Spark, streams", spark_streams, at_a_time=MAX_STREAMS, over=("stream",)),
    Rival("Flink, streams", flink_streams, at_a_time=MAX_STREAMS, over=("stream",)),
    Rival("DuckDB, one by one", duckdb_one_by_one, at_a_time=1),
    Rival("DuckDB, shifted tumbling", duckdb_shifted, at_a_time=1),
    Rival("DuckDB, panes", duckdb_panes),
    Rival("DuckDB, slices", duckdb_slices),
    Rival("Polars, group_by_dynamic", polars_dynamic, at_a_time=1, holes=True),
    Rival("Polars, panes", polars_panes),
    Rival("Polars, slices", polars_slices),
)


def tumbling(world: World) -> dict[str, Callable[[], Any]]:
    """One tumbling aggregate of a minute: the least that any of them can do."""
    source = f"read_parquet('{world.path}')"
    minute = f"SELECT symbol, epoch_us(ts) // {60 * SECOND} AS k, {AGGREGATES} FROM {source} GROUP BY ALL"
    frame = pl.scan_parquet(world.path).group_by(pl.col("ts").dt.truncate("1m"), "symbol")
    values = {"shares": pl.sum("volume"), "trades": pl.len(), "top": pl.max("price")}
    return {
        "DuckDB": lambda: duckdb.sql(minute).to_arrow_table(),
        "Polars": lambda: frame.agg(**values).collect(engine="streaming"),
    }


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Measure every rival at every N; raise if two disagree."""
    rows, tries, enough = (QUICK_ROWS, 1, QUICK_MAX_SECONDS) if quick else (ROWS, TRIES, MAX_SECONDS)
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder, ExitStack() as open_until_done:
        progress("generating trades", 0, 1)
        (path,) = write_parquet(Path(folder) / "trades", rows, files=1, rate=RATE)
        write_last(str(path), Path(folder) / "last")
        spark = weft.session("local[*]", {"spark.driver.memory": "6g"})
        spark.conf.set("spark.sql.shuffle.partitions", 4)
        flink = None
        if _flink.PYTHON.exists():
            flink = open_until_done.enter_context(_flink.serving(str(path), Path(folder) / "flink"))
            flink.ask(sliding(COUNTS[1]))  # its JVM is cold, where Spark's has run weft's queries
        world = World(str(path), Path(folder), spark, settled(str(path)), flink)
        rivals = [rival for rival in RIVALS if flink or rival.answers is not flink_streams]
        table, done, steps = [], 1, 1 + len(rivals) * len(COUNTS) + len(LARGE_COUNTS)
        for rival in rivals:
            for count in (*COUNTS, *LARGE_COUNTS) if rival is RIVALS[0] else COUNTS:
                progress(f"{rival.name}, N = {count}", done, steps)
                found = measure(rival, world, sliding(count), tries, enough)
                table.append({"rival": rival.name, "queries": count, **found})
                done += 1
        least = {name: least_of(work, tries) for name, work in tumbling(world).items()}
        progress("done", steps, steps)
    agree(table)
    for row in table:
        row["results"] = sum(rows for (rows, *_), _ in row.pop("answers").values())
    notes = [f"{rows:,} trades of 500 symbols in one Parquet file, at {RATE:.0f} rows/s of event time."]
    notes += [f"One tumbling minute: {name} {seconds:.2f} s." for name, seconds in least.items()]
    notes += [] if flink else ["Flink is not among them; `make flink` sets it up (about 850 MB)."]
    notes += scaled(table)
    return BenchmarkResult("peers", table, figures(table, rows, least), notes)


def least_of(work: Callable[[], Any], tries: int) -> float:
    seconds = []
    for _ in range(tries + 1):
        with stopwatch() as elapsed:
            work()
        seconds.append(elapsed())
    return min(seconds[1:])


def measure(
    rival: Rival, world: World, questions: list[Question], tries: int, enough: float
) -> dict[str, Any]:
    """The fewest seconds in so many tries after a first one; a slow rival answers a sample, and is scaled."""
    best = float("inf")
    for attempt in range(tries + 1):
        answers, comparing = {}, 0.0
        with stopwatch() as elapsed:
            for name, table in rival.answers(world, questions):
                with stopwatch() as apart:
                    answers[name] = summary(table), summary(since(table, world.settled))
                del table  # one may hold the memory of all, in the way of the next try
                comparing += apart()
                if rival.at_a_time and len(answers) % rival.at_a_time == 0 and elapsed() > enough:
                    break
        seconds = (elapsed() - comparing) * len(questions) / len(answers)
        # The first is a warm-up, but for those who are warm from fewer queries and of whom it shows enough.
        warm = attempt or len(questions) > COUNTS[0]
        shown = warm and rival.at_a_time and seconds > enough / 2
        if attempt or shown:
            best = min(best, seconds)
        if shown:
            break
    return {"seconds": best, "run": len(answers), "answers": answers, "holes": rival.holes}


def settled(path: str) -> int:
    """Return the time when every symbol has traded."""
    first = duckdb.sql(f"SELECT max(t) FROM (SELECT min(epoch_us(ts)) AS t FROM '{path}' GROUP BY symbol)")
    return int(first.fetchall()[0][0])


def since(table: pa.Table, time: int) -> pa.Table:
    """The windows that start then or later."""
    return table.filter(pc.greater_equal(table["window_start"].cast(pa.int64()), time))


def summary(table: pa.Table) -> tuple[int, ...]:
    """Enough of a query's answers to tell whether two rivals agree: prices are in whole cents."""
    cents = pc.cast(pc.round(pc.multiply(table["top"], 100)), pa.int64())
    starts = pc.divide(table["window_start"].cast(pa.int64()), SECOND)
    columns = (table["shares"], table["trades"], cents, starts)
    return table.num_rows, *(int(pc.sum(column).as_py() or 0) for column in columns)


def agree(table: list[dict[str, Any]]) -> None:
    """Raise unless all gave the same answers to every query that they ran."""
    expected = {row["queries"]: row["answers"] for row in table if row["rival"] == RIVALS[0].name}
    for row in table:
        for name, found in row["answers"].items():
            wanted = expected[row["queries"]][name]
            if found[row["holes"] :] != wanted[row["holes"] :]:
                raise AssertionError(f"{row['rival']} and weft disagree on {name}: {found} and {wanted}")


def scaled(table: list[dict[str, Any]]) -> list[str]:
    """Return notes on what was scaled instead of run."""
    return [
        f"{row['rival']}, N = {row['queries']}: {row['run']} queries were run and the time scaled."
        for row in table
        if row["run"] < row["queries"]
    ]


def figures(table: list[dict[str, Any]], rows: int, least: dict[str, float]) -> dict[str, float]:
    """The ratios that sum the table up, and what streams take in."""
    took = {(row["rival"], row["queries"]): row["seconds"] for row in table}
    few, most = COUNTS[-2], COUNTS[-1]
    weft_names = dict(zip(("inprocess", "spark", "stream"), (rival.name for rival in RIVALS)))
    ratios = {f"stream_rows_per_second_{most}": rows / took[weft_names["stream"], most]}
    for rival in RIVALS[len(weft_names) :]:
        if (rival.name, most) not in took:
            continue
        short = rival.name.lower().replace(", ", "_").replace(" ", "_")
        for way in rival.over:
            ratios[f"{short}_over_{way}_{most}"] = took[rival.name, most] / took[weft_names[way], most]
        if "stream" in rival.over:
            ratios[f"{short}_rows_per_second_{most}"] = rows / took[rival.name, most]
    inside = weft_names["inprocess"]
    ratios["inprocess_1_over_tumbling"] = took[inside, 1] / least["DuckDB"]
    if LARGE_COUNTS:
        last = max(row["queries"] for row in table)
        results = next(r["results"] for r in table if r["rival"] == inside and r["queries"] == last)
        ratios[f"inprocess_{last}_over_{few}"] = took[inside, last] / took[inside, few]
        ratios[f"inprocess_ns_per_result_{last}"] = took[inside, last] / results * 1e9
    return ratios


def render(result: BenchmarkResult) -> Table:
    """Seconds by rival and N; in brackets, how many times those of weft in one process."""
    counts = sorted({row["queries"] for row in result.rows})
    took = {(row["rival"], row["queries"]): row["seconds"] for row in result.rows}
    table = Table(title="Seconds for N queries (in brackets: times the seconds of weft in one process)")
    table.add_column("")
    for count in counts:
        table.add_column(f"N = {count:,}", justify="right")
    for rival in dict.fromkeys(row["rival"] for row in result.rows):
        cells = []
        for count in counts:
            seconds = took.get((rival, count))
            over = "" if seconds is None else f" ({seconds / took[RIVALS[0].name, count]:.1f})"
            cells.append("" if seconds is None else f"{seconds:.2f}{over}")
        table.add_row(rival, *cells)
    return table


def draw(result: BenchmarkResult, folder: Path) -> list[Path]:
    """Seconds against N: a colour for each engine, a marker for each of its ways."""
    figure, (place,) = axes(
        "The same queries by weft and by its peers", "queries", "seconds", width=7.4, height=4.2
    )
    ways: dict[str, list[str]] = {}
    for rival in dict.fromkeys(row["rival"] for row in result.rows):
        lines = [row for row in result.rows if row["rival"] == rival]
        engine = rival.partition(",")[0]
        ways.setdefault(engine, []).append(rival)
        style = {"linewidth": 2.2} if engine == "weft" else {"linewidth": 0.9, "linestyle": "--"}
        place.plot(
            [row["queries"] for row in lines],
            [row["seconds"] for row in lines],
            color=f"C{list(ways).index(engine)}",
            marker=MARKERS[len(ways[engine]) - 1],
            markersize=4,
            label=rival,
            **style,
        )
    place.set_xscale("log", base=2)
    place.set_yscale("log")
    legend(figure, place)
    return save({"peers": figure}, folder)
