"""Queries that differ in windows, predicates or both: shared against one by one and against native Spark.

The four workloads of Krishnamurthy, Wu, Franklin (SIGMOD 2006, section 6) over an hour of generated trades
with two lookup tables; docs/benchmarks.md says what is drawn how and what the figures mean.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from _plots import MARKERS, axes, legend, save
from _timing import best_of
from rich.console import Group
from rich.table import Table

import weft
from weft.cli.bench import BenchmarkResult, Progress
from weft.operators.lookups.tables import LookupTables
from weft.operators.windows import answer as engine
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.sharing import SharingChoice
from weft.operators.windows.spread import Places
from weft.testing import ticker_names, trades

ROWS, RATE, SYMBOLS = 1_138_636, 1_138_636 / 3600, 4000
"""An hour with as many trades as the paper's."""

SIZES = {"A": (16, 32, 64, 128, 256), "B": (16, 32, 64, 128, 256)}
SIZES |= {"C regular": (16, 36, 64, 144, 256), "C low": (16, 32, 64, 128, 256)}
SETS = 10
SAMPLE = 16
"""Queries run one by one at one size, by Spark and by weft; times and counts of more are scaled."""

PAPER = {"A": (50.48, 2.63), "B": (27.25, 3.01), "C regular": (31.19, 3.67), "C low": (34.56, 17.73)}
"""Seconds at 256 queries, unshared and shared."""

PAPER_COUNTS = {
    "A": (291_490_816, 6_813, 1_138_636, 1_462_391),
    "B": (116_101_112, 0, 1_094_947, 6_677_009),
    "C regular": (100_902_960, 6_955, 1_138_636, 2_256_496),
    "C low": (120_672_210, 6_812, 1_294_064, 63_984_043),
}
"""Aggregations at 256 queries: unshared partial and final, shared partial and final."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One query of the paper's template; times in seconds."""

    name: str
    range: int
    slide: int
    where: str

    def sql(self, spark: bool = False) -> str:
        """The query for weft, or for Spark alone."""
        bounds = "window.start AS window_start, window.end AS window_end, " if spark else ""
        where = f" WHERE {self.where}" if self.where else ""
        return (
            f"SELECT {bounds}sum(price * volume) AS value FROM trades "
            "JOIN close ON trades.symbol = close.symbol JOIN russell ON trades.symbol = russell.symbol"
            f"{where} GROUP BY window(ts, '{self.range} seconds', '{self.slide} seconds')"
        )


def queries(workload: str, count: int, seed: int) -> list[Asked]:
    """A set of so many queries of one of the paper's workloads (its section 6.1 and table 8).

    >>> len({(q.range, q.slide) for q in queries("C regular", 36, 0)})
    6
    """
    draw = np.random.default_rng((seed, count))
    distinct = isqrt(count) if workload == "C regular" else count
    windows = [(600, 600)] if workload == "B" else _different(lambda: _window(draw), distinct)
    wheres = [""] if workload == "A" else _different(lambda: _predicate(draw), distinct)
    if workload == "C regular":
        both = [(w, p) for w in windows for p in wheres]
    else:
        both = [(windows[i % len(windows)], wheres[i % len(wheres)]) for i in range(count)]
    return [Asked(f"q{i:03}", *window, where) for i, (window, where) in enumerate(both)]


def _different(make: Callable[[], Any], count: int) -> list[Any]:
    found: dict[Any, None] = {}
    while len(found) < count:
        found[make()] = None
    return list(found)


def _window(draw: np.random.Generator) -> tuple[int, int]:
    return int(draw.integers(600, 901)), int(draw.integers(300, 601))


def _predicate(draw: np.random.Generator) -> str:
    """Draw a condition: a stock is in an index or not, and volume, value or change beyond a round number."""
    member = f"{draw.choice(['', 'NOT '])}{draw.choice(['r3000', 'r2000', 'r1000'])}"
    quantity, unit, most = (
        ("volume", 10, 200),
        ("volume * price", 500, 200),
        ("abs(price - cp) / cp", 0.0005, 100),
    )[draw.integers(3)]
    constant = round(unit * int(draw.integers(1, most + 1)), 6)
    return f"{member} AND {quantity} {draw.choice(['<', '>'])} {constant}"


def stream(rows: int) -> pa.Table:
    """An hour of trades."""
    return pa.Table.from_batches(trades(rows, rate=rows / 3600, symbols=SYMBOLS, seed=1))


def static(rows: pa.Table) -> dict[str, pa.Table]:
    """Yesterday's closing prices, about 1% off today's first, and the three indexes."""
    draw = np.random.default_rng(2)
    names = ticker_names(SYMBOLS)
    first = rows.group_by("symbol", use_threads=False).aggregate([("price", "first")])
    known = dict(zip(first["symbol"].to_pylist(), first["price_first"].to_pylist()))
    close = [
        known.get(name, 50.0) * change
        for name, change in zip(names.to_pylist(), draw.normal(1, 0.02, SYMBOLS))
    ]
    rank = np.arange(SYMBOLS)
    return {
        "close": pa.table({"symbol": names, "cp": np.round(close, 2)}),
        "russell": pa.table(
            {
                "symbol": names,
                "r3000": rank < 3000,
                "r2000": (rank >= 1000) & (rank < 3000),
                "r1000": rank < 1000,
            }
        ),
    }


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Measure every workload at every size."""
    rows = stream(ROWS)
    tables = static(rows)
    sets = 1 if quick else SETS
    sizes = {name: (some[0], some[-1]) if quick else some for name, some in SIZES.items()}
    steps = sum(map(len, sizes.values()))
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        peers = Peers(rows, tables, Path(folder))
        table = []
        for workload, some in sizes.items():
            for count in some:
                progress(f"{workload}, {count} queries", len(table), steps)
                table.append(measure(workload, count, sets, peers, quick))
        progress("done", steps, steps)
    notes = [
        f"{ROWS:,} trades of an hour; {sets} sets of queries each.",
        f"One by one: at most {SAMPLE} queries of the first set, times and counts scaled.",
        "Native: Spark's own, the input in its memory. Unshared: weft in this process.",
    ]
    return BenchmarkResult("sharing", table, figures(table), notes)


class Peers:
    """All who answer the same queries."""

    def __init__(self, rows: pa.Table, tables: dict[str, pa.Table], folder: Path) -> None:
        self.rows, self.tables = rows, tables
        self.spark = weft.session(
            "local[*]", {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "2"}
        )
        self.spark.conf.set("spark.sql.shuffle.partitions", 2)
        self.files = folder / "trades"
        self.files.mkdir()
        for part in range(4):
            some = rows.slice(part * (ROWS // 4), ROWS // 4 if part < 3 else None)
            pq.write_table(some, self.files / f"part-{part}.parquet")
        self.frame = self.spark.read.parquet(str(self.files)).cache()
        self.frame.createOrReplaceTempView("trades")
        for name, table in tables.items():
            self.spark.createDataFrame(table).cache().createOrReplaceTempView(name)

    def shared(self, some: list[Asked], **options: Any) -> dict[str, pa.Table]:
        """weft in this process, all queries together."""
        plan = weft.plan(weft.sql(_text(some)), **options)
        return weft.run(plan, self.rows, time="ts", tables=self.tables)

    def unshared(self, some: list[Asked]) -> dict[str, pa.Table]:
        """weft in this process, one query after the other."""
        return {q.name: self.shared([q])[q.name] for q in some}

    def direct(self, questions: list[Asked]) -> dict[str, pa.Table]:
        """weft on Spark, reading files in its own tasks."""
        files = weft.Files(str(self.files))
        answers = weft.share(
            files, weft.sql(_text(questions)), time="ts", tables=self.tables, spark=self.spark
        )
        return answers.to_arrow()

    def dataframe(self, some: list[Asked]) -> dict[str, pa.Table]:
        """weft on Spark, over the same cached rows that native queries read."""
        return weft.share(self.frame, weft.sql(_text(some)), time="ts", tables=self.tables).to_arrow()

    def native(self, some: list[Asked]) -> dict[str, pa.Table]:
        """Spark alone, one query after the other."""
        return {q.name: self.spark.sql(q.sql(spark=True)).toArrow() for q in some}


def _text(some: list[Asked]) -> str:
    return ";\n".join(f"-- name: {q.name}\n{q.sql()}" for q in some)


def measure(workload: str, count: int, sets: int, peers: Peers, quick: bool) -> dict[str, Any]:
    """One row of the table: mean seconds over the sets, and the aggregations of the first."""
    sets_of_questions = [queries(workload, count, seed) for seed in range(sets)]
    sides: dict[str, Callable[[list[Asked]], dict[str, pa.Table]]] = {
        "shared": peers.shared,
        "direct": peers.direct,
        "dataframe": peers.dataframe,
    }
    if workload == "A":
        sides["paned"] = lambda questions: peers.shared(questions, slicer="panes")
    answers = {name: summary(side(sets_of_questions[0])) for name, side in sides.items()}  # warm
    row: dict[str, Any] = {"workload": workload, "queries": count}
    for name, side in sides.items():
        took = [
            best_of(1 if quick else 2, lambda side=side, questions=questions: side(questions))
            for questions in sets_of_questions
        ]
        row[name] = float(np.mean(took))
    questions = sample(sets_of_questions[0])
    for name, side in (("unshared", peers.unshared), ("native", peers.native)):
        answers[name] = summary(side(questions))  # warm
        row[name] = best_of(1, lambda side=side: side(questions)) * count / len(questions)
    agree(answers)
    return row | (aggregations(sets_of_questions[0], peers) if count == max(SIZES[workload]) else {})


def sample(some: list[Asked]) -> list[Asked]:
    """At most so many of the queries, drawn at random, to be run one by one."""
    return [some[i] for i in np.random.default_rng(0).permutation(len(some))[:SAMPLE]]


def summary(answers: dict[str, pa.Table]) -> dict[str, tuple[int, float]]:
    """Enough of each query's answers to tell whether two sides agree."""
    return {name: (table.num_rows, pc.sum(table["value"]).as_py() or 0.0) for name, table in answers.items()}


def agree(answers: dict[str, dict[str, tuple[int, float]]]) -> None:
    """Raise unless every side gave the same answers to every query it ran."""
    expected = answers["shared"]
    for side, given in answers.items():
        for name, (windows, value) in given.items():
            count, total = expected[name]
            if windows != count or abs(value - total) > 1e-9 * abs(total):
                raise AssertionError(f"{side} and shared disagree on {name}")


def aggregations(questions: list[Asked], peers: Peers) -> dict[str, int]:
    """Rows added to partials and states combined, together and one by one; and how many shards there were."""
    together, shared_final = _count(questions, peers)
    alone = [_count([question], peers) for question in sample(questions)]
    scale = len(questions) / len(alone)
    return {
        "unshared_partial": round(scale * sum(choice.rows for choices, _ in alone for choice in choices)),
        "unshared_final": round(scale * sum(combined for _, combined in alone)),
        "shared_partial": sum(c.pairs if c.how == "unshared" else c.rows for c in together),
        "shared_final": shared_final,
        "fragments": max(c.signatures for c in together),
        "shards": sum(c.shards for c in together),
    }


def _count(questions: list[Asked], peers: Peers) -> tuple[list[SharingChoice], int]:
    plan, tables = weft.plan(weft.sql(_text(questions))), LookupTables(peers.tables)
    program = compile_plan(plan, peers.rows.schema, "ts", tables=tables.schemas(plan.queries))
    running = weft.LocalRun(program, threads=1, tables=tables)
    with counting() as spent:
        running.step(peers.rows)
        choices = running.choices
        running.close()
    running.shutdown()
    return choices, spent["combined"]


@contextmanager
def counting() -> Iterator[dict[str, int]]:
    """Count the states that are combined: shards into slices of queries, and slices into windows."""
    spent = {"combined": 0}
    find_runs, spread, pairs = engine.find_runs, engine.spread, Places.pairs

    def counted_runs(*given: Any) -> Any:
        runs = find_runs(*given)
        low, high = runs.cells
        spent["combined"] += int((high - low).sum())
        return runs

    def counted_spread(*given: Any) -> Any:
        made = spread(*given)
        spent["combined"] += len(made.cell)
        return made

    def counted_pairs(self: Places, *given: Any) -> Any:
        for cell, place in pairs(self, *given):
            spent["combined"] += len(cell)
            yield cell, place

    with (
        patch.object(engine, "find_runs", counted_runs),
        patch.object(engine, "spread", counted_spread),
        patch.object(Places, "pairs", counted_pairs),
    ):
        yield spent


def figures(table: list[dict[str, Any]]) -> dict[str, float]:
    """Return how many times as long the unshared ways take at the largest size, and the paper's ratio."""
    ratios = {}
    for row in table:
        if row["queries"] == max(SIZES[row["workload"]]):
            name = row["workload"].replace(" ", "_").lower()
            unshared, shared = PAPER[row["workload"]]
            ratios[f"{name}_native_over_direct"] = row["native"] / row["direct"]
            ratios[f"{name}_native_over_dataframe"] = row["native"] / row["dataframe"]
            ratios[f"{name}_native_over_inprocess"] = row["native"] / row["shared"]
            ratios[f"{name}_unshared_over_shared"] = row["unshared"] / row["shared"]
            ratios[f"{name}_paper"] = unshared / shared
            if "paned" in row:
                ratios[f"{name}_paned_over_paired"] = row["paned"] / row["shared"]
    return ratios


SIDES = ("native", "unshared", "paned", "shared", "dataframe", "direct")
COUNTS = {
    "unshared_partial": "rows, one by one",
    "unshared_final": "states",
    "shared_partial": "rows, shared",
    "shared_final": "states",
    "fragments": "fragments",
    "shards": "shards",
}


def render(result: BenchmarkResult) -> Group:
    """Seconds, then aggregations at the largest size beside the paper's."""
    seconds = Table("workload", "n", *SIDES, "gain", "paper", title="Seconds; gain: native over direct")
    counts = Table("256 queries", "whose", *COUNTS.values(), title="Aggregated, in thousands")
    for table in (seconds, counts):
        table.columns[0].no_wrap = True
        for column in table.columns[1:]:
            column.justify = "right"
    for row in result.rows:
        times = [f"{row[side]:.2f}" if side in row else "" for side in SIDES]
        largest = row["queries"] == max(SIZES[row["workload"]])
        unshared, shared = PAPER[row["workload"]]
        paper = f"{unshared / shared:.1f}" if largest else ""
        gain = f"{row['native'] / row['direct']:.1f}"
        seconds.add_row(row["workload"], str(row["queries"]), *times, gain, paper)
        if largest:
            counts.add_row(row["workload"], "weft", *(_thousands(row[name]) for name in COUNTS))
            counts.add_row("", "paper", *map(_thousands, PAPER_COUNTS[row["workload"]]))
    return Group(seconds, counts)


def _thousands(count: int) -> str:
    return f"{count / 1000:,.0f}" if count >= 10_000 else f"{count / 1000:,.1f}"


def draw(result: BenchmarkResult, folder: Path) -> list[Path]:
    """Seconds against queries, a plot for each workload (figures 13 to 16 of the paper)."""
    drawn = {}
    for workload in SIZES:
        rows = [row for row in result.rows if row["workload"] == workload]
        figure, (place,) = axes(f"Workload {workload}", "queries", "seconds")
        for mark, side in zip(MARKERS, SIDES):
            if side in rows[0]:
                place.plot([r["queries"] for r in rows], [r[side] for r in rows], f"{mark}-", label=side)
        place.set(xscale="log", yscale="log")
        legend(figure, place)
        drawn[workload.lower().replace(" ", "_")] = figure
    return save(drawn, folder)
